"""The model by hand: heads of a width of their own, token by token."""

from __future__ import annotations

import math

import pytest
import torch
from conftest import setup

from posbench.encoding import EncodingStack
from posbench.encodings.nope import NoPE
from posbench.errors import ConfigError
from posbench.transformer import Transformer


@pytest.mark.parametrize(("heads", "head_width", "width"), [(3, 5, 8), (1, 8, 8), (4, 8, 16)])
def test_a_layer_is_what_it_is_by_hand(heads: int, head_width: int, width: int) -> None:
    """Each query, head and channel in a loop: rows of the projections come as queries, keys and
    values, each head by head.
    """
    stack = EncodingStack([NoPE()])
    model = Transformer(7, width, 1, heads, head_width, stack, mlp_ratio=0).double().eval()
    tokens = torch.randint(0, 7, (2, 6), generator=torch.Generator().manual_seed(0))
    [block] = model.blocks
    assert block.qkv.weight.shape == (3 * heads * head_width, width)
    assert block.out.weight.shape == (width, heads * head_width)
    rows = block.qkv.weight.view(3, heads, head_width, width)
    for sequence, found in zip(tokens, model(tokens, torch.arange(6)[None]), strict=True):
        x = model.embedding.weight[sequence]
        normed = [block.attention_norm(each) for each in x]
        for place in range(6):
            outputs = []
            for head in range(heads):
                query = rows[0, head] @ normed[place]
                scores = [
                    (query @ (rows[1, head] @ normed[j])).item() / math.sqrt(head_width)
                    for j in range(place + 1)
                ]
                largest = max(scores)
                weights = [math.exp(score - largest) for score in scores]
                values = [rows[2, head] @ normed[j] for j in range(place + 1)]
                total = sum(weights)
                outputs.append(
                    sum(w / total * value for w, value in zip(weights, values, strict=True))
                )
            after = x[place] + block.out.weight @ torch.cat(outputs)  # type: ignore[arg-type]
            expected = model.head.weight @ model.norm(after)
            torch.testing.assert_close(found[place], expected, rtol=1e-9, atol=1e-10)


def test_heads_are_as_wide_as_they_are_told_whatever_the_width_of_the_model() -> None:
    sizes = {
        width: setup(f"model.width={width}", "model.num_heads=3", "model.head_width=10").model()
        for width in (16, 50)
    }
    for width, model in sizes.items():
        assert (model.width, model.num_heads, model.head_width) == (width, 3, 10)
        for block in model.blocks:
            assert block.qkv.weight.shape == (90, width) and block.out.weight.shape == (width, 30)
    # An encoding is made for the heads: five pairs of channels.
    assert len(sizes[16].encodings.layers[0].frequencies.theta()) == 5


def test_heads_without_a_channel_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"model\.head_width"):
        setup("model.head_width=0")
