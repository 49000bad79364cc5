"""Does every setting count, those of the encoding and those of the model around it?"""

from __future__ import annotations

import torch
from torch import Tensor

from posbench.check.subject import (
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
)
from posbench.errors import ConfigError
from posbench.running.setup import Setup
from posbench.scoring import inputs


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
            after = changed(usual.with_setting(f"encoding.{key}", 2 * value or 1))
        except ConfigError:
            half = value // 2 if isinstance(value, int) else value / 2
            after = changed(usual.with_setting(f"encoding.{key}", half))
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
