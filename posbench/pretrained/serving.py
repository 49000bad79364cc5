"""How to serve a model with an extension: the `rope_parameters` of transformers and vLLM."""

from __future__ import annotations

from typing import Any

from posbench.extension import Extension
from posbench.extensions.direct import Direct
from posbench.extensions.dynamic_ntk import DynamicNTK
from posbench.extensions.llama3 import Llama3
from posbench.extensions.longrope import LongRoPE
from posbench.extensions.ntk import NTK
from posbench.extensions.pi import PI
from posbench.extensions.yarn import YaRN
from posbench.pretrained.configured import rotations
from posbench.pretrained.mounting import Mounted


def rope_parameters(mounted: Mounted, extension: Extension, length: int) -> dict[str, Any] | str:
    """What makes of the model, at `length`, what the extension makes of it; or why nothing does.

    Both libraries have one factor for all lengths, so below `length` an extension with a scale for
    each length is another one than was measured.
    """
    found = rotations(mounted.model.config)
    if len(found) > 1 or found[0].get("rope_type", "default") != "default":
        return "the model has a rotation of its own already, and rope_parameters would replace it"
    own, trained = dict(found[0]), mounted.train_positions
    kind = type(extension)
    if kind is Direct:
        return own
    scale = max(1.0, length / trained)
    original = {"original_max_position_embeddings": trained}
    if kind is PI and isinstance(extension, PI):
        return own | {"rope_type": "linear", "factor": extension.scale_at(trained, length)}
    if kind is NTK and isinstance(extension, NTK):
        frequencies = mounted.layers[0].form.encoding.frequencies
        power = frequencies.count / max(frequencies.count - 1, 1)  # type: ignore[union-attr,operator,arg-type]
        base = own["rope_theta"] * extension.scale_at(trained, length) ** power
        return own | {"rope_theta": base}
    if kind is DynamicNTK and isinstance(extension, DynamicNTK):
        return own | {"rope_type": "dynamic", "factor": extension.factor}
    if kind is YaRN and isinstance(extension, YaRN) and extension.mscale_all_dim == 0:
        scale = extension.scale_at(trained, length)
        return (
            own
            | original
            | {
                "rope_type": "yarn",
                "factor": scale,
                "beta_fast": extension.beta_fast,
                "beta_slow": extension.beta_slow,
                "attention_factor": extension.magnitude(trained, scale),
                "truncate": extension.truncate,
            }
        )
    if kind is Llama3 and isinstance(extension, Llama3):
        return (
            own
            | original
            | {
                "rope_type": "llama3",
                "factor": extension.scale_at(trained, length),
                "low_freq_factor": extension.parts.beta_slow,
                "high_freq_factor": extension.parts.beta_fast,
            }
        )
    if kind is LongRoPE and isinstance(extension, LongRoPE):
        frequencies = mounted.layers[0].form.encoding.frequencies
        scale = extension.scale_at(trained, length)
        long = extension.long_factors or extension.stretch(frequencies, trained, scale)  # type: ignore[arg-type]
        short = extension.short_factors or (1.0,) * len(long)
        return (
            own
            | original
            | {
                "rope_type": "longrope",
                "factor": scale,
                "long_factor": list(long),
                "short_factor": list(short),
            }
        )
    return (
        f"neither transformers nor vLLM has {kind.__name__}: it can be served with the mounted "
        "model alone"
    )
