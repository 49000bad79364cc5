"""A pre-norm causal transformer, the same for every encoding."""

from __future__ import annotations

import copy
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posbench.core.attention import Attention, attend_from
from posbench.core.encoding import EncodingStack, PositionEncoding
from posbench.core.layers import OutputGate, QKNorm, ShortConv
from posbench.core.streams import stream_seed


class Transformer(nn.Module):
    """Token embedding, `num_layers` blocks, final norm, linear head.

    The heads are `num_heads` of `head_width` channels each, whatever the `width` of the model.
    `qk_norm`, `output_gate` and `short_conv` (its kernel, 0 for none) are what a `Block` may have.

    Initial weights depend only on `seed` and their own name, so modules that two encodings share
    start equal, whatever else the encodings add. Token embeddings start with standard deviation
    `embedding_std`; at the usual 0.02 small models learn these tasks several times more slowly.
    """

    def __init__(
        self,
        vocab_size: int,
        width: int,
        num_layers: int,
        num_heads: int,
        head_width: int,
        encodings: EncodingStack,
        embedding_std: float = 1.0,
        seed: int = 0,
        mlp_ratio: int = 4,
        dropout: float = 0.0,
        qk_norm: bool = False,
        output_gate: bool = False,
        short_conv: int = 0,
    ) -> None:
        super().__init__()
        if len(encodings) != num_layers:
            raise ValueError(
                f"{num_layers} layers need {num_layers} encodings, got {len(encodings)}"
            )
        self.width, self.num_heads, self.head_width = width, num_heads, head_width
        self.embedding = nn.Embedding(vocab_size, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(
                width, num_heads, head_width, mlp_ratio, dropout, qk_norm, output_gate, short_conv
            )
            for _ in range(num_layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab_size, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                std = (
                    embedding_std
                    if name == "embedding.weight"
                    else 1 / math.sqrt(parameter.shape[1])
                )
                generator = torch.Generator().manual_seed(stream_seed(seed, "init", name))
                nn.init.normal_(parameter, std=std, generator=generator)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
        self.encodings = encodings  # last: they bring their own initialisation

    def forward(
        self,
        tokens: Tensor,
        pos: Tensor,
        segments: Tensor | None = None,
        where: Tensor | None = None,
        first: int = 0,
    ) -> Tensor:
        """Next-token logits, [batch, n, vocab].

        `tokens` is [batch, n], `pos` [batch|1, n] and `segments` [batch|1, n] (left out: one
        segment). With a boolean `where` [batch, n], only those places go through the head, and the
        result is [number of places, vocab]. None of them may lie before `first`. The last layer
        then computes its outputs from `first` on, which saves the attention and MLP of a long
        prompt; it still reads every token.
        """
        x = self.dropout(self.encodings.embed(self.embedding(tokens), pos))
        starts = [0] * (len(self.blocks) - 1) + [first]
        for block, encoding, start in zip(self.blocks, self.encodings, starts, strict=True):
            x = block(x, pos, segments, encoding, start)
        x = self.norm(x)
        return self.head(x if where is None else x[where[:, first:]])

    def with_encodings(self, encodings: EncodingStack) -> Transformer:
        """The same weights under other encodings."""
        new = copy.copy(self)
        new.__dict__["_modules"] = {**self.__dict__["_modules"], "encodings": encodings}
        return new


class Block(nn.Module):
    r"""x + attention(norm(x)), then x + mlp(norm(x)); with `mlp_ratio` 0 there is no MLP.

    With X = norm(x), attention is $W_o\,[\,o \odot \sigma(W_g X)\,]$ with o what the encoding makes
    of $q, k, v = C(W X)$ with q and k normalised, where

        `short_conv`    $C(x)_t = x_t + \sum_{s<K} w_s \odot x_{t-s}$  `ShortConv`, K tokens or 0
        `qk_norm`       $q \leftarrow g \odot q / \mathrm{rms}(q)$, k too  `QKNorm`
        `output_gate`   $o \leftarrow o \odot \sigma(W_g X)$  `OutputGate`

    All three are off unless a method asks for them.
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        head_width: int,
        mlp_ratio: int,
        dropout: float,
        qk_norm: bool = False,
        output_gate: bool = False,
        short_conv: int = 0,
    ) -> None:
        super().__init__()
        channels = num_heads * head_width
        self.num_heads = num_heads
        self.mlp_ratio = mlp_ratio
        self.dropout = nn.Dropout(dropout)
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * channels, bias=False)
        self.short_conv = ShortConv(3 * channels, short_conv) if short_conv else None
        self.qk_norm = QKNorm(head_width) if qk_norm else None
        self.output_gate = OutputGate(width, channels) if output_gate else None
        self.out = nn.Linear(channels, width, bias=False)
        if mlp_ratio:
            self.mlp_norm = nn.LayerNorm(width)
            self.mlp_in = nn.Linear(width, mlp_ratio * width)
            self.mlp_out = nn.Linear(mlp_ratio * width, width)

    def forward(
        self,
        x: Tensor,
        pos: Tensor,
        segments: Tensor | None,
        encoding: PositionEncoding,
        start: int = 0,
    ) -> Tensor:
        """The outputs for the tokens from `start` on, [batch, n - start, width]."""
        normed = self.attention_norm(x)
        qkv = self.qkv(normed)
        if self.short_conv is not None:
            qkv = self.short_conv(qkv)
        # [batch, n, 3 heads * head width] -> three times [batch, heads, n, head width]
        q, k, v = qkv.unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        if self.qk_norm is not None:
            q, k = self.qk_norm(q, k)
        call = Attention(
            q, k, v, normed, pos, pos, scale=1 / math.sqrt(q.shape[-1]), segments=segments
        )
        attended = attend_from(encoding.encode(call), start).transpose(1, 2).flatten(-2)
        if self.output_gate is not None:
            attended = self.output_gate(attended, normed[:, start:])
        x = x[:, start:] + self.dropout(self.out(attended))
        if not self.mlp_ratio:
            return x
        return x + self.dropout(self.mlp_out(F.gelu(self.mlp_in(self.mlp_norm(x)))))
