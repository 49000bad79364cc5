"""An extension with a little training after it, which begins before the training is at its end."""

from __future__ import annotations

from posbench.core.extension import EarlyFineTuning, Extension
from posbench.extensions.finetuned import FineTuned


class EarlyFineTuned(FineTuned):
    """An extension is applied in the middle of the training, and training goes on with it.

    `FineTuned` from the weights that the training had after a share `start` of its steps, where the
    learning rate was still at its height.

    Papers that fine-tune begin at the end, where the rate has fallen to 0; Llama 3 (arXiv
    2407.21783) is extended before its rate is annealed. The budget `steps` is a share of all steps
    of the training, as ever. The weights at the start are those that the training had at that step:
    the same batches at the same rate, so `start` must lie before the decay.
    """

    def __init__(
        self,
        extension: Extension,
        steps: float = 0.1,
        multiple: float = 2.0,
        learning_rate: float = 1.0,
        start: float = 0.5,
    ) -> None:
        super().__init__(extension, steps, multiple, learning_rate)
        self.finetuning = EarlyFineTuning(steps, multiple, learning_rate, start)
