"""Replicas: trainings that differ in their seed alone, made in step by one model.

A model of these sizes leaves most of a GPU idle, and a step of R of them costs little more than a
step of one. Each replica has the batches, the curve and the checkpoints of its `Training`. Their
weights lie in one tensor [R, ...] for each parameter, of which the models hold slices, so that
forward, backward, clipping and AdamW are as many kernels for all as for one. The forward pass goes
through `torch.vmap`, and so every encoding takes part as it is. The loss is the sum of theirs: its
gradient is to each what its own loss gives it. Clipping goes by a replica's own norm, and AdamW by
elements.

A replica agrees with its training alone but for rounding: batches are padded to the longest of
them, and sums are taken in another order. Nothing declares that an encoding can do so. It is
measured on the first batch, and `Apart` is raised where it does not hold: where code asks a tensor
for its value, where chance is drawn in the model, or where a token sees those after it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning as L
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader

from posbench.errors import Diverged
from posbench.scoring import Inputs, loss
from posbench.training import Batches, Checkpoint, Curve, Training
from posbench.transformer import Transformer

TOLERANCES = {"32-true": 1e-3, "bf16-mixed": 5e-2}
"""By precision, how far gradients may lie from those alone, as a share of their norm.

16-mixed is not among them: it leaves a step out where a gradient overflows, and one replica's
overflow would leave out a step of all.
"""
NOT_ASKED = -100
"""The label of a place that predicts nothing."""


class Apart(Exception):
    """These trainings have to be made one by one; the sentence says why."""


# -- batches ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stacked:
    """The batches of R replicas, [R, batch|1, n], padded at their end to the longest."""

    tokens: Tensor
    pos: Tensor
    segments: Tensor
    labels: Tensor  # NOT_ASKED where nothing is to be predicted
    first: int  # column of the first place of all

    @classmethod
    def of(cls, batches: Sequence[Inputs], beyond: int = 0) -> Stacked:
        """Padded to the longest, and `beyond` it, by the last token and position of each sequence:
        those exist in every table.
        """
        length = max(data.tokens.shape[1] for data in batches) + beyond
        rows = max(data.pos.shape[0] for data in batches)

        def padded(column: Tensor) -> Tensor:
            last = column[:, -1:]
            shape = (len(column), length - column.shape[1], *column.shape[2:])
            return torch.cat((column, last.expand(shape)), 1)

        labels = [data.tokens.new_full(data.tokens.shape, NOT_ASKED) for data in batches]
        for each, data in zip(labels, batches, strict=True):
            each[data.where] = data.labels
        return cls(
            torch.stack([padded(data.tokens) for data in batches]),
            torch.stack([padded(data.pos.expand(rows, *data.pos.shape[1:])) for data in batches]),
            torch.stack([padded(data.segments) for data in batches]),
            torch.stack(
                [F.pad(each, (0, length - each.shape[1]), value=NOT_ASKED) for each in labels]
            ),
            min(data.first for data in batches),
        )

    def to(self, device: torch.device) -> Stacked:
        def moved(tensor: Tensor) -> Tensor:
            return tensor.to(device, non_blocking=True)

        return Stacked(
            moved(self.tokens),
            moved(self.pos),
            moved(self.segments),
            moved(self.labels),
            self.first,
        )


# -- one forward pass of all -----------------------------------------------------------------------


class Folded(torch.autograd.Function):
    """Attention whose replicas are further heads of one call, under `torch.vmap`.

    Left to itself vmap asks each replica's tensors whether they need a gradient. They say no,
    because the weights outside do, and kernels are then chosen that have none for a bias.
    """

    @staticmethod
    def forward(
        q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float
    ) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """Nothing is kept: `vmap` below calls what brings its own gradient."""

    @staticmethod
    def vmap(
        info: Any,
        in_dims: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None,
        causal: bool,
        scale: float,
    ) -> tuple[Tensor, int]:
        replicas, heads = info.batch_size, q.shape[-3]

        def folded(t: Tensor, dim: int | None) -> Tensor:
            """[batch, heads, ...] of each replica -> [batch, replicas * heads, ...]."""
            t = t.expand(replicas, *t.shape) if dim is None else t.movedim(dim, 0)
            t = t.expand(*t.shape[:2], heads, *t.shape[3:])
            return t.transpose(0, 1).flatten(1, 2)

        if mask is not None and not (in_dims[3] is None and (mask.ndim < 4 or mask.shape[1] == 1)):
            mask = folded(mask, in_dims[3])
        out = F.scaled_dot_product_attention(
            folded(q, in_dims[0]),
            folded(k, in_dims[1]),
            folded(v, in_dims[2]),
            mask,
            is_causal=causal,
            scale=scale,
        )
        return out.unflatten(1, (replicas, heads)).transpose(0, 1), 0


class Folding(TorchFunctionMode):
    """Where it is entered, attention goes through `Folded`."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Tensor:
        given = kwargs or {}
        if func is not F.scaled_dot_product_attention:
            return func(*args, **given)
        mask, causal = given.get("attn_mask"), given.get("is_causal", False)
        return Folded.apply(*args, mask, causal, given["scale"])


def losses(model: Transformer, state: dict[str, Tensor], data: Stacked) -> Tensor:
    """The loss of each replica on its own batch, [R], by one pass of a model with their `state`."""

    def of_one(state: dict[str, Tensor], *batch: Tensor) -> Tensor:
        tokens, pos, segments, labels = batch
        inputs = (tokens, pos, segments, None, data.first)
        logits = torch.func.functional_call(model, state, inputs, tie_weights=False)
        return F.cross_entropy(logits.flatten(0, 1), labels[:, data.first :].flatten())

    with Folding():
        return torch.vmap(of_one)(state, data.tokens, data.pos, data.segments, data.labels)


def state_of(models: Sequence[Transformer], weights: Sequence[Tensor]) -> dict[str, Tensor]:
    """Parameters and buffers, [R, ...], by each place that they have in a module, a module once.

    `weights` are those of all models in the order of `parameters`, which has a tied one once.
    `functional_call` left to tie weights itself leaves its own in a module that stands at two
    places.
    """
    number = {id(weight): index for index, weight in enumerate(models[0].parameters())}
    state: dict[str, Tensor] = {}
    for prefix, module in models[0].named_modules():
        for name, weight in module.named_parameters(prefix, recurse=False):
            state[name] = weights[number[id(weight)]]
        for name, _ in module.named_buffers(prefix, recurse=False):
            state[name] = torch.stack([model.get_buffer(name) for model in models])
    return state


# -- training --------------------------------------------------------------------------------------


class Replicas(L.LightningModule):
    """Trainings that differ in their seed alone; those in `active` have not ended."""

    trainings: Sequence[Training]

    def __init__(self, trainings: Sequence[Training]) -> None:
        super().__init__()
        self.trainings = nn.ModuleList(trainings)  # type: ignore[assignment]
        self.models = [training.model for training in trainings]
        self.active = list(range(len(trainings)))
        self.settings = settings = trainings[0].settings
        if settings.precision not in TOLERANCES:
            raise Apart(f"training.precision={settings.precision} scales the loss of all as one")
        if any(module.p for module in self.modules() if isinstance(module, nn.Dropout)):
            raise Apart("dropout is drawn from a stream of each training")

    def train_dataloader(self) -> DataLoader:
        return DataLoader(Batches(self), batch_size=None)  # type: ignore[arg-type]

    def transfer_batch_to_device(
        self, batch: Stacked, device: torch.device, dataloader_idx: int
    ) -> Stacked:
        return batch.to(device)

    def batch(self, step: int) -> Stacked:
        """The batches of a step."""
        return Stacked.of([training.batch(step) for training in self.trainings])

    def configure_optimizers(self) -> Any:
        """What a training configures for itself, for the weights of all.

        Those are put together here, because the models are where they are trained only now.
        """
        self.weights = [
            nn.Parameter(torch.stack(several).detach())
            for several in zip(*(model.parameters() for model in self.models), strict=True)
        ]
        for index, model in enumerate(self.models):
            for weight, of_all in zip(model.parameters(), self.weights, strict=True):
                weight.data = of_all.data[index]
        alone = self.trainings[0].configure_optimizers()
        [group] = alone["optimizer"].param_groups
        # Its schedule has changed the rate already.
        optimizer = torch.optim.AdamW([group | {"params": self.weights, "lr": group["initial_lr"]}])
        rates = alone["lr_scheduler"]["scheduler"].lr_lambdas
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rates)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_train_start(self) -> None:
        self.refuse_unequal(self.trainer.global_step)

    def training_step(self, batch: Stacked, batch_idx: int) -> dict[str, Any]:
        each = losses(self.models[0], state_of(self.models, self.weights), batch)
        return {"loss": each.sum(), "each": each.detach()}

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """As `clip_grad_norm_` clips the gradients of one model, for each by its own norm."""
        found = [weight.grad for weight in self.weights if weight.grad is not None]
        norms = [torch.linalg.vector_norm(each.reshape(len(each), -1), dim=1) for each in found]
        total = torch.linalg.vector_norm(torch.stack(norms), dim=0)
        shares = (self.settings.gradient_clip / (total + 1e-6)).clamp(max=1.0)
        for each in found:
            each.mul_(shares.reshape(-1, *[1] * (each.ndim - 1)))

    def release(self, index: int) -> None:
        """Let a replica that has ended keep its weights, whatever is done to those of all."""
        self.active.remove(index)
        for weight in self.models[index].parameters():
            weight.data = weight.data.clone()

    def refuse_unequal(self, step: int) -> None:
        """Apart, unless the gradients of a step are those of each training alone."""
        batches = [training.batch(step).to(self.device) for training in self.trainings]
        with self.trainer.precision_plugin.forward_context():
            alone = [loss(model, data) for model, data in zip(self.models, batches, strict=True)]
            padded = Stacked.of(batches, beyond=1)  # each has some padding
            try:
                together = losses(self.models[0], state_of(self.models, self.weights), padded)
                found = _gradients(together.sum(), self.weights)
            except RuntimeError as error:  # of vmap, in whose words it is
                raise Apart(str(error).strip().partition(". ")[0]) from None
        for index, (one, model) in enumerate(zip(alone, self.models, strict=True)):
            expected = _gradients(one, list(model.parameters()))
            wrong = [each[index] - own for each, own in zip(found, expected, strict=True)]
            share = _norm(wrong) / max(_norm(expected), 1e-30)
            if not share <= TOLERANCES[self.settings.precision]:  # or it is no number
                raise Apart(f"gradients differ by {share:.1g} of their norm from those alone")


def _gradients(value: Tensor, weights: Sequence[Tensor]) -> list[Tensor]:
    found = torch.autograd.grad(value, weights, allow_unused=True)
    return [
        torch.zeros_like(weight) if gradient is None else gradient
        for weight, gradient in zip(weights, found, strict=True)
    ]


def _norm(gradients: Sequence[Tensor]) -> float:
    return math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))


# -- curves and checkpoints ------------------------------------------------------------------------


class OwnCurve(Curve):
    """The curve of one replica; of the time that passes it counts its share."""

    def __init__(self, training: Training, replicas: Replicas) -> None:
        super().__init__(training, lambda point: None)
        self.replicas = replicas

    def state_dict(self) -> dict[str, Any]:
        cpu, wall = self.cpu_seconds, self.wall_seconds
        state = super().state_dict()
        count = len(self.replicas.active)
        self.cpu_seconds = state["cpu"] = cpu + (self.cpu_seconds - cpu) / count
        self.wall_seconds = state["wall"] = wall + (self.wall_seconds - wall) / count
        return state


Ended = Callable[[int, OwnCurve, Diverged | None], None]
"""(index, curve, why its loss is no number) -> None, called when a replica has ended."""


class Curves(L.Callback):
    """The curve of each replica. One that has reached `stop_at` or diverged leaves the others."""

    def __init__(
        self, replicas: Replicas, ended: Ended, report: Callable[[dict[str, float]], None]
    ) -> None:
        self.replicas, self.ended, self.report = replicas, ended, report
        self.curves = [OwnCurve(training, replicas) for training in replicas.trainings]

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        for curve in self.curves:
            curve.on_train_start(trainer, curve.training)

    def on_train_batch_end(
        self, trainer: L.Trainer, pl_module: L.LightningModule, outputs: Any, *_: Any
    ) -> None:
        first, leaving = self.curves[self.replicas.active[0]], []
        before = len(first.points)
        for index in self.replicas.active:
            curve = self.curves[index]
            # What a curve sees of a trainer, but that its end is not that of the others.
            seen: Any = SimpleNamespace(
                global_step=trainer.global_step,
                precision_plugin=trainer.precision_plugin,
                loggers=[],
                should_stop=False,
            )
            diverged = None
            try:
                curve.on_train_batch_end(seen, curve.training, {"loss": outputs["each"][index]})
            except Diverged as error:
                diverged = error
            if seen.should_stop or diverged is not None:
                leaving.append((index, diverged))
        if len(first.points) > before:
            self.report(first.points[-1])
        if leaving:
            self.leave(leaving)
        trainer.should_stop = not self.replicas.active

    def leave(self, leaving: Sequence[tuple[int, Diverged | None]]) -> None:
        """End some replicas; the time so far is first shared with those that go on."""
        for index in self.replicas.active:
            self.curves[index].state_dict()
        for index, diverged in leaving:
            self.replicas.release(index)
            self.ended(index, self.curves[index], diverged)

    def state_dict(self) -> dict[str, Any]:
        return {str(index): self.curves[index].state_dict() for index in self.replicas.active}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for index, curve in enumerate(self.curves):
            curve.load_state_dict(state[str(index)])


class OwnCheckpoints(Checkpoint):
    """Writes for each replica the checkpoint that its training alone would write."""

    def __init__(self, replicas: Replicas, paths: Sequence[Path], every: int) -> None:
        super().__init__(paths[0], every)
        self.replicas, self.paths = replicas, paths

    def save(self, trainer: L.Trainer) -> None:
        beside = self.path.with_suffix(f".{os.getpid()}.tmp")
        try:
            trainer.save_checkpoint(beside)
            state = torch.load(beside, weights_only=True, map_location="cpu")
            for index in self.replicas.active:
                torch.save(alone(state, index), beside)
                os.replace(beside, self.paths[index])
        finally:
            beside.unlink(missing_ok=True)  # what a full disk took of it


State = dict[str, Any]
"""A checkpoint as Lightning writes it."""


def alone(state: State, index: int) -> State:
    """The checkpoint of one replica."""
    prefix = f"trainings.{index}."
    [optimizer] = state["optimizer_states"]
    moments = {
        number: {
            name: value if name == "step" else value[index].clone() for name, value in own.items()
        }
        for number, own in optimizer["state"].items()
    }
    return state | {
        "state_dict": {
            # A slice would be written with all that it is a slice of.
            name.removeprefix(prefix): value.clone()
            for name, value in state["state_dict"].items()
            if name.startswith(prefix)
        },
        "optimizer_states": [optimizer | {"state": moments}],
        "callbacks": {"Curve": state["callbacks"]["Curves"][str(index)]},
    }


def joined(states: Sequence[State]) -> State:
    """The checkpoint of all, from one of each; `alone` gives them back."""
    optimizers = [state["optimizer_states"][0] for state in states]
    moments = {
        number: {
            name: value
            if name == "step"
            else torch.stack([each["state"][number][name] for each in optimizers])
            for name, value in own.items()
        }
        for number, own in optimizers[0]["state"].items()
    }
    return states[0] | {
        "state_dict": {
            f"trainings.{index}.{name}": value
            for index, state in enumerate(states)
            for name, value in state["state_dict"].items()
        },
        "optimizer_states": [optimizers[0] | {"state": moments}],
        "callbacks": {
            "Curves": {str(i): state["callbacks"]["Curve"] for i, state in enumerate(states)}
        },
    }


def fit_together(
    trainings: Sequence[Training],
    checkpoints: Sequence[Path],
    accelerator: str,
    checkpoint_every: int,
    callbacks: list[L.Callback],
    report: Callable[[dict[str, float]], None],
    ended: Ended,
) -> None:
    """Train all to their end, each from its checkpoint if they exist, of one step or of none.

    `ended` is called for each. Apart, before anything is trained, if they have to be made one by
    one.
    """
    replicas = Replicas(trainings)
    curves, settings = Curves(replicas, ended, report), replicas.settings
    with OwnCheckpoints(replicas, checkpoints, checkpoint_every) as saver:
        trainer = L.Trainer(
            accelerator=accelerator,
            devices=1,
            precision=settings.precision,
            max_steps=settings.total_steps,
            gradient_clip_val=settings.gradient_clip,
            logger=False,
            callbacks=[curves, *callbacks, saver],
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            default_root_dir=checkpoints[0].parent,
        )
        begun = checkpoints[0].with_suffix(".joined.tmp") if checkpoints[0].exists() else None
        if begun is not None:
            torch.save(joined([torch.load(path, weights_only=True) for path in checkpoints]), begun)
        try:
            trainer.fit(replicas, ckpt_path=begun, weights_only=True)
        finally:
            if begun is not None:
                begun.unlink(missing_ok=True)
    curves.leave([(index, None) for index in replicas.active])
