"""Every encoding, extension, task and method found in conf/, by glob: what it declares is measured,
what it offers works.

A new YAML is tested without a line being added here. Of those that the main board lists, the fast
tests take some that stand for the others.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable

import pytest
import torch
from offered import thinned
from omegaconf import OmegaConf

from posbench.base.errors import IllegalExtension
from posbench.checks import conformance, conformance_of_tasks, counting
from posbench.checks.conformance_of_extensions import (
    ExtendedSubject,
    change_between,
    every_numeric_setting_changes_an_output,
    of_stack,
)
from posbench.checks.conformance_of_tasks import ChosenTask
from posbench.checks.suite import NotAsked
from posbench.config import legality
from posbench.config.building import build
from posbench.config.compose import compose
from posbench.config.folders import own_names
from posbench.core.encoding import EncodingStack
from posbench.core.extension import Extension
from posbench.core.scoring import loss
from posbench.core.training import Training
from posbench.running.subject import EXACT, Subject, difference, setup

ENCODINGS, EXTENSIONS = own_names("encoding"), own_names("extension")
LOOPED = "rope model.loops=2"
"""The host of what changes how often a model applies its layers."""


@functools.cache
def subject(encoding: str) -> Subject:
    """By its name, and settings of the model after it."""
    return Subject(*f"encoding={encoding}".split())


@pytest.mark.parametrize("encoding", thinned("encoding"))
@pytest.mark.parametrize("check", conformance.SUITE.checks, ids=lambda check: check.__name__)
def test_encoding(check: Callable[[Subject], None], encoding: str) -> None:
    check(subject(encoding))


def test_outputs_differ_without_end_where_one_is_no_number() -> None:
    number, nan = torch.zeros(1), torch.tensor([math.nan])
    assert difference((number, number), (number, number + 2)) == 2
    assert difference((nan, number), (number, number)) == math.inf
    assert difference((number, nan), (number, number)) == math.inf
    assert difference((number, number), (number, torch.zeros(2))) == math.inf


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_an_encoding_counts_tokens_iff_it_is_listed(encoding: str) -> None:
    for layer in subject(encoding).stirred():
        assert counting.declared(layer) == bool(counting.found(layer))


@pytest.mark.slow
def test_each_name_in_the_list_is_of_an_encoding_that_counts() -> None:
    classes = {
        cls.__module__.removeprefix("posbench.encodings.") + "." + cls.__name__
        for encoding in ENCODINGS
        for layer in subject(encoding).layers()
        for part in layer.modules()
        for cls in type(part).__mro__
    }
    assert classes >= counting.COUNTING


# -- extensions ------------------------------------------------------------------------------------


@functools.cache
def build_extension(name: str, *overrides: str) -> Extension:
    node = OmegaConf.to_container(
        compose(f"extension={name}", *overrides).cfg().extension, resolve=True
    )
    return build(node, "extension")  # type: ignore[arg-type]


@functools.cache
def legal(extension: str, encoding: str) -> bool:
    return not legality.refusal(subject(encoding).extension(extension), built(encoding))


@functools.cache
def built(encoding: str) -> EncodingStack:
    """For asking, not for changing."""
    return subject(encoding).model().encodings


def of_layers(extension: str, encoding: str) -> frozenset[str]:
    """The handles of the layers that an extension is for."""
    try:
        return subject(encoding).extension(extension).part(built(encoding)).handles
    except IllegalExtension:  # there are no such layers
        return frozenset()


@pytest.mark.slow
def test_the_pairs_that_are_refused_are_those_the_declarations_say() -> None:
    for extension in EXTENSIONS:
        needs = subject("nope").extension(extension).needs
        if " and " not in needs:  # a sequence refuses by its parts
            for encoding in ENCODINGS:
                offered = not needs or needs in of_layers(extension, encoding)
                assert legal(extension, encoding) == offered, (extension, encoding)
    listed = legality.legal_encodings(compose("extension=ntk").cfg().extension)
    assert listed == [encoding for encoding in ENCODINGS if legal("ntk", encoding)]


@pytest.mark.slow
@pytest.mark.parametrize("encoding", [*thinned("encoding"), LOOPED])
def test_what_each_extension_declares_of_the_training_length_is_measured(encoding: str) -> None:
    """The base where it says so; the weights are the base's own."""
    stack, run = subject(encoding).model().encodings, subject(encoding).made()
    span = stack.span(run.train_positions, training=True)
    pos = torch.arange(min(64, span, stack.max_positions or 64))[
        None
    ]  # what training has seen, and no more
    weights, before = {p.data_ptr() for p in stack.parameters()}, of_stack(stack, pos)
    for name in [name for name in EXTENSIONS if legal(name, encoding)]:
        for made in [subject(encoding).extension(name), *fixed(name)]:
            extended = made.extend(stack, span, span)
            changed = change_between(of_stack(extended, pos), before) > EXACT
            assert not (changed and made.is_identity), f"{name} declares is_identity"
            assert {p.data_ptr() for p in extended.parameters()} <= weights, (
                f"{name} has weights of its own"
            )
    assert change_between(of_stack(stack, pos), before) == 0, "an extension has changed its base"


@pytest.mark.parametrize("name", thinned("extension"))
def test_an_extension_that_is_no_identity_changes_some_encoding_at_the_training_length(
    name: str,
) -> None:
    """Some, not all: a host may not tell apart the distances that are changed."""
    for made in [build_extension(name), *fixed(name)]:
        if (
            made.is_identity or made.finetuning is not None
        ):  # then it is the training that changes something
            continue
        for encoding in (each for each in [*ENCODINGS, LOOPED] if legal(name, each)):
            stack, run = subject(encoding).model().encodings, subject(encoding).made()
            span = stack.span(run.train_positions, training=True)
            pos = torch.arange(min(64, span, stack.max_positions or 64))[None]
            extended = subject(encoding).extension(name) if made is build_extension(name) else made
            after = of_stack(extended.extend(stack, span, span), pos)
            if change_between(after, of_stack(stack, pos)) > EXACT:
                break
        else:
            pytest.fail(
                f"{name} declares is_identity=False and changes no encoding at the training length"
            )


@functools.cache
def fixed(name: str) -> list[Extension]:
    """The extension at a fixed scale, where it has that setting."""
    return (
        [build_extension(name, "extension.scale=4")]
        if "scale" in compose(f"extension={name}").cfg().extension
        else []
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", thinned("extension"))
def test_every_numeric_setting_of_an_extension_changes_an_output(name: str) -> None:
    """On the first encoding that it can extend; a training or a search is tested where it is."""
    with contextlib.suppress(NotAsked):
        every_numeric_setting_changes_an_output(ExtendedSubject.of(f"extension={name}"))


# -- tasks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", own_names("task"))
def test_a_task_keeps_its_promises(name: str) -> None:
    asked = ChosenTask.of(f"task={name}")
    for check in conformance_of_tasks.SUITE.checks:
        with contextlib.suppress(NotAsked):
            check(asked)


# -- methods ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", thinned("method"))
def test_every_method_learns_from_a_step_and_is_measured_as_it_answers(name: str) -> None:
    run = setup(*Subject(f"method={name}").words)
    training = Training(run.model(), run.task, run.config.training, run.config.seed)
    batch, model = training.batch(0), training.model
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    before = loss(model, batch)
    before.backward()
    optimizer.step()
    assert loss(model, batch) < before, "a small step along the gradient lowers the loss"

    rows, _ = run.evaluation.evaluate(model, run.extension)
    assert [row.multiple for row in rows] == sorted(run.lengths.multiples.values())
    row = rows[-1]  # the longest test, once more, in one pass over whole sequences
    [tested] = run.evaluation.batches(row.test_length)
    extended = run.evaluation.extend(model, run.extension, row.test_length)
    data = run.evaluation.inputs(tested, model)
    with torch.no_grad():
        logits = extended(data.tokens, data.pos, data.segments)[data.where]
    right = logits.argmax(-1) == data.labels
    expected = torch.nn.functional.cross_entropy(logits, data.labels).item()
    assert row.loss == pytest.approx(expected, rel=1e-4)
    assert row.token_accuracy_teacher_forced == pytest.approx(right.float().mean().item(), abs=0.01)
