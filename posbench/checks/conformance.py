"""Does an encoding keep its promises? What it declares is measured, and what it offers must work.

Each check takes a `Subject` and raises `Broken` with a sentence for the encoding's author: what was
promised, what was measured, and where to look. The test suite runs every check on every encoding;
`posbench check` runs them on your own.
"""

from __future__ import annotations

import copy
import functools

import torch
from torch import Tensor

from posbench.base.errors import ConfigError
from posbench.checks import attention_paths, contract, declarations
from posbench.checks.suite import Suite
from posbench.core.encoding import PositionEncoding
from posbench.core.scoring import inputs, loss
from posbench.core.streams import stream_seed
from posbench.running import before_training
from posbench.running.setup import Setup
from posbench.running.subject import (
    CPU_HEAD,
    EXACT,
    HEADS,
    MODEL,
    WIDTH,
    Broken,
    Outputs,
    Subject,
    difference,
    outputs,
    random_tokens,
    require,
    setup,
    stir,
)

# -- does every setting count, those of the encoding and those of the model around -----------------


def every_numeric_setting_changes_an_output(subject: Subject) -> None:
    """Doubling a setting must change some output at the lengths and sizes of the cpu protocol, of
    parameters as they begin or off from there.

    Zero becomes one, and a setting that cannot be doubled is halved. A cache that is shared by all
    objects would show.
    """
    sizes = ("protocol=cpu", f"model.head_width={CPU_HEAD}", f"model.num_heads={HEADS}")

    usual = setup(*subject.words, *sizes)

    def found(run: Setup, stirred: bool) -> list[Outputs]:
        stack, batch = (
            run.model().double().encodings,
            run.task.batch(run.train_length, 4, 0, "train", 0),
        )
        if stirred:
            stir(stack)
        pos = torch.arange(64)[None]
        draw = inputs(batch, stack, 0, training=True).pos.double()
        return [(draw, draw), *(outputs(layer, pos, CPU_HEAD) for layer in stack)]

    before = functools.cache(lambda stirred: found(usual, stirred))

    def counts(key: str, value: object) -> bool:
        other = usual.with_setting(f"encoding.{key}", value)
        return any(
            difference(old, new) > EXACT
            for stirred in (False, True)
            for old, new in zip(before(stirred), found(other, stirred), strict=True)
        )

    for key, value in subject.settings():
        try:
            changes = counts(key, 2 * value or 1)
        except ConfigError:
            changes = counts(key, value // 2 if isinstance(value, int) else value / 2)
        require(
            changes,
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
    "loops": 2,
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
            after = logits(subject.made().with_setting(f"model.{key}", value))
        except ConfigError:
            continue
        except RuntimeError as error:
            reason = str(error).splitlines()[0].rstrip(".")
            if "size" not in reason and "shape" not in reason:
                raise
            raise Broken(
                f"with model.{key}={value} it fails ({reason}): take each size from the model, "
                f"with a setting of the class and ${{model.{key}}} in its YAML"
            ) from error
        require(
            not torch.allclose(before, after, atol=1e-6),
            f"model.{key}={value} changes no logit of a training step: the encoding must not make "
            "a setting of the model count for nothing",
        )


# -- is every weight of an encoding trained, kept in a checkpoint, and drawn alike -----------------


def every_parameter_gets_a_gradient(subject: Subject) -> None:
    """One training batch at the training length must give every parameter a gradient."""
    run = subject.made()
    model = run.model()
    for layer in model.encodings:
        before_training.refuse_hidden_parameters(layer)
    data = inputs(
        run.task.batch(run.train_length, 16, 0, "train", 0), model.encodings, 0, training=True
    )
    loss(model, data).backward()
    for name, parameter in model.named_parameters():
        require(
            parameter.grad is None or bool(parameter.grad.isfinite().all()),
            f"{name} gets a gradient that is infinite or not a number: look for a root, a "
            "logarithm or a division at zero, also in a branch that torch.where discards",
        )
        require(
            parameter.grad is not None and bool(parameter.grad.abs().max() > 0),
            f"{name} gets no gradient from a training batch: it is unused, or hidden by a clamp, a "
            "rounding or a zero",
        )


def state_dict_round_trips(subject: Subject) -> None:
    """Two seeds give different models, until the weights of one are loaded into the other. A model
    that was called before must then give what one gives that has these weights from the first.
    """
    one, trained = subject.model(), subject.stirred_model()
    other = subject.made().with_setting("seed", 1).model().double().eval()
    tokens, pos = random_tokens(12), torch.arange(12)[None]
    require(not torch.equal(one(tokens, pos), other(tokens, pos)), "two seeds give the same model")
    other.load_state_dict(trained.state_dict())
    require(
        torch.equal(trained(tokens, pos), other(tokens, pos)),
        "a model with the weights of another gives other outputs: something learned or drawn is "
        "neither a parameter nor a buffer, so it is lost in a checkpoint, or it is kept from an "
        "earlier call; compute it from the parameters each time",
    )


def the_weights_of_the_rest_start_the_same(subject: Subject) -> None:
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


# -- the suite -------------------------------------------------------------------------------------

SUITE = Suite(
    Subject,
    first=(
        contract.calls_return_what_attention_takes,
        contract.outputs_are_finite,
        contract.two_calls_are_equal,
    ),
    others=(
        declarations.max_positions_is_as_declared,
        contract.inputs_are_left_alone,
        contract.training_and_test_are_the_same,
        contract.mixed_precision_runs,
        contract.no_tensor_is_made_on_another_device,
        attention_paths.fused_path_equals_the_dense_reference,
        attention_paths.fused_path_stays_within_tolerance_at_8x,
        attention_paths.any_block_size_gives_the_same,
        contract.no_output_depends_on_a_later_token,
        contract.a_prefix_gives_alone_what_it_gives_within_the_whole,
        contract.positions_are_taken_as_they_come,
        declarations.counts_tokens_is_as_declared,
        declarations.relative_is_as_declared,
        declarations.float_positions_are_accepted_iff_declared,
        contract.finite_under_decreasing_positions,
        declarations.handles_are_as_declared,
        every_parameter_gets_a_gradient,
        state_dict_round_trips,
        the_weights_of_the_rest_start_the_same,
        two_constructions_are_equal,
        every_numeric_setting_changes_an_output,
        every_setting_of_the_model_changes_an_output,
    ),
    rests_on={
        contract.a_prefix_gives_alone_what_it_gives_within_the_whole: (
            contract.no_output_depends_on_a_later_token,
        ),
        contract.positions_are_taken_as_they_come: (
            contract.inputs_are_left_alone,
            contract.a_prefix_gives_alone_what_it_gives_within_the_whole,
        ),
        declarations.relative_is_as_declared: (contract.positions_are_taken_as_they_come,),
        declarations.float_positions_are_accepted_iff_declared: (
            contract.positions_are_taken_as_they_come,
        ),
    },
)
