"""A model under an extension, as a backend of lm-evaluation-harness."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from lm_eval.api.registry import register_model
from lm_eval.models.huggingface import HFLM

from posbench.base.errors import ConfigError
from posbench.base.wording import closest, known_names
from posbench.pretrained.loading import Files
from posbench.pretrained.proof import mounted_and_proved, prove_effect_at
from posbench.pretrained.request import extension_at
from posbench.pretrained.richer import RereadingMounted

HELP = "posbench pretrained lm-eval --help"
TAKEN = (
    *("batch_size", "max_batch_size", "add_bos_token", "prefix_token_id", "truncation"),
    *("logits_cache", "softmax_dtype", "mixed_precision_dtype"),
    *("enable_thinking", "think_end_token", "chat_template_args"),
)
"""What the harness does with a model that is loaded already; all else would have no effect."""
OWN = ("pretrained", "extension", "length", "train_positions", "dtype", "device")


@register_model("posbench")
class HarnessModel(HFLM):
    """The harness's model of transformers, mounted and extended.

    Every call has the encoding of a sequence of `length` positions, as a server has one setting for
    all texts. So a score does not depend on the batch that a text is in. `length` is also the
    most tokens that the harness gives, and the trained length if it is left out. Further arguments
    are settings of the extension, as `extension.beta_fast=32`, and those of the harness in `TAKEN`.

    Raises:
        CannotMount: if the model cannot be mounted, or the extension has no effect at `length`
        ConfigError: if an argument is unknown or has a wrong value
        IllegalExtension: if the model lacks what the extension changes
    """

    def __init__(
        self,
        pretrained: str,
        extension: str = "direct",
        length: int | None = None,
        train_positions: int | None = None,
        dtype: str = "auto",
        device: str = "cpu",
        **settings: Any,
    ) -> None:
        of_extension = [f"{name}={value}" for name, value in settings.items() if "." in name]
        given = {name: value for name, value in settings.items() if "." not in name}
        for name in given:
            if name not in TAKEN:
                known = (*OWN, *TAKEN)
                raise ConfigError(f"{name}: {known_names(known, HELP, closest(name, known))}")
        self.files = Files(Path(pretrained))
        # The harness gives cuda:0 where no device was named, and falls back in the same way.
        kind = torch.device(device).type
        kind = kind if getattr(torch, kind).is_available() else "cpu"
        model, tokenizer = self.files.load(dtype, kind)
        self.mounted = mounted_and_proved(model, train_positions)
        trained = self.mounted.train_positions
        self.length = length or trained
        self.mounted.extension = extension_at(extension, trained, self.length, *of_extension)
        self.mounted.encodings(self.length)  # refused here, not in the first call
        self.said = " ".join([extension, *of_extension])
        prove_effect_at(self.mounted, self.mounted.extension, [self.length])
        super().__init__(model, tokenizer=tokenizer, max_length=self.length, **given)

    def _model_call(self, inps: torch.Tensor, *args: Any, **settings: Any) -> torch.Tensor:
        with self.mounted.at(self.length):
            return super()._model_call(inps, *args, **settings)

    def _model_generate(self, *args: Any, **settings: Any) -> torch.Tensor:
        if isinstance(self.mounted, RereadingMounted) and not self.mounted.caches:
            raise ConfigError(
                f"{self.files.path} cannot answer token by token when it is mounted: choose tasks "
                "that ask for likelihoods"
            )
        with self.mounted.at(self.length):
            return super()._model_generate(*args, **settings)

    def get_model_info(self) -> dict[str, Any]:
        """What the harness writes beside its results."""
        return {
            "model_num_parameters": self.model.num_parameters(),
            "model_dtype": self.model.dtype,
            "model_name": self.files.name,
            "model_sha": self.files.hash,
            "extension": self.said,
            "length": self.length,
            "train_positions": self.mounted.train_positions,
        }
