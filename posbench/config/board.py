"""The definition of a board, as conf/board/NAME.yaml writes it down.

A board is a YAML file: groups of tasks, rows with their seeds, and how scores are summarised. The
sweep reads from it what is to be run, the leaderboard how it is judged and in which tables it is
shown.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from posbench.base.content_hash import content_hash
from posbench.base.errors import PosbenchError, first_mistake
from posbench.base.wording import closest
from posbench.config.folders import names as option_names
from posbench.config.methods import AS_TRAINED
from posbench.config.words import Word
from posbench.config.yaml_text import loaded

# -- boards ----------------------------------------------------------------------------------------


class DefinitionPart(BaseModel):
    """A part of a definition: what is not declared is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Rows(DefinitionPart):
    """Rows of the board, and the seeds with which they are run.

    They are `methods` by name, or each of `encodings` with each of `extensions`, all with the same
    `settings`, which are written as on the command line. A setting that lists several values, as in
    `encoding.base=10,100`, makes a row of each of them, as a sweep does. Tasks of `once` take long,
    and are run with the first seed alone.
    """

    about: str = ""  # a sentence above their table
    methods: tuple[str, ...] = ()
    encodings: tuple[str, ...] = ()
    extensions: tuple[str, ...] = (AS_TRAINED,)
    settings: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()  # () for all of the board's
    protocol: str = ""  # "" for the board's
    experiments: tuple[str, ...] = ()  # each with a protocol and a task of its own, instead of both
    seeds: tuple[int, ...] = Field(min_length=1)
    once: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _has_rows(self) -> Rows:
        if not self.methods and not self.encodings:
            raise ValueError("names no methods and no encodings")
        if self.experiments and (self.tasks or self.protocol):
            raise ValueError("names experiments, which choose protocol and tasks: leave those out")
        return self

    def seeds_of(self, task: str) -> tuple[int, ...]:
        """The seeds with which a task is run."""
        return self.seeds[:1] if task in self.once else self.seeds

    @property
    def words(self) -> list[tuple[str, ...]]:
        """The words of the command line that choose each row."""
        pairs = itertools.product(self.encodings, self.extensions)
        found: list[tuple[str, ...]] = [(f"method={name}",) for name in self.methods]
        found += [
            (f"encoding={encoding}", f"extension={extension}") for encoding, extension in pairs
        ]
        return [(*row, *settings) for row in found for settings in self.combinations]

    @property
    def combinations(self) -> list[tuple[str, ...]]:
        """The settings of each row; several where they list several values."""
        each = ([word] if "," not in word else Word.of(word).each() for word in self.settings)
        return list(itertools.product(*each))


class Contrast(DefinitionPart):
    """A prediction about pairs of rows, by the names that tables have, written before the runs.

    It holds for a pair if, over the tasks that both have learned, the first reaches further than
    the second by more than `by` in the mean; or, where there is a `share`, on at least that share
    of these tasks. Where tests ask for the same tokens at every length, it holds if the second
    loses more from 1x to 8x than the first, by more than `by` nats a token.
    """

    pairs: tuple[tuple[str, str], ...] = Field(min_length=1)
    by: float = Field(default=0.0, ge=-1, le=1)  # as an area; below 0: may be less by so much
    share: float | None = Field(default=None, gt=0, le=1)


class Group(DefinitionPart):
    """Tasks that ask for one capability."""

    asks: str  # to do what, in words
    tasks: tuple[str, ...] = Field(min_length=1)


class JudgingRule(DefinitionPart):
    """What is made of the scores; the meaning of each is in posbench.statistics.measures.

    A board writes down how it is judged, and its hash holds it. All boards are judged alike but for
    the draws and the seed of the bootstrap, so that other values of the rest are refused.
    """

    longest: float = 8.0  # areas go from 1 to this multiple of the positions of training
    gate: float = 0.95  # the proficiency at 1x of a training that has learned its task
    reach: float = 0.5  # the score, corrected for chance, up to which a method reaches
    equivalent: float = 0.02  # overall scores that differ by less are not distinguished
    draws: int = Field(default=10_000, ge=100)  # of the bootstrap
    seed: int = 0  # of the bootstrap

    @field_validator("longest", "gate", "reach", "equivalent")
    @classmethod
    def _as_all_boards(cls, value: float, info: ValidationInfo) -> float:
        usual = cls.model_fields[str(info.field_name)].default
        if value != usual:
            raise ValueError(f"{value:g} is not offered: every board has {usual:g}, leave it out")
        return value


class Change(DefinitionPart):
    """A mistake that was mended after the board's first run."""

    date: str
    of: str  # the hash of the definition before
    why: str


class Board(DefinitionPart):
    """A board; `hash` is of all of it that decides what is run and how it is judged."""

    name: str
    question: str = ""  # which it answers, and its page is called after
    about: str = ""
    protocol: str = "cpu"
    groups: dict[str, Group] = {}
    tasks: tuple[str, ...] = ()  # where there are no groups
    multiples: tuple[float, ...] = ()  # the lengths of the tests, as the protocol must have them
    judged: JudgingRule = JudgingRule()
    references: tuple[str, ...] = ()  # rows that are named beside any other
    parts: dict[str, Rows] = Field(min_length=1)
    contrasts: dict[str, Contrast] = {}  # by a sentence that they say
    changes: tuple[Change, ...] = ()

    @model_validator(mode="after")
    def _has_tasks(self) -> Board:
        grouped = [task for group in self.groups.values() for task in group.tasks]
        alone = all(rows.experiments for rows in self.parts.values())
        if (grouped and self.tasks) or not (grouped or self.tasks or alone):
            raise ValueError("needs either groups of tasks or a list of tasks")
        repeated = sorted({task for task in grouped if grouped.count(task) > 1})
        if repeated:
            raise ValueError(f"has the task {repeated[0]} twice")
        for name, rows in self.parts.items():
            for task in (*rows.tasks, *rows.once):
                if task not in self.all_tasks:
                    raise ValueError(
                        f"part {name} names {task}, which is none of the board's tasks: add it to "
                        "them, or leave it out of the part"
                    )
        return self

    @property
    def all_tasks(self) -> tuple[str, ...]:
        """Every task, group by group."""
        return self.tasks or tuple(self.group_of)

    def place(self, task: str) -> tuple[int, str]:
        """To sort tasks by: those of the board in their order, then the others by name."""
        tasks = self.all_tasks
        return (tasks.index(task) if task in tasks else len(tasks)), task

    @property
    def group_of(self) -> dict[str, str]:
        """The group of each task."""
        return {task: name for name, group in self.groups.items() for task in group.tasks}

    @property
    def hash(self) -> str:
        """What records carry: the definition without its name, its words and what was mended."""
        words: Any = {
            "name": True,
            "question": True,
            "about": True,
            "changes": True,
            "groups": {name: {"asks"} for name in self.groups},
            # What is empty is left out as if there were no such key: older records carry that hash.
            "parts": {
                title: {"about"} if rows.once else {"about", "once"}
                for title, rows in self.parts.items()
            },
        }
        if not self.contrasts:
            words["contrasts"] = True
        return content_hash(self.model_dump(mode="json", exclude=words))

    @property
    def hashes(self) -> set[str]:
        """Definitions whose records may be on the board: today's, and those before a change."""
        return {self.hash, *(change.of for change in self.changes)}


def names(folders: Sequence[Path] = ()) -> list[str]:
    """The boards there are: posbench's own, and those in board/ of the folders."""
    return option_names("board", folders)


def load(name: str, folders: Sequence[Path] = ()) -> Board:
    """The board of that name; PosbenchError says what is wrong with it, or that there is none."""
    if name not in (known := names(folders)):
        near = closest(name, known)
        meant = f"did you mean {near}? " if near else ""
        raise PosbenchError(
            f"board={name} is unknown: {meant}choose one of {', '.join(known)}, or write "
            f"board/{name}.yaml into a folder given with --config-dir"
        )
    places: list[Path | Traversable] = [*folders, files("posbench.conf")]
    sources = [place / "board" / f"{name}.yaml" for place in places]
    source = next(each for each in sources if each.is_file())
    return read(source.read_text(encoding="utf-8"), name)


def board_of(folder: Path, name: str | None = None, own: Sequence[Path] = ()) -> Board:
    """The board that a folder is judged by: the one named, the one it is called after, or main."""
    if name is None:
        name = folder.name if folder.name in names(own) else "main"
    return load(name, own)


@functools.cache
def read(text: str, name: str) -> Board:
    """The board that a text defines; PosbenchError names the first thing that is wrong. It is
    shared, and cannot be changed.
    """
    try:
        content: Any = loaded(text)
        if not isinstance(content, dict):
            raise PosbenchError(f"board {name} is not a mapping: see conf/board/main.yaml")
        return Board.model_validate({"name": name, "question": _question(text)} | content)
    except ValidationError as error:
        raise PosbenchError(f"board {name}: {first_mistake(error)}") from None
    except yaml.YAMLError as error:
        raise PosbenchError(f"board {name} is not YAML: {' '.join(str(error).split())}") from None


def _question(text: str) -> str:
    """The question that the first comment of a board's YAML begins with; "" where it asks none."""
    head = itertools.takewhile(lambda line: line.startswith("# "), text.splitlines())
    asked, mark, _ = " ".join(line[2:] for line in head).partition("?")
    return asked + mark if mark and "." not in asked else ""
