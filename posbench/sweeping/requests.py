"""From a command line to the words of every run that it asks for."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hydra.core.override_parser.types import QuotedString

from posbench.base.errors import ConfigError, PosbenchError
from posbench.base.wording import closest, duration, known_names
from posbench.config import board as definition
from posbench.config.board import Board, Rows
from posbench.config.folders import OF_A_ROW
from posbench.config.methods import Method, methods
from posbench.config.words import MOST, Word

Words = tuple[str, ...]
Listed = Mapping[str, list[str]]
"""The values of each key of a command line."""

CHOSEN = ("board", "protocol", "part", "task", "experiment", "seed", *OF_A_ROW)
"""What a board names itself. On the command line these choose among what it has, but `protocol`,
which takes the place of its own."""
SWEEP = "posbench sweep"
MANY, PACE = 200, 200
"""From so many runs on a message says that they are planned; so many are looked at in a second."""
OF_A_BOARD = (
    "part={part} chooses among the parts of a board: write posbench sweep board=NAME part={part}"
)


@dataclass(frozen=True)
class Request:
    """Runs in the order in which they are to be made."""

    runs: list[Words]
    board: Board | None = None
    parts: Mapping[Words, str] | None = None  # of the board, by run

    def lines(self) -> Iterator[str]:
        """The message before many runs are looked at, which takes a while."""
        if len(self.runs) >= MANY:
            of = f" of board {self.board.name}" if self.board else ""
            takes = duration(len(self.runs) / PACE)
            yield f"Planning {len(self.runs):,} runs{of}, which takes about {takes}."


def request(arguments: Sequence[str], folders: Sequence[Path] = ()) -> Request:
    """The runs of a board, or one for each combination of the values that the words list.

    PosbenchError if there is none.
    """
    read = [Word.of(text) for text in arguments]
    listed = {word.override.get_key_element(): _values(word, folders) for word in read}
    for key, values in listed.items():
        if key.lstrip("+") == "results_dir" and len(values) > 1:
            raise PosbenchError(
                f"results_dir={','.join(values)}: a sweep has one folder; sweep once for each"
            )
    names = listed.get("board", [])
    if len(names) > 1:
        raise PosbenchError(
            f"board={','.join(names)} names several boards: sweep one after the other"
        )
    if "part" in listed and not names:
        raise PosbenchError(OF_A_BOARD.format(part=",".join(listed["part"])))
    if (empty := next((key for key, values in listed.items() if not values), None)) is not None:
        raise ConfigError(f"{empty} lists no value, so there is nothing to run: give it one")
    if names:
        # Of a pattern or a range it is known that some is not there; of a name that is a mistake.
        spelt = {word.key for word in read if word.override.is_choice_sweep()}
        return _of_board(definition.load(names[0], folders), listed, spelt)
    if (count := math.prod(map(len, listed.values()))) > MOST:
        raise ConfigError(f"these words list {count:,} runs, and {MOST:,} are the most: name fewer")
    runs = [
        tuple(f"{key}={value}" for key, value in zip(listed, values, strict=True))
        for values in itertools.product(*listed.values())
    ]
    return Request(runs)


def _values(word: Word, folders: Sequence[Path]) -> list[str]:
    if word.key == "part":  # a title: it may have spaces, and quotes for a comma
        override = word.override
        found = override.sweep_iterator() if word.several else [override.value()]
        return [value.text if isinstance(value, QuotedString) else str(value) for value in found]
    return word.values(folders)


def _of_board(board: Board, listed: Listed, spelt: Container[str] = ()) -> Request:
    """The runs of a board: seeds outermost, so that it is balanced whenever one looks, then tasks.

    Rows that share a training follow each other.
    """
    protocols = listed.get("protocol", [""])
    if len(protocols) > 1:
        raise PosbenchError(f"protocol={','.join(protocols)}: a board is run under one protocol")
    further = {key: values for key, values in listed.items() if key not in CHOSEN}
    changes = [
        tuple(f"{key}={value}" for key, value in zip(further, values, strict=True))
        for values in itertools.product(*further.values())
    ]
    parts: dict[Words, str] = {}
    order = {task: index for index, task in enumerate(board.all_tasks)}
    found: list[tuple[tuple[int, int, Words, Words], Words]] = []
    known: list[dict[str, str]] = []
    for part, rows in board.parts.items():
        places = list(_places(board, rows, protocols[0]))
        for place, row, seed in itertools.product(places, rows.words, rows.seeds):
            on = dict(word.partition("=")[::2] for word in place)
            if seed not in rows.seeds_of(on.get("task", "")):
                continue
            known.append({**on, "part": part, "seed": str(seed)} | _of_row(row))
            if not _asked(known[-1], listed):
                continue
            for change in changes:
                words = (*place, *row, f"seed={seed}", *change, f"definition={board.hash}")
                if words not in parts:
                    parts[words] = part
                    found.append(((seed, order.get(on.get("task", ""), 0), place, row), words))
    for key in CHOSEN[2:]:
        for value in listed.get(key, []) if key in spelt else ():
            if not any(each.get(key) == value for each in known):
                raise PosbenchError(_nothing(board, known, {key: [value]}))
    if not found:
        raise PosbenchError(_nothing(board, known, listed))
    return Request([words for _, words in sorted(found)], board, parts)


def _places(board: Board, rows: Rows, protocol: str) -> Iterator[Words]:
    """The words for what each row of a part is trained and tested on."""
    if rows.experiments and protocol:
        raise PosbenchError(
            f"protocol={protocol}: board {board.name} runs experiments, each with a protocol of "
            "its own: leave it out"
        )
    for experiment in rows.experiments:
        yield (f"experiment={experiment}",)
    if not rows.experiments:
        for task in rows.tasks or board.all_tasks:
            yield f"protocol={protocol or rows.protocol or board.protocol}", f"task={task}"


def _asked(named: Mapping[str, str], listed: Listed) -> bool:
    return all(named.get(key) in listed[key] for key in CHOSEN[2:] if key in listed)


@functools.cache
def _of_row(row: Words) -> dict[str, str]:
    """The method, encoding and extension of a row, whichever of them its words say."""
    named = dict(word.partition("=")[::2] for word in row)
    chosen = methods().get(named.get("method", ""))
    if chosen is not None:
        return {"encoding": chosen.encoding, "extension": chosen.extension} | named
    pair = Method(named["encoding"], named["extension"])
    names = [name for name, method in methods().items() if method == pair]
    return named | {"method": names[0]} if names else named


def _nothing(board: Board, known: Sequence[Mapping[str, str]], listed: Listed) -> str:
    """Which of the words chooses nothing by itself, or that they choose nothing together."""
    chosen = {key: listed[key] for key in CHOSEN[2:] if key in listed}
    for key, values in chosen.items():
        if not any(_asked(each, {key: values}) for each in known):
            has = dict.fromkeys(each[key] for each in known if key in each)
            if not has:
                named = set().union(*known)
                others = ", ".join(f"{other}=" for other in CHOSEN[2:] if other in named)
                return (
                    f"{key}={','.join(values)}: board {board.name} names no {key}: leave it out, "
                    f"and choose with {others}"
                )
            near = None if values[0].isdigit() else closest(values[0], has)
            return (
                f"{key}={','.join(values)} is not on board {board.name}: "
                f"{known_names(has, None, near)}"
            )
    words = " ".join(f"{key}={','.join(values)}" for key, values in chosen.items())
    return f"board {board.name} has each of {words}, but no run with all of them: leave one out"
