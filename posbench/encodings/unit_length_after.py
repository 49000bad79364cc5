"""Queries and keys of length one, after the host has turned them."""

from __future__ import annotations

from posbench.base.errors import ConfigError
from posbench.core.attention import Attention, Plan
from posbench.encodings.unit_length import UnitLength


class UnitLengthAfter(UnitLength):
    r"""What the host made of queries and keys gets length one, times a learned scale on every
    channel.

    The host, and then $q \leftarrow s \odot q / \lVert q \rVert$, $k \leftarrow s \odot k / \lVert
    k \rVert$ and $c = \sqrt{d_h}$: normalised transformer (nGPT, arXiv 2410.01131). Llama 4 in
    transformers has the norm after the rotation too, without a scale.

    A rotation keeps lengths, so the norm is the same before and after it, and all that differs is
    where s comes. After the rotation the two channels of a pair have scales of their own: scores
    then depend on absolute positions as well, which are new beyond the training length. With s = 1
    it is `UnitLength`. A factor on cosine and sine, as YaRN has it, is lost in the norm. The host
    must leave its content score to the product of q and k, and their widths as they are.
    """

    relative = False

    def encode(self, a: Attention) -> Plan:
        return self.host.encode(a).each(self.after)

    def after(self, part: Attention, heads: slice) -> Attention:
        if part.content is not None or part.q.shape[-1] != self.channel_scale.shape[-1]:
            raise ConfigError(
                "unit_length_after norms the q and k of its host, and this host has another "
                "content score or width: choose a host that turns q and k, or unit_length"
            )
        return self.unit(part, heads)
