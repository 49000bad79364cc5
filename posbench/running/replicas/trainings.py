"""The trainings as one module of Lightning, with one optimizer for the weights of all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import lightning as L
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from posbench.core.scoring import loss
from posbench.core.training import Batches, Training
from posbench.running.replicas.forward import ReplicaBatch, losses, state_of

TOLERANCES = {"32-true": 1e-3, "bf16-mixed": 5e-2}
"""Gradients may lie so far from those alone in each precision, as a share of their norm.

16-mixed is not among them: it leaves a step out where a gradient overflows, and one replica's
overflow would leave out a step of all.
"""


class CannotReplicate(Exception):
    """These trainings have to be made one by one; the sentence says why."""


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
            raise CannotReplicate(
                f"training.precision={settings.precision} scales the loss of all as one"
            )
        if settings.until is not None:
            raise CannotReplicate("training.until ends each training at a step of its own")
        if any(module.p for module in self.modules() if isinstance(module, nn.Dropout)):
            raise CannotReplicate("dropout is drawn from a stream of each training")

    def train_dataloader(self) -> DataLoader:
        return DataLoader(Batches(self), batch_size=None)  # type: ignore[arg-type]

    def transfer_batch_to_device(
        self, batch: ReplicaBatch, device: torch.device, dataloader_idx: int
    ) -> ReplicaBatch:
        return batch.to(device)

    def batch(self, step: int) -> ReplicaBatch:
        """The batches of a step."""
        return ReplicaBatch.of([training.batch(step) for training in self.trainings])

    def configure_optimizers(self) -> Any:
        """The optimizer that a training configures for itself, for the weights of all.

        The weights are put together only here, because the models are moved to their device before.
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

    def training_step(self, batch: ReplicaBatch, batch_idx: int) -> dict[str, Any]:
        each = losses(self.models[0], state_of(self.models, self.weights), batch)
        return {"loss": each.sum(), "each": each.detach()}

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip the gradients of each replica by its own norm, as `clip_grad_norm_` would."""
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
        """CannotReplicate, unless the gradients of a step are those of each training alone."""
        batches = [training.batch(step).to(self.device) for training in self.trainings]
        with self.trainer.precision_plugin.forward_context():
            alone = [loss(model, data) for model, data in zip(self.models, batches, strict=True)]
            padded = ReplicaBatch.of(batches, beyond=1)  # each has some padding
            try:
                together = losses(self.models[0], state_of(self.models, self.weights), padded)
                found = _gradients(together.sum(), self.weights)
            except RuntimeError as error:  # of vmap, in whose words it is
                raise CannotReplicate(str(error).strip().partition(". ")[0]) from None
        for index, (one, model) in enumerate(zip(alone, self.models, strict=True)):
            expected = _gradients(one, list(model.parameters()))
            wrong = [each[index] - own for each, own in zip(found, expected, strict=True)]
            share = _norm(wrong) / max(_norm(expected), 1e-30)
            if not share <= TOLERANCES[self.settings.precision]:  # or it is no number
                raise CannotReplicate(
                    f"gradients differ by {share:.1g} of their norm from those alone"
                )


def _gradients(value: Tensor, weights: Sequence[Tensor]) -> list[Tensor]:
    found = torch.autograd.grad(value, weights, allow_unused=True)
    return [
        torch.zeros_like(weight) if gradient is None else gradient
        for weight, gradient in zip(weights, found, strict=True)
    ]


def _norm(gradients: Sequence[Tensor]) -> float:
    return math.sqrt(sum(gradient.double().square().sum().item() for gradient in gradients))
