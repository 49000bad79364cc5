"""Does an extension keep its promises? Each check takes an `ExtendedSubject` and raises `Broken`
with a sentence for the extension's author.

It is tried on a host: the encoding that the command line names beside it, or the first that it does
not refuse.
"""

from __future__ import annotations

import functools
import itertools
import re
from contextlib import suppress
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import Tensor

from posbench.base.errors import ConfigError, IllegalExtension
from posbench.base.wording import closest
from posbench.checks import attention_paths, contract
from posbench.checks.suite import NotAsked, Suite
from posbench.config.folders import own_names
from posbench.config.options import options
from posbench.core.encoding import EncodingStack, PositionEncoding
from posbench.core.extension import Extension, ExtensionWrapper, FrequencyExtension
from posbench.core.looped import applied
from posbench.core.transformer import Transformer
from posbench.running.setup import Setup
from posbench.running.subject import (
    CPU_HEAD,
    EXACT,
    HEADS,
    WIDTH,
    Broken,
    Outputs,
    Subject,
    difference,
    outputs,
    require,
    setup,
)

HOSTS = ("rope", "learned", "alibi", "nope", "sliding_window", "rope model.loops=2")
"""They offer every handle of posbench, and a window; encodings of the user, tried after them, may
have more. Each may go on with settings of the model.
"""

ENCODING = re.compile(r"[+~]*encoding[=.@/]")
"""How a word begins that says something of the host."""

POLICIES = ("none", "fixed", "per test length")
SIZES = ("protocol=cpu", f"model.head_width={CPU_HEAD}", f"model.num_heads={HEADS}")
FURTHER = (2, 4)  # multiples of the training length, below the longest test


class ExtendedSubject(Subject):
    """An extension on its host; the model of this subject is the extended one, at the longest
    test.
    """

    def __init__(self, *words: str, host: str = "") -> None:
        super().__init__(*words, *(_words(host) if host else []))
        self.host = host  # "" where the words name it
        self.extension_of(self.base)  # refuses what cannot be extended

    @classmethod
    def of(cls, *words: str) -> ExtendedSubject:
        """The extension on the encoding that is named beside it, or on the first that it does not
        refuse; Broken if it refuses all.
        """
        if any(word.startswith(("encoding=", "method=")) for word in words):
            return cls(*words)
        refused = ""
        for host in [*HOSTS, *sorted({*options("encoding")} - {*own_names("encoding")})]:
            try:
                return cls(*words, host=host)
            except IllegalExtension as error:
                refused = refused or str(error)
        near = closest(setup(*words).extension.needs, _handles())
        meant = f": did you mean {near!r}?" if near else ""
        raise Broken(f"no encoding can be extended: {refused}{meant}")

    @property
    def asked(self) -> Extension:
        return self.made().extension

    @property
    def classes(self) -> list[type]:
        inside = [self.asked]
        while isinstance(inside[-1], ExtensionWrapper):
            inside.append(inside[-1].extension)
        return [type(each) for each in inside]

    @functools.cached_property
    def base(self) -> EncodingStack:
        return super().model().encodings

    @property
    def trained(self) -> int:
        return self.base.span(self.made().train_positions, training=True)

    @property
    def longest(self) -> int:
        return self.base.span(self.made().test_positions)

    def extension_of(
        self, stack: EncodingStack, test_positions: int | None = None
    ) -> EncodingStack:
        """The extended encodings, for the longest test unless told otherwise."""
        return self.asked.extend(stack, self.trained, test_positions or self.longest)

    def measured(self, test_positions: int) -> list[Outputs]:
        return of_stack(self.extension_of(self.base, test_positions), self.pos)

    @property
    def pos(self) -> Tensor:
        """The positions that training has seen, and no more."""
        return torch.arange(min(64, self.trained, self.base.max_positions or 64))[None]

    def model(self, *overrides: str) -> Transformer:
        model = super().model(*overrides)
        return model.with_encodings(self.extension_of(model.encodings))


def _words(host: str) -> list[str]:
    return f"encoding={host}".split()


def _handles() -> set[str]:
    return set().union(*(Subject(*_words(host)).model().encodings.handles for host in HOSTS))


def of_stack(stack: EncodingStack, pos: Tensor, width: int = WIDTH) -> list[Outputs]:
    """What each layer gives, as often as a model applies it."""
    return [outputs(layer, pos, width) for layer in applied(stack)]


def change_between(one: list[Outputs], other: list[Outputs]) -> float:
    """The largest difference; infinite where one applies more layers."""
    if len(one) != len(other):
        return torch.inf
    return max(difference(a, b) for a, b in zip(one, other, strict=True))


def apply_returns_an_encoding(subject: ExtendedSubject) -> None:
    for layer in subject.extension_of(subject.base):
        found = "None" if layer is None else type(layer).__name__
        require(
            isinstance(layer, PositionEncoding),
            f"apply returns {found}: return an encoding, such as encoding.variant(...) or a "
            "Wrapper around it",
        )


def declarations_are_known(subject: ExtendedSubject) -> None:
    policy = subject.asked.scale_policy
    near = closest(policy, POLICIES)
    require(
        policy in POLICIES,
        f"scale_policy is declared {policy!r}: {f'did you mean {near!r}? ' if near else ''}It is "
        f"one of {', '.join(map(repr, POLICIES))}",
    )


def the_base_keeps_its_weights_and_its_outputs(subject: ExtendedSubject) -> None:
    """A test at one length may leave no trace in the test at the next."""
    before = of_stack(subject.base, subject.pos)
    weights = {parameter.data_ptr() for parameter in subject.base.parameters()}
    extended = subject.extension_of(subject.base)
    own = {name for name, p in extended.named_parameters() if p.data_ptr() not in weights}
    require(
        not own,
        f"the extended encoding has weights of its own ({', '.join(sorted(own))}): share those of "
        "the trained one, as encoding.variant(...) does, or they are never trained",
    )
    change = change_between(of_stack(subject.base, subject.pos), before)
    require(
        change == 0,
        f"extending an encoding changes the encoding itself (by {change:.1e}): return "
        "encoding.variant(...) instead of setting its attributes",
    )


def is_identity_is_as_declared(subject: ExtendedSubject) -> None:
    """Outputs at the training length against those of the base."""
    if subject.asked.trains:
        raise NotAsked("its training changes something")
    base = of_stack(subject.base, subject.pos)
    change = change_between(subject.measured(subject.trained), base)
    declared = subject.asked.is_identity
    require(
        not declared or change <= EXACT,
        f"`is_identity` is declared True, and outputs at the training length change by "
        f"{change:.1e}: do nothing there, or declare it False",
    )
    require(
        declared or change > EXACT,
        "`is_identity` is declared False, and nothing changes at the training length: declare it "
        "True",
    )


def something_changes_beyond_training(subject: ExtendedSubject) -> None:
    if subject.longest <= subject.trained:
        raise NotAsked("training draws positions from their whole range")
    pos = torch.arange(min(subject.longest, subject.base.max_positions or subject.longest))[None]
    base = of_stack(subject.base, pos)
    extended = of_stack(subject.extension_of(subject.base), pos)
    change = change_between(extended, base)
    if not subject.asked.changes:
        require(
            change <= EXACT,
            f"`changes` is declared False, and outputs change by {change:.1e}: declare it True",
        )
        return
    require(
        change > EXACT or subject.asked.trains,
        f"this extension changed nothing: for a test of {subject.longest} positions after training "
        f"on {subject.trained}, outputs are those of the base; does `apply` use test_positions, "
        "and return what it has changed?",
    )


def scale_follows_the_length_as_declared(subject: ExtendedSubject) -> None:
    """The factor never falls as tests grow, and outputs change with the length if it does."""
    extension, multiples = _inside(subject.asked), (1, *FURTHER)
    lengths = [multiple * subject.trained for multiple in multiples]
    if hasattr(extension, "scale_at"):
        scales = [extension.scale_at(subject.trained, length) for length in lengths]
        said = ", ".join(f"{scale:.3g}" for scale in scales)
        require(
            scales == sorted(scales),
            f"the scale falls as tests grow: {said} at {', '.join(map(str, multiples))} times the "
            "training length; it is a factor of extension",
        )
        if isinstance(extension, FrequencyExtension):
            _stretches_grow(subject, extension, scales)
    if len({min(length, subject.longest) for length in lengths[1:]}) < 2:
        return
    change = change_between(*(subject.measured(length) for length in lengths[1:]))
    policy = extension.scale_policy
    require(
        policy != "fixed" or change <= EXACT,
        f"`scale_policy` is declared 'fixed', and outputs differ between tests of {lengths[1]} and "
        f"{lengths[2]} positions: declare 'per test length'",
    )
    require(
        policy != "per test length" or change > EXACT,
        f"`scale_policy` is declared 'per test length', and a test of {lengths[2]} positions gets "
        f"what one of {lengths[1]} gets: declare 'fixed' or 'none'",
    )


def _stretches_grow(
    subject: ExtendedSubject, extension: FrequencyExtension, scales: list[float]
) -> None:
    for layer in subject.base:
        frequencies: Any = getattr(layer, "frequencies", None)
        if frequencies is None:
            continue
        found = [extension.stretch(frequencies, subject.trained, scale) for scale in scales]
        worst = min(
            b - a
            for one, other in itertools.pairwise(found)
            for a, b in zip(one, other, strict=True)
        )
        require(
            worst > -EXACT,
            "a frequency is stretched less at a larger scale: `stretch` gives divisors of "
            "frequencies (2 halves one), and not factors",
        )


def _inside(extension: Extension) -> Extension:
    return _inside(extension.extension) if isinstance(extension, ExtensionWrapper) else extension


def every_numeric_setting_changes_an_output(subject: ExtendedSubject) -> None:
    """At the lengths of the cpu protocol. A factor on all scores shows where some channels do not
    turn, in a temperature on these.
    """
    if isinstance(subject.asked, ExtensionWrapper):
        raise NotAsked("its settings steer a training or a search")
    others = [word for word in subject.words if not ENCODING.match(word)]
    host = [word for word in subject.words if ENCODING.match(word)]
    words = others if host == ["encoding=partial_rope"] else subject.words
    runs = [setup(*words, *SIZES)]
    if "frequencies" in subject.base.handles:
        # On a host with few pairs a setting may change nothing, and others show it.
        plain = [others] if words != others else []
        for more in (*plain, [*others, "encoding=partial_rope"]):
            with suppress(IllegalExtension):  # it may need more than frequencies
                run = setup(*more, *SIZES)
                run.model()
                runs.append(run)
    node: Any = OmegaConf.to_container(runs[0].composed.extension, resolve=False)

    def changed(runs: list[Setup]) -> list[Outputs]:
        found = []
        for run in runs:
            stack, length = run.model().double().encodings, run.train_positions
            extended = run.extension.extend(stack, length, 4 * length)
            found += of_stack(extended, torch.arange(64)[None], CPU_HEAD)
        return found

    before = changed(runs)
    for key, value in node.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        key = f"extension.{key}"
        try:
            after = changed([run.with_setting(key, 2 * value or 1) for run in runs])
        except ConfigError:
            after = changed([run.with_setting(key, value / 2) for run in runs])
        require(
            change_between(after, before) > EXACT,
            f"{key}={value} can be doubled and no output changes at 4 times the training length of "
            "the cpu protocol: use it in `apply`, or remove it",
        )


SUITE = Suite(
    ExtendedSubject.of,
    first=(
        apply_returns_an_encoding,
        contract.calls_return_what_attention_takes,
        contract.outputs_are_finite,
        contract.two_calls_are_equal,
    ),
    others=(
        declarations_are_known,
        the_base_keeps_its_weights_and_its_outputs,
        is_identity_is_as_declared,
        something_changes_beyond_training,
        scale_follows_the_length_as_declared,
        every_numeric_setting_changes_an_output,
        attention_paths.fused_path_equals_the_dense_reference,
        attention_paths.any_block_size_gives_the_same,
        contract.no_output_depends_on_a_later_token,
        contract.a_prefix_gives_alone_what_it_gives_within_the_whole,
        contract.finite_under_decreasing_positions,
    ),
    rests_on={
        contract.a_prefix_gives_alone_what_it_gives_within_the_whole: (
            contract.no_output_depends_on_a_later_token,
        ),
    },
)
