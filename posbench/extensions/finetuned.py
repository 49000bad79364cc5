"""An extension with a little training after it."""

from __future__ import annotations

from posbench.base.errors import ConfigError
from posbench.core.extension import Extension, ExtensionWrapper, FineTuning, Searched


class FineTuned(ExtensionWrapper):
    """An extension is applied, and training goes on with it for a few steps.

    PI, NTK and YaRN are published so.

    It starts from the weights that all extensions share, with AdamW anew, warm-up over a tenth of
    the steps and the protocol's decay at the end. `steps` and `learning_rate` are shares of those
    of the training, `multiple` times the longest training length is the longest here (from the
    shortest on, one length a batch, as before). The extension is given the positions of that length
    while it is trained and those of each test afterwards: one `scale` for both, where it has one,
    is what the papers do.

    Whatever is trained longer must be compared with the same steps at the same lengths without the
    extension: that is this class around `Direct`.
    """

    is_identity = False

    def __init__(
        self,
        extension: Extension,
        steps: float = 0.1,
        multiple: float = 2.0,
        learning_rate: float = 1.0,
    ) -> None:
        super().__init__(extension)
        if extension.trains or isinstance(extension, Searched):
            raise ConfigError(
                f"{type(extension).__name__} trains or searches by itself and cannot be "
                "fine-tuned: choose the extension inside it, with the settings that were found"
            )
        self.finetuning = FineTuning(steps, multiple, learning_rate)
        if self.method_class == Extension.method_class:
            self.method_class = "fine-tuned"
