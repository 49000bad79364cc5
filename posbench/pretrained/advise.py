"""`posbench pretrained advise`: which extension to serve a model with, by the published records.

    posbench pretrained advise trained=8192 base=500000 target=16384
    posbench pretrained advise model=FOLDER target=16384 how=attention cache=false

Small models were trained by posbench at two bases. The one is chosen of which a share of the pairs
of channels turns within the trained length that is most like yours. A table says what extensions
gained over none at the multiple of the trained length, and what they cost at 1x. Below it are the
settings of servers for the first one, and what to measure next.

    model      a folder with a config.json, or a .gguf file, which says the two next ones
    trained    positions of training
    base       rope_theta
    channels   those of a head that are rotated: 128 where no model says another number
    target     the longest length that is to be served
    how        configuration by default: what servers take without code of yours; or attention:
               anything that an attention of your own can compute
    cache      true by default: keys of earlier tokens are cached as they were turned
    record     a folder of records of posbench pretrained: whether the model answers at 1x at all
    results    the folder of the published records: results by default, or what posbench came with
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from posbench.base.errors import ConfigError
from posbench.base.wording import counted, listed
from posbench.boards.measured_runs import sketches
from posbench.config import command_lines
from posbench.config.building import build
from posbench.config.compose import composing
from posbench.config.folders import own_names
from posbench.config.options import resolved
from posbench.core.extension import Extension
from posbench.extensions.served import FOLLOWS
from posbench.pretrained.command import FARTHEST, LAST_TOKENS, PERPLEXITY
from posbench.pretrained.loading import Files
from posbench.pretrained.model_file import ModelFile, model_file
from posbench.pretrained.published import (
    HOSTS,
    HostRows,
    OneFactor,
    extension_of,
    interval,
    retrieval,
    signed,
)
from posbench.pretrained.request import settings_of
from posbench.pretrained.servers import FULL, Recipe, ServedModel
from posbench.records import files, tables
from posbench.showing.table import NOTHING, Column, Line, Table

HELP = "posbench pretrained advise --help"
LENGTHS = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
"""Multiples of the trained length of which the records have scores."""
MOST = 12
"""Rows of the table."""
PUBLISHED_BETA = 32
"""YaRN's `beta_fast` by its paper."""
REASONS = {
    "how=attention": "own attention: how=attention",
    "cache=false": "keys that change: cache=false",
    "how=attention cache=false": "own attention and keys that change: how=attention cache=false",
}
"""Why an extension is left out, by the words with which it is not."""


class AdviceSettings(BaseModel):
    """The words of the command."""

    model_config = ConfigDict(frozen=True)

    model: Path | None = None
    trained: Annotated[int, Field(ge=7)] | None = None
    base: Annotated[float, Field(gt=1, allow_inf_nan=False)] | None = None
    channels: Annotated[int, Field(gt=0, multiple_of=2)] | None = None
    target: Annotated[int, Field(gt=0)]
    how: Literal["configuration", "attention"] = "configuration"
    cache: bool = True
    record: Path | None = None
    results: Path | None = None


def main(arguments: list[str] | None = None) -> int:
    return command_lines.of_words("posbench pretrained advise", __doc__, arguments, _advised)


def _advised(words: list[str]) -> int:
    settings = settings_of(AdviceSettings, words, HELP)
    print("\n".join(Advice.of(settings).lines()), flush=True)
    return 0


PAIRS = 64
"""Of a head of 128 channels, where neither a file nor a word says another width."""


def _refuse(known: ModelFile, settings: AdviceSettings) -> None:
    """ConfigError for a model in which nothing can be stretched, or that is stretched already."""
    if not known.rotary:
        raise ConfigError(
            f"model={settings.model} has no rope_parameters in its config.json, by which "
            "extensions are set: choose a model that has"
        )
    trained, windows = settings.trained or known.trained, set(known.windows)
    if windows and all(0 < each <= trained for each in windows):
        raise ConfigError(
            f"model={settings.model} has windows of {listed([*map(str, sorted(windows))])} in all "
            f"its layers with rotary positions, within the {trained} positions of training, so no "
            "distance is new: nothing has to be stretched, and whether a temperature helps is "
            "measured by posbench pretrained with extension=log_n"
        )
    kinds = [name for name, each in known.rope.items() if isinstance(each, Mapping) or each is None]
    if known.rule == "proportional" or (kinds and not isinstance(known.rope.get(FULL), Mapping)):
        raise ConfigError(
            f"model={settings.model} turns its layers in a way that rope_parameters of an "
            "extension would replace: measure extensions with posbench pretrained, whose mounted "
            "model keeps it"
        )
    if not known.rule or settings.trained:
        return
    has = (
        f"model={settings.model} has rope_type {known.rule} already, and is configured for "
        f"{known.reaches} positions"
    )
    if settings.target <= known.reaches:
        raise ConfigError(f"{has}: nothing has to be extended up to target={settings.target}")
    told = known.trained < known.reaches or known.rule == "dynamic"  # by transformers, from there
    before = known.trained if told else "N"
    raise ConfigError(
        f"{has}. Settings for target={settings.target} would replace that, and the records say "
        f"nothing of two extensions: give trained={before}, the positions before it, to replace it"
    )


# -- the advice ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Advice:
    """What the records say to somebody with these settings."""

    settings: AdviceSettings
    model: ServedModel
    hosts: dict[str, HostRows]
    results: Path  # the folder of the published records
    rule: str = ""  # the extension that the model has already

    @classmethod
    def of(cls, settings: AdviceSettings) -> Advice:
        trained, base, known = settings.trained or 0, settings.base or 0.0, ModelFile(0, 0.0, 0, {})
        if settings.model is not None:
            known = model_file(Files(settings.model).path)
            _refuse(known, settings)
            trained, base = trained or known.trained, base or known.base
        if trained < 7 or base <= 1:
            given = {"trained": (trained, trained < 7), "base": (base, base <= 1)}
            wrong = [
                f"{name}={value:g}" if value else f"{name}= is missing"
                for name, (value, refused) in given.items()
                if refused
            ]
            raise ConfigError(
                f"{listed(wrong)}: give the positions of training, at least 7, and a base above 1, "
                "as trained=8192 base=500000, or a model= whose config.json says them"
            )
        if settings.target <= trained:
            raise ConfigError(
                f"target={settings.target} is within the {trained} positions of training: nothing "
                "has to be extended"
            )
        if settings.target > FARTHEST * trained:
            raise ConfigError(
                f"target={settings.target} is more than {FARTHEST:,} times the {trained} positions "
                f"of training, and the records end at {LENGTHS[-1]:g} times: name a nearer one"
            )
        pairs = (settings.channels or 0) // 2 or known.pairs or PAIRS
        near = {each for each in known.windows if 0 < each <= trained}
        shared = bool(near) and not any(isinstance(each, Mapping) for each in known.rope.values())
        model = ServedModel(
            trained,
            base,
            pairs,
            settings.target,
            known.rope,
            known.inside,
            max(near) if shared else 0,
            known.empty,
        )
        main = (settings.results or Path("results")) / "main"
        if settings.results is None and not main.is_dir():
            main = files.shipped()
        return cls(settings, model, HostRows.all_of(main), main.parent, known.rule)

    @property
    def like(self) -> str:
        """The host that is most like the model."""
        return min(HOSTS, key=lambda host: abs(HOSTS[host] - self.model.share))

    @property
    def multiple(self) -> float:
        """The measured multiple at or beyond the target; the longest where there is none."""
        wanted = self.model.factor
        return next((each for each in LENGTHS if each >= wanted - 1e-9), LENGTHS[-1])

    def candidates(self) -> dict[str, Extension]:
        """The extensions that may be chosen, by what is to be computed and cached."""
        return {name: each for name, (each, why) in self.judged.items() if not why}

    @functools.cached_property
    def judged(self) -> dict[str, tuple[Extension, str]]:
        """The extensions that were measured, each with the words that would let it in; "" for one
        that may be chosen as it is.
        """
        gains, found = self.hosts[self.like].gains(self.multiple), {}
        sketched = sketches()
        with composing():
            for name in map(str, gains.index):
                if (extension := self._built(name)) is None:
                    continue
                keys = str(sketched.get(f"rope_{name}", {}).get("keys", ""))
                recipe, why = Recipe.of(self.model, extension), []
                if self.settings.how == "configuration" and not recipe.by_configuration:
                    why.append("how=attention")
                if self.settings.cache and keys.lower().startswith("no"):
                    why.append("cache=false")
                found[name] = extension, " ".join(why)
        return found

    def left_out(self) -> Iterator[str]:
        """Which extensions are not in the table, and by which words they would be."""
        groups: dict[str, list[str]] = {}
        for name, (_, words) in self.judged.items():
            if words:
                groups.setdefault(words, []).append(name)
        if groups:
            parts = [f"{', '.join(sorted(groups[each]))} ({REASONS[each]})" for each in groups]
            yield f"Left out: {'; '.join(parts)}."

    def _built(self, name: str) -> Extension | None:
        """The extension at the model's length; None where no YAML is called so, as of a pair."""
        if name not in own_names("extension"):
            return None
        sizes = {"train_positions": self.model.trained, "test_positions": self.model.target}
        return build(resolved("extension", name, sizes), "extension")

    def lines(self) -> Iterator[str]:
        """All that there is to say; the first line is the answer."""
        like, other = self.like, next(each for each in HOSTS if each != self.like)
        gains = self.hosts[like].gains(self.multiple)
        costs, elsewhere = self.hosts[like].gains(1.0), self.hosts[other].gains(self.multiple)
        known = self.candidates()
        order = gains.loc[gains.index.isin(list(known))].sort_values("difference", ascending=False)
        yield self.answer(order, known)
        yield ""
        yield from self.introduction(like, other)
        yield ""
        at = f"{self.multiple:g}x"
        columns = [
            Column("extension"),
            Column(f"over none at {at}", text=True),
            Column("at 1x", text=True),
            Column(f"at {at}, {HOSTS[other]:.0%} turn", text=True),
            Column("retrieval"),
            Column("tasks"),
            Column("scale", text=True),
        ]
        rows, retrieved = [], retrieval(self.results, like, self.multiple)
        for name in list(order.index)[:MOST]:
            cost = interval(costs.loc[name])
            follows = FOLLOWS in known[name].scale_policy
            cells = [interval(order.loc[name]), "unchanged" if follows else cost]
            gained = signed(float(retrieved.get(name, math.nan)))
            away = interval(elsewhere.loc[name]) if name in elsewhere.index else NOTHING
            policy = "of each length" if follows else "fixed"
            rows.append(
                Line(name, [*cells, away, gained, f"{order.loc[name, 'common']:.0f}", policy])
            )
        yield from Table(columns, rows).aligned()
        yield from self.left_out()
        yield ""
        if rows:
            yield from self.to_serve(order, known)
        yield from self.record_lines()

    def introduction(self, like: str, other: str) -> Iterator[str]:
        model, wanted = self.model, self.model.factor
        if self.rule:
            yield (
                f"The model has rope_type {self.rule}, which these settings replace. Its weights "
                "were trained with that, so measure what it costs at 1x."
            )
        yield (
            f"{model.share:.0%} of the pairs turn within {model.trained} positions at base "
            f"{model.base:,.0f}. In {like} of results/main {HOSTS[like]:.0%} do, in {other} "
            f"{HOSTS[other]:.0%}."
        )
        beyond = f", and {wanted:.3g}x was not measured" if wanted > LENGTHS[-1] else ""
        absent = ", which are not here" * (not (self.results / "extensions").is_dir())
        if not (self.settings.model or self.settings.channels):
            yield (
                f"This assumes {2 * model.pairs} rotated channels per head, on which a served base "
                "depends. Give channels= or model= if yours differs."
            )
        yield (
            f"{model.target} positions are {wanted:.3g}x. The table has {self.multiple:g}x"
            f"{beyond}: the gain in the mean score over tasks, over the same weights without an "
            "extension. Its 95 % interval is not corrected for the number of rows. Retrieval has "
            f"two tasks of results/extensions{absent}."
        )

    def servable(self, order: pd.DataFrame, known: Mapping[str, Extension]) -> str | None:
        """The first row that a server has a setting for."""
        if self.model.shared_window:
            return None
        recipes = ((name, Recipe.of(self.model, known[name])) for name in map(str, order.index))
        return next((name for name, recipe in recipes if recipe.of_any_server), None)

    def to_serve(self, order: pd.DataFrame, known: Mapping[str, Extension]) -> Iterator[str]:
        """Settings of the first row that has any, and the cost that they have not in the table."""
        name, first = self.servable(order, known), str(order.index[0])
        if self.model.shared_window:
            yield (
                "Every setting of a server would also change the layers with windows, which need "
                "no extension. posbench's mounted model leaves them as they are."
            )
        elif name != first:
            yield (
                f"{first} needs an attention of its own, which posbench's mounted model has and no "
                "server has as a setting."
            )
        if name is not None:
            yield f"To serve {name} up to {self.settings.target} positions:"
            recipe = Recipe.of(self.model, known[name])
            yield from (f"  {each}" for each in recipe.lines(self.settings.target))
            beta = (recipe.parameters or {}).get("beta_fast", PUBLISHED_BETA)
            if round(beta) != PUBLISHED_BETA:
                yield (
                    "beta_fast is the one that posbench measures with. The published one is "
                    f"{PUBLISHED_BETA}, and which is better was not measured on a real model."
                )
            if FOLLOWS in known[name].scale_policy:
                yield (
                    "A server has one factor for all lengths. The table has a factor for each "
                    "length, which changes nothing at 1x."
                )
                costs = OneFactor(self.results, self.like)
                yield from costs.lines(name, self.model.factor)
        model = self.settings.model or "FOLDER"
        served = [] if name is None else [name]
        names = ",".join(dict.fromkeys(["direct", *served, *map(str, order.index[:3])]))
        wanted = self.model.factor
        yield (
            f"Measure next: posbench pretrained model={model} extension={names} scale=served "
            f"'lengths=[1,{wanted:.4g}]' texts=3"
        )
        readings = len(names.split(",")) * 2 * 2 * 3  # lengths, tasks by default, texts
        yield (
            f"That is {readings} readings of a text, half of them of {self.model.target} tokens. "
            "Without a GPU, begin with task=last_tokens texts=1."
        )

    def record_lines(self) -> Iterator[str]:
        """What a measured record says of the model at 1x."""
        if self.settings.record is None:
            return
        found = list(files.records(self.settings.record))
        if not found:
            raise ConfigError(
                f"record={self.settings.record} has no records: measure the model first, posbench "
                f"pretrained model=FOLDER results_dir={self.settings.record}, or leave record out"
            )
        frame = tables.table(found)
        answers = ~frame["task"].isin([PERPLEXITY, LAST_TOKENS])
        at = frame[answers & (frame["multiple"] == 1) & (frame["extension"] == "direct")]
        if self.settings.model is not None:
            at = at[at["encoding"] == Files(self.settings.model).name]
        if at.empty:
            of = f" of {self.settings.model}" if self.settings.model else ""
            yield f"{self.settings.record} has no answers{of} at 1x without an extension."
        elif not at["score"].sum():
            yield (
                f"The model answers nothing at 1x (0 of {len(at)} in {self.settings.record}): no "
                "extension can be told from another on it. Try chat=true or an easier task first."
            )
        else:
            yield (
                f"At 1x the model answers {at['score'].mean():.0%} of {len(at)} in "
                f"{self.settings.record}."
            )

    def answer(self, order: pd.DataFrame, known: Mapping[str, Extension]) -> str:
        if order.empty:
            return "No extension with these conditions was measured: try how=attention cache=false."
        first, line = str(order.index[0]), order.iloc[0]
        how = self._how(first, order, known)
        if not line["low"] > 0:
            return (
                f"{first} has the highest mean ({interval(line)}), but no extension is shown to "
                f"gain anything at {self.multiple:g}x over all tasks. {how}: measure it before you "
                "serve it."
            )
        return (
            f"Take {first}, which gained {interval(line)} at {self.multiple:g}x in small models"
            f"{self._level(first, order)}. {how}: measure it on yours before you serve it."
        )

    def _how(self, first: str, order: pd.DataFrame, known: Mapping[str, Extension]) -> str:
        """Which row the settings below are of, and why that one."""
        name = self.servable(order, known)
        if self.model.shared_window:
            return (
                f"Its layers with windows of {self.model.shared_window} share their rotation with "
                "the others, so that no server has a setting for it"
            )
        if name == first:
            return f"The settings below serve {first}, by configuration alone"
        if name is None:
            return f"No server has a setting for {first}, which needs an attention of its own"
        return (
            f"{first} needs an attention of its own, so the settings below are of {name}, the "
            f"first row that a server has ({interval(order.loc[name])})"
        )

    def _level(self, first: str, order: pd.DataFrame) -> str:
        """How many others are not shown to be lower."""
        rows = self.hosts[self.like]
        mine, *others = [row for each in order.index if (row := rows.row(str(each)))]
        less = rows.fitted.differences(mine, others, f"{self.multiple:g}x")
        level = [extension_of(str(row), self.like) for row in less.index[~(less["high"] < 0)]]
        near = [each for each in map(str, order.index) if each in level][:3]
        if not level:
            return ""
        return f", though {counted(len(level), 'other')} ({listed(near)} first) may be its equal"
