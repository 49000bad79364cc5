"""Does an encoding keep its promises? What it declares is measured, and what it offers must work.

Each check takes a `Subject` and raises `Broken` with a sentence for the encoding's author: what was
promised, what was measured, and where to look. The test suite runs every check on every encoding;
`python -m posbench.check` runs them on your own.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from posbench.attention import Attention, attend, dense
from posbench.check import contract
from posbench.check.subject import (
    CPU_HEAD,
    EXACT,
    HEADS,
    MODEL,
    WIDTH,
    Broken,
    Outputs,
    Subject,
    call,
    difference,
    finite,
    outputs,
    random_tokens,
    require,
    setup,
    with_setting,
)
from posbench.check.suite import Suite
from posbench.composing.legality import BROKEN, options
from posbench.encoding import PositionEncoding
from posbench.errors import ConfigError, IllegalExtension, PosbenchError, closest
from posbench.extension import Extension, ExtensionWrapper
from posbench.frequencies import Frequencies
from posbench.running.setup import Setup
from posbench.scoring import inputs, loss
from posbench.streams import stream_seed

ROUNDINGS = {"root mean square": 2.5, "largest": 3.0}
"""How far outputs in bfloat16 may be off, in units of what rounding the inputs alone does to them.

No absolute tolerance fits all: scores that are not scaled, as TENER's, make of the same inputs
several times the error, which is no fault of the encoding, and the largest of many errors is a
matter of luck. Over 57 encodings and eight seeds each, the root mean square is off by 0.4 to 1.2
units (Shaw's relative values: 1.8) and the largest by at most 1.8. Where angles are formed in
bfloat16 the root mean square is off by 3.8 to 18.
"""


def _moved(a: Attention, device: str | None = None, dtype: torch.dtype | None = None) -> Attention:
    """The same call on another device, or with its inputs in another precision."""
    inputs = {name: getattr(a, name).to(device, dtype) for name in ("q", "k", "v", "x")}
    places = {name: getattr(a, name).to(device) for name in ("q_pos", "k_pos", "segments")}
    return replace(a, **inputs, **places)


def _rounded(a: Attention, dtype: torch.dtype) -> Attention:
    """The call with every input off by up to half a unit in the last place of another precision."""
    generator, most = torch.Generator().manual_seed(1), torch.finfo(dtype).eps / 2

    def off(t: Tensor) -> Tensor:
        shares = 2 * torch.rand(t.shape, generator=generator, dtype=t.dtype) - 1
        return t * (1 + most * shares)

    changed: dict[str, Any] = {name: off(getattr(a, name)) for name in ("q", "k", "v", "x")}
    return replace(a, **changed)


def _sizes(error: Tensor) -> dict[str, float]:
    return {
        "root mean square": error.square().mean().sqrt().item(),
        "largest": error.abs().max().item(),
    }


# -- the paths of attention ------------------------------------------------------------------------


def fused_path_equals_the_dense_reference(subject: Subject) -> None:
    """Outputs and gradients, of inputs and parameters, must be equal in float64."""
    for index, encoding in enumerate(subject.layers()):
        results = []
        for run, block in ((attend, 16), (dense, 8 * 9)):
            a = call(8 * 9)
            leaves = [t.requires_grad_() for t in (a.q, a.k, a.v, a.x)] + list(
                encoding.parameters()
            )
            out = run(encoding.encode(a), block)
            weight = torch.randn(
                out.shape, generator=torch.Generator().manual_seed(1), dtype=out.dtype
            )
            results.append(
                (out, *torch.autograd.grad((out * weight).sum(), leaves, allow_unused=True))
            )
        for fused, reference in zip(*results, strict=True):
            if fused is None and reference is None:
                continue
            require(
                fused is not None
                and reference is not None
                and (fused - reference).abs().max().item() < 1e-10,
                f"layer {index}: the fused path and the dense one give different outputs or "
                "gradients: a term, mask or normaliser returns something else for a block of rows "
                "than for all of them",
            )


def fused_path_stays_within_tolerance_at_8x(subject: Subject) -> None:
    """Compare attention in float32 and bfloat16 with the dense path in float64.

    Both get the very same (rounded) inputs.
    """
    n = 8 * subject.made().train_positions
    backends = [("cpu", torch.float32), ("cpu", torch.bfloat16)]
    if torch.cuda.is_available():
        backends += [("cuda", torch.float32), ("cuda", torch.bfloat16)]
    further = "evaluation.longest=9"  # of what the tests of a task have, the next is 8x or more
    for device, dtype in backends:
        for exact, encoding in zip(subject.layers(further), subject.layers(further), strict=True):
            a = call(n, dtype=dtype)
            given = _moved(a, dtype=torch.float64)
            reference = dense(exact.encode(given))
            fused = attend(encoding.float().to(device).encode(_moved(a, device=device)))
            error = (fused.double().cpu() - reference).abs()
            advice = "form angles, cumulative sums and biases in float32 or better, cast afterwards"
            if dtype == torch.float32:
                tolerance = 2e-5 if device == "cpu" else 5e-5
                require(
                    error.max().item() < tolerance,
                    f"in {dtype} on {device} outputs at 8 times the training length are off by "
                    f"{error.max().item():.1e} (at most {tolerance}): {advice}",
                )
                continue
            rounding = (dense(exact.encode(_rounded(given, dtype))) - reference).abs()
            for kind, most in ROUNDINGS.items():
                found, unit = (_sizes(t)[kind] for t in (error, rounding))
                require(
                    found < most * unit,
                    f"in {dtype} on {device} outputs at 8 times the training length are off by "
                    f"{found:.1e} ({kind}), {found / unit:.1f} times what rounding the inputs "
                    f"alone does (at most {most}): {advice}",
                )


def any_block_size_gives_the_same(subject: Subject) -> None:
    """Attention works on rows in blocks, and their size must only matter for memory."""
    for encoding in subject.layers():
        whole = attend(encoding.encode(call(29)), 29)
        for block in (1, 7, 28):
            error = (attend(encoding.encode(call(29)), block) - whole).abs().max().item()
            require(
                error < 1e-12,
                f"in blocks of {block} rows the output differs by {error:.1e} from that of all "
                "rows at once: use `rows` to index queries (q, q_pos), and never the shape of a "
                "block as the number of keys",
            )


# -- declarations ----------------------------------------------------------------------------------


def relative_is_measured(subject: Subject) -> None:
    """Logits must survive a shift of all positions if and only if `relative` is declared."""
    model, n, shift = subject.model(), 12, 5
    pos = torch.arange(n)[None]
    change = (
        (model(random_tokens(n), pos + shift) - model(random_tokens(n), pos)).abs().max().item()
    )
    declared = all(encoding.relative for encoding in model.encodings)
    require(
        (change < EXACT) == declared,
        f"`relative` is declared {declared}, and shifting all positions by {shift} changes logits "
        f"by {change:.1e}: declare relative = {not declared}, or use differences of positions "
        "alone",
    )


def no_output_depends_on_a_later_token(subject: Subject) -> None:
    """Changing the tokens from place 9 on must leave earlier logits as they are."""
    model, pos, tokens = subject.model(), torch.arange(14)[None], random_tokens(14)
    later = tokens.clone()
    later[:, 9:] = 8 + (later[:, 9:] - 7) % 12
    before, after = model(tokens, pos), model(later, pos)
    change = (before - after)[:, :9].abs().max().item()
    require(
        change < 1e-12,
        f"changing tokens from place 9 on changes earlier logits by {change:.1e}: the encoding "
        "lets a query see later keys (a sum over all keys, a mean over the sequence, a mask that "
        "is not causal)",
    )
    require(
        not torch.allclose(before[:, 9:], after[:, 9:]),
        "the logits do not depend on the tokens at all",
    )


def float_positions_are_accepted_iff_declared(subject: Subject) -> None:
    """Try positions like 0.25, 1.0 and 1.75.

    Whole numbers in float must also give what integers give.
    """
    for encoding in subject.layers():
        pos, whole = torch.arange(10)[None] * 0.75 + 0.25, torch.arange(10)[None]
        if not encoding.float_positions:
            try:
                outputs(encoding, pos)
            except (IndexError, RuntimeError, TypeError, PosbenchError):
                continue
            raise Broken(
                "`float_positions` is declared False, and positions like 0.25 were taken without "
                "an error: declare it True, or index with them as they are (casting to integers "
                "hides a mistake)"
            )
        finite(outputs(encoding, pos), "at positions like 0.25")
        change = difference(outputs(encoding, whole.double()), outputs(encoding, whole))
        require(
            change < EXACT,
            f"the positions 0.0, 1.0, 2.0 give another result than 0, 1, 2 (by {change:.1e}): "
            "integer arithmetic on positions, or a table indexed by them; declare float_positions "
            "= False if they cannot be floats",
        )


def max_positions_is_measured(subject: Subject) -> None:
    """Positions up to the limit work, and beyond it there is an IndexError.

    Without a limit, position 100,000 must work.
    """
    for encoding in subject.layers():
        limit = encoding.max_positions
        if limit is None:
            try:
                found = outputs(encoding, torch.arange(100_000, 100_012)[None])
            except IndexError as error:
                raise Broken(
                    "`max_positions` is declared None, and position 100,000 gives an IndexError: "
                    "declare the number of rows that there are, or compute with positions instead "
                    "of looking them up"
                ) from error
            finite(found, "at position 100,000")
            continue
        outputs(encoding, torch.arange(limit - 4, limit)[None])
        try:
            outputs(encoding, torch.arange(limit - 3, limit + 1)[None])
        except IndexError:
            continue
        raise Broken(
            f"`max_positions` is declared {limit}, and position {limit} gave no IndexError: an "
            "encoding that clamps in silence reports results of positions it does not have; "
            "declare None if there is no limit"
        )


def finite_under_decreasing_positions(subject: Subject) -> None:
    """The ids that a task supplies may run backwards or repeat."""
    for encoding in subject.layers():
        for ids in ([9, 8, 7, 6, 5], [3, 3, 3, 3, 3], [0, 4, 1, 4, 2]):
            finite(outputs(encoding, torch.tensor([ids])), f"at the positions {ids}")


def handles_are_measured(subject: Subject) -> None:
    """Each handle is one that some extension takes hold of, with the attribute that it stands for,
    and some extension must have an effect through it at the longest test.

    An extension may refuse only if its handle is not offered, and must change nothing if there
    is nothing to extend.
    """
    run, stack = subject.made(), subject.model().encodings
    offered = dict(extensions(subject))
    known = {part for each in offered.values() for part in each.needs.split(" and ") if part}
    for layer in stack:
        _have_what_they_stand_for(layer, known)
    trained, longest = (
        stack.span(run.train_positions, training=True),
        stack.span(run.test_positions),
    )
    pos = torch.arange(min(48, stack.max_positions or 48))[None]
    before = [outputs(layer, pos) for layer in stack]
    changes: dict[str, float] = {}
    for name, extension in offered.items():
        needs = extension.needs
        try:
            extended = extension.extend(stack, trained, longest)
        except IllegalExtension:
            require(
                needs not in extension.part(stack).handles,
                f"extension {name} refused, although {needs!r} is among the handles",
            )
            continue
        if type(extension).extend is ExtensionWrapper.extend:
            continue  # it does what the extension inside it does, which is asked by itself
        change = max(
            difference(outputs(new, pos), old) for new, old in zip(extended, before, strict=True)
        )
        # If training already draws positions from their whole range, nothing is left to extend.
        may = extension.changes and (longest > trained or not extension.is_identity)
        require(
            may or change <= EXACT,
            f"extension {name} changes outputs by {change:.1e}, and has nothing to extend",
        )
        if may:
            changes[needs] = max(change, changes.get(needs, 0.0))
    for needs, change in changes.items():
        require(
            change > EXACT,
            f"no extension that takes hold of {needs!r}, which the handles offer, changes an "
            "output at the longest test: an offered handle must have an effect; drop it from "
            "`handles` otherwise",
        )


def extensions(subject: Subject) -> Iterator[tuple[str, Extension]]:
    """All extensions on offer that can be built: a broken one of one's own is not asked here."""
    for name in options("extension"):
        try:
            yield name, subject.extension(name)
        except BROKEN:
            continue


CONTRACTS: dict[str, tuple[str, type]] = {"frequencies": ("frequencies", Frequencies)}
"""The attribute that an extension finds behind a handle; the others need none."""


def _have_what_they_stand_for(layer: PositionEncoding, known: Collection[str]) -> None:
    for handle in sorted(layer.handles):
        near = closest(handle, known)
        require(
            handle in known,
            f"`handles` offers {handle!r}, of which no extension takes hold: "
            f"{f'did you mean {near!r}? ' if near else ''}The handles are "
            f"{', '.join(sorted(known))}",
        )
        if handle in CONTRACTS:
            attribute, kind = CONTRACTS[handle]
            found = getattr(layer, attribute, None)
            require(
                isinstance(found, kind),
                f"`handles` offers {handle!r}, and self.{attribute} is {type(found).__name__}: an "
                f"extension replaces it by another {kind.__module__}.{kind.__name__}, so set one "
                "in __init__ and read it in `encode`, or drop the handle",
            )


# -- parameters ------------------------------------------------------------------------------------


def every_parameter_gets_a_gradient(subject: Subject) -> None:
    """One training batch at the training length must give every parameter a gradient."""
    run = subject.made()
    model = run.model()
    data = inputs(
        run.task.batch(run.train_length, 16, 0, "train", 0), model.encodings, 0, training=True
    )
    loss(model, data).backward()
    for name, parameter in model.named_parameters():
        require(
            parameter.grad is not None and bool(parameter.grad.abs().max() > 0),
            f"{name} gets no gradient from a training batch: it is unused, or hidden by a clamp, a "
            "rounding or a zero",
        )


def state_dict_round_trips(subject: Subject) -> None:
    """Two seeds give different models, until the weights of one are loaded into the other."""
    one, other = subject.made().model(), with_setting(subject.made(), "seed", 1).model()
    tokens, pos = random_tokens(12), torch.arange(12)[None]
    require(not torch.equal(one(tokens, pos), other(tokens, pos)), "two seeds give the same model")
    other.load_state_dict(one.state_dict())
    require(
        torch.equal(one(tokens, pos), other(tokens, pos)),
        "a model with the weights of another gives other outputs: something learned or drawn is "
        "neither a parameter nor a buffer, so it is lost in a checkpoint",
    )


def shared_modules_start_equal_across_encodings(subject: Subject) -> None:
    """The transformer's own weights do not depend on the encoding, so that methods start alike."""
    ours = subject.made().model().state_dict()
    bare = copy.deepcopy(subject.made().composed)
    bare.encoding = {"_target_": f"{PositionEncoding.__module__}.{PositionEncoding.__name__}"}
    plain = Setup(bare, subject.made().task).model().state_dict()
    for key in plain.keys() & ours.keys():
        if plain[key].shape == ours[key].shape:
            require(
                torch.equal(ours[key], plain[key]),
                f"{key} starts at other weights than without the encoding",
            )


def two_constructions_are_equal(subject: Subject) -> None:
    """The state of torch's global generator must not matter."""
    with torch.random.fork_rng():
        one = subject.made().model().state_dict()
        torch.manual_seed(stream_seed("anything"))
        other = subject.made().model().state_dict()
    for key in one:
        require(
            torch.equal(one[key], other[key]),
            f"{key} is drawn anew each time: use torch's own generator",
        )


def every_numeric_setting_changes_an_output(subject: Subject) -> None:
    """Doubling a setting must change some output at the lengths and sizes of the cpu protocol.

    Zero becomes one, and a setting that cannot be doubled is halved. A cache that is shared by all
    objects would show.
    """
    sizes = ("protocol=cpu", f"model.head_width={CPU_HEAD}", f"model.num_heads={HEADS}")

    usual = setup(*subject.words, *sizes)

    def changed(run: Setup) -> list[Outputs]:
        stack, batch = (
            run.model().double().encodings,
            run.task.batch(run.train_length, 4, 0, "train", 0),
        )
        pos = torch.arange(64)[None]
        draw = inputs(batch, stack, 0, training=True).pos.double()
        return [(draw, draw), *(outputs(layer, pos, CPU_HEAD) for layer in stack)]

    before = changed(usual)
    for key, value in subject.settings():
        try:
            after = changed(with_setting(usual, f"encoding.{key}", 2 * value or 1))
        except ConfigError:
            half = value // 2 if isinstance(value, int) else value / 2
            after = changed(with_setting(usual, f"encoding.{key}", half))
        require(
            any(difference(old, new) > EXACT for old, new in zip(before, after, strict=True)),
            f"encoding.{key}={value} can be doubled and no output changes at the training length "
            "of the cpu protocol: scale its default with the training length, or remove it",
        )


MODEL_CHANGES = {
    "width": 2 * MODEL,
    "num_heads": 2 * HEADS,
    "head_width": 2 * WIDTH,
    "num_layers": 3,
    "mlp_ratio": 1,
    "dropout": 0.5,
    "embedding_std": 0.5,
    "qk_norm": True,
    "output_gate": True,
    "short_conv": 2,
}
"""Another value for each setting of the model, legal for any encoding."""


def every_setting_of_the_model_changes_an_output(subject: Subject) -> None:
    """Every setting of the model must change the logits of a training step, or be refused."""
    tokens, pos = random_tokens(12), torch.arange(12)[None]

    def logits(run: Setup) -> Tensor:
        model = run.model().train()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # for dropout
            return model(tokens, pos).detach()

    before = logits(subject.made())
    for key, value in MODEL_CHANGES.items():
        try:
            after = logits(with_setting(subject.made(), f"model.{key}", value))
        except ConfigError:
            continue
        require(
            not torch.allclose(before, after, atol=1e-6),
            f"model.{key}={value} changes no logit of a training step: the encoding must not make "
            "a setting of the model count for nothing",
        )


SUITE = Suite(
    Subject,
    first=(
        contract.calls_return_what_attention_takes,
        contract.outputs_are_finite,
        contract.two_calls_are_equal,
    ),
    others=(
        max_positions_is_measured,
        contract.mixed_precision_runs,
        fused_path_equals_the_dense_reference,
        fused_path_stays_within_tolerance_at_8x,
        any_block_size_gives_the_same,
        no_output_depends_on_a_later_token,
        contract.a_prefix_gives_alone_what_it_gives_within_the_whole,
        contract.positions_are_taken_as_they_come,
        relative_is_measured,
        float_positions_are_accepted_iff_declared,
        finite_under_decreasing_positions,
        handles_are_measured,
        every_parameter_gets_a_gradient,
        state_dict_round_trips,
        shared_modules_start_equal_across_encodings,
        two_constructions_are_equal,
        every_numeric_setting_changes_an_output,
        every_setting_of_the_model_changes_an_output,
    ),
    rests_on={
        contract.a_prefix_gives_alone_what_it_gives_within_the_whole: (
            no_output_depends_on_a_later_token,
        ),
        contract.positions_are_taken_as_they_come: (
            contract.a_prefix_gives_alone_what_it_gives_within_the_whole,
        ),
        relative_is_measured: (contract.positions_are_taken_as_they_come,),
        float_positions_are_accepted_iff_declared: (contract.positions_are_taken_as_they_come,),
    },
)
