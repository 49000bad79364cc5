"""Is every weight of an encoding trained, kept in a checkpoint, and drawn alike each time?"""

from __future__ import annotations

import copy

import torch

from posbench.check.subject import (
    Subject,
    random_tokens,
    require,
)
from posbench.encoding import PositionEncoding
from posbench.running.setup import Setup
from posbench.scoring import inputs, loss
from posbench.streams import stream_seed


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
    one, other = subject.made().model(), subject.made().with_setting("seed", 1).model()
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
