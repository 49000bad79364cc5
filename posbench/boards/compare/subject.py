"""What is compared: a row of words, and the runs that the board asks of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from posbench.base.errors import PosbenchError
from posbench.base.wording import closest, known_names
from posbench.boards.compare.rivals import Rivals
from posbench.config.board import AS_TRAINED, Board
from posbench.config.compose import compose
from posbench.config.folders import GROUPS, OF_A_ROW, check_file, names
from posbench.config.identity import identify
from posbench.config.mistakes import HELP, check_choice
from posbench.config.words import Word, is_file
from posbench.statistics.aggregates import FEWEST
from posbench.sweeping.requests import Request, Words

OF_TESTS = ("task", "seed", "protocol")
USUAL_SEEDS = 3
"""How many of the board's seeds are taken, if the command line names none."""


@dataclass(frozen=True)
class RowSubject:
    """A row, chosen by words of the command line, and the folder of the user that they are in.

    `tests` holds what the words say of tasks, seeds and the protocol; `others` are for the runs:
    where they keep their results, how they are launched.
    """

    row: Words
    tests: dict[str, list[str]]
    others: Words
    folder: Path | None

    @property
    def folders(self) -> list[Path]:
        return [self.folder] if self.folder else []

    def protocol(self, board: Board) -> str:
        """The protocol that the words name, or the board's."""
        return one_protocol(self.tests, board)

    def command(self, board: Board, tasks: Sequence[str], seeds: Sequence[int]) -> list[str]:
        """The words of the sweep that makes these runs: seeds outermost, as the board is run."""
        protocol = self.protocol(board)
        return [
            *(("--config-dir", str(self.folder)) if self.folder else ()),
            "-m",
            f"protocol={protocol}",
            f"seed={','.join(map(str, seeds))}",
            f"task={','.join(tasks)}",
            *self.row,
            *self.others,
            f"definition={board.hash}",
        ]

    def runs(self, board: Board, tasks: Sequence[str], seeds: Iterable[int]) -> Request:
        """The runs on these tasks with these seeds, each with its words."""
        protocol = self.protocol(board)
        return Request(
            [
                (
                    *(f"protocol={protocol}", f"task={task}", *self.row, f"seed={seed}"),
                    *self.settings,
                    f"definition={board.hash}",
                )
                for seed in seeds
                for task in tasks
            ]
        )

    @property
    def settings(self) -> Words:
        """The words of `others` that a run is composed with: all but Hydra's own."""
        return tuple(word for word in self.others if not Word.of(word).key.startswith("hydra"))

    def chosen_tasks(
        self,
        rivals: Rivals,
        *,
        quick: bool = False,
        whole: bool = False,
        trained: Sequence[str] = (),
    ) -> list[str]:
        """The tasks that the words name; or of those that most rivals have been run on the ones
        that separate rows fastest, best first.

        These are the tasks that resolve more pairs of published rows in an hour than all of them
        together, see `Rivals.separating`; three are the least, as an interval takes so many. To be
        quick, the first three; the whole board, if that is asked for. Where three or more are
        `trained`, whose weights are there already, they are all that is taken.

        PosbenchError names a task on which there is nothing to compare with.
        """
        board = rivals.board
        if "task" in self.tests:
            named = some_of("task", self.tests["task"], board.all_tasks)
            if lacking := [task for task in named if task not in rivals.tried]:
                raise PosbenchError(
                    f"task={','.join(lacking)}: there is no published run to compare with; choose "
                    f"among {', '.join(rivals.tried)}, or name a folder of records with --against"
                )
            return named
        if whole:
            return rivals.common or rivals.tried
        worth = rivals.separating
        free = [task for task in worth.index if task in trained]
        if len(free) >= FEWEST:
            return free[:FEWEST] if quick else free
        usual = worth["resolved"].sum() / worth["hours"].sum() if worth["hours"].sum() else 0.0
        above = FEWEST if quick else max(FEWEST, int((worth["rate"] >= usual).sum()))
        return [str(task) for task in worth.index[:above]]

    def refuse_other_tasks(self, board: Board, tasks: Sequence[str]) -> None:
        """PosbenchError if the settings make another task of one of these: none of its runs could
        be compared with those of the board.
        """
        for words in self.runs(board, tasks, [0]).runs:
            named = identify(compose(*words)).task
            if named.changed:
                raise PosbenchError(
                    f"with {', '.join(named.changed)} {named.name} is another task than that of "
                    f"board {board.name}: leave that out"
                )

    def chosen_seeds(self, board: Board, *, quick: bool) -> list[int]:
        """The seeds that the words name, or the first three of the board, or if quick the first."""
        return list(offered_seeds(board, self.tests.get("seed"), 1 if quick else USUAL_SEEDS))


def subject(words: Sequence[str], board: Board, folder: Path | None = None) -> RowSubject:
    """What the words of the command line choose; PosbenchError says what is wrong with them.

    A word may be the path of a YAML file of the user: its folder says what it is, and the folder
    around that is what `--config-dir` would name.
    """
    chosen: dict[str, Word] = {}
    rest: list[Word] = []
    for text in words:
        if is_file(text):
            group, name, around = of_file(Path(text), OF_A_ROW)
            if folder is not None and folder.resolve() != around.resolve():
                raise PosbenchError(
                    f"{text} is not in {folder}: what is compared lies in one folder"
                )
            chosen[group], folder = Word.of(f"{group}={name}"), around
        elif "=" not in text:
            raise PosbenchError(
                f"{text} is neither a YAML file nor key=value: give the file of your encoding, as "
                "mine/encoding/decay.yaml, or choose with encoding=, extension= or method=NAME"
            )
        elif (word := Word.of(text)).key in OF_A_ROW:
            chosen[word.key] = word
        else:
            rest.append(word)
    if not chosen:
        raise PosbenchError(
            "there is nothing to compare: give the file of your encoding or extension, as "
            "mine/encoding/decay.yaml, or choose a method, as method=rope encoding.base=500"
        )
    others = [word for word in rest if word.key not in OF_TESTS]
    refuse_several([*chosen.values(), *others], "one row is compared at a time")
    own = [folder] if folder else []
    for group, word in chosen.items():
        for name in word.values():
            check_choice(group, name, names(group, own))
    tests = {word.key: word.values(own) for word in rest if word.key in OF_TESTS}
    one_protocol(tests, board)
    return RowSubject(
        (*_row(chosen, board), *(word.text for word in others if word.makes_row)),
        tests,
        tuple(word.text for word in others if not word.makes_row),
        folder,
    )


def host(board: Board) -> str:
    """The encoding on which the board ranks extensions: that of its first part with several."""
    for rows in board.parts.values():
        if len(rows.extensions) > 1 and rows.encodings:
            return rows.encodings[0]
    raise PosbenchError(
        f"board {board.name} ranks no extensions: choose its host with encoding=NAME"
    )


def _row(chosen: Mapping[str, Word], board: Board) -> Words:
    words = {group: word.text for group, word in chosen.items()}
    if "method" in chosen:
        return tuple(words.values())
    encoding = words.get("encoding") or f"encoding={host(board)}"
    return (encoding, words.get("extension", f"extension={AS_TRAINED}"))


def offered_seeds(board: Board, named: Sequence[str] | None, most: int) -> tuple[int, ...]:
    """The seeds of the board that are asked for, or the first of them."""
    offered = sorted({seed for rows in board.parts.values() for seed in rows.seeds})
    if named is None:
        return tuple(offered[:most])
    return tuple(int(seed) for seed in some_of("seed", named, list(map(str, offered))))


def one_protocol(tests: Mapping[str, list[str]], board: Board) -> str:
    """The protocol that words name, or the board's."""
    chosen = tests.get("protocol", [board.protocol])
    if len(chosen) > 1:
        raise PosbenchError(f"protocol={','.join(chosen)}: a board has one protocol")
    return chosen[0]


def refuse_several(words: Sequence[Word], why: str) -> None:
    """PosbenchError names a word that a sweep would take for several."""
    for word in words:
        if word.several:
            raise PosbenchError(f"{word.text} lists several values, and {why}: choose one of them")


def folder_of(path: str | Path) -> Path:
    """The folder of a file as its path has it: ".." is followed, and links are kept."""
    return Path(os.path.abspath(path)).parent  # noqa: PTH100


def of_file(path: Path, groups: Sequence[str]) -> tuple[str, str, Path]:
    """The group and name that a file of the user has by its place, and the folder around both."""
    if not path.is_file():
        raise PosbenchError(f"{path} is no file: give the path of a YAML file of yours")
    group, folder = folder_of(path).name, folder_of(path).parent
    if group not in groups:
        kinds = ", ".join(f"{name}/ ({GROUPS[name]})" for name in (*sorted(OF_A_ROW), "task"))
        raise PosbenchError(
            f"{path} lies in a folder {group}/, so nobody knows what it is: put it into one of "
            f"{kinds}"
        )
    check_file(path, group)
    return group, path.stem, folder


def some_of(key: str, named: Sequence[str], offered: Sequence[str]) -> list[str]:
    """What is asked for, if it is offered; PosbenchError names what is not."""
    for name in named:
        if name not in offered:
            near = None if name.isdigit() else closest(name, offered)  # 1 is not meant by 14
            said = known_names(offered, HELP, near)
            raise PosbenchError(f"{key}={name} is unknown: {said}")
    return list(named)
