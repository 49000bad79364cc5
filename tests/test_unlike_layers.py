"""Patterns of unlike layers are, layer by layer, what model families are published to have; and an
extension of some layers leaves the others as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from loops import BATCH, HEADS, WIDTH, by_pairs, call, outputs, same, shaken
from omegaconf import OmegaConf
from torch import Tensor

from posbench.base.errors import ConfigError, IllegalExtension
from posbench.config.building import build
from posbench.config.compose import compose
from posbench.core.attention import Attention, attend, dense
from posbench.core.encoding import EncodingStack
from posbench.core.extension import Extension
from posbench.encodings.alibi import ALiBi
from posbench.encodings.chunked import Chunked
from posbench.encodings.nope import NoPE
from posbench.encodings.rope import RoPE
from posbench.extensions.both import Both
from posbench.extensions.direct import Direct
from posbench.extensions.log_floor import LogFloor
from posbench.extensions.only import Only
from posbench.extensions.pi import PI
from posbench.extensions.yarn import YaRN
from posbench.running.subject import setup

oracle = pytest.mark.oracle
LONG = 25  # tokens, of which the windows below hold a part


# -- patterns --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layer:
    """What a layer is, in the words of the papers; lengths in shares of the training's."""

    turns: float = 0.0  # share of the pairs that complete a turn in training; 0: no rotation
    kept: float = 1.0  # share of the pairs that turn at all
    window: float = 0.0
    chunk: float = 0.0
    sink: bool = False


PATTERNS = {
    "rope_windows": [Layer(0.7, window=0.5), Layer(0.7)],
    "local_global_rope": [Layer(0.93, window=0.25), Layer(0.62)],
    "local_global_p_rope": [Layer(0.93, window=0.25), Layer(0.62, kept=0.25)],
    "rope_chunked_nope": [Layer(0.55, chunk=0.25), Layer()],
    "sink_windows": [Layer(0.54, window=0.25, sink=True), Layer(0.54, sink=True)],
}


def turned(a: Attention, layer: Layer, length: int) -> Tensor:
    """The scores, each vector turned pair by pair in Python floats."""
    pairs = a.q.shape[-1] // 2
    base = round((length / (2 * math.pi)) ** (1 / layer.turns), 2) if layer.turns else 1.0
    still = not layer.turns

    def rotated(vector: list[float], place: float) -> list[float]:
        found = list(vector)
        for m in range(int(layer.kept * pairs)):
            angle = 0.0 if still else place * base ** (-m / pairs)
            re, im = vector[m], vector[m + pairs]
            found[m] = re * math.cos(angle) - im * math.sin(angle)
            found[m + pairs] = re * math.sin(angle) + im * math.cos(angle)
        return found

    q, k, q_pos, k_pos = (t.tolist() for t in (a.q, a.k, a.q_pos, a.k_pos))

    def score(b: int, h: int, i: int, j: int) -> float:
        left, right = rotated(q[b][h][i], q_pos[b][i]), rotated(k[b][h][j], k_pos[b][j])
        return a.scale * sum(x * y for x, y in zip(left, right, strict=True))

    return by_pairs(a, score)


def by_hand(a: Attention, layer: Layer, length: int, sinks: list[float]) -> Tensor:
    """Which keys are seen is asked of every pair; a sink is one more term of the denominator."""

    def seen(h: int, i: int, j: int) -> bool:
        if layer.window:
            return j > i - round(layer.window * length)
        if layer.chunk:
            return i // round(layer.chunk * length) == j // round(layer.chunk * length)
        return True

    extra = [math.exp(sink) for sink in sinks] if layer.sink else None
    return outputs(a, turned(a, layer, length), seen, extra)


@oracle("rope_windows", "double loop")
def test_rope_windows_are_those_of_gemma_2() -> None:
    as_published("rope_windows")


@oracle("local_global_rope", "double loop")
def test_local_and_global_rope_are_those_of_gemma_3() -> None:
    as_published("local_global_rope")


@pytest.mark.slow
@oracle("local_global_p_rope", "double loop")
def test_local_rope_and_global_p_rope_are_those_of_gemma_4() -> None:
    as_published("local_global_p_rope")
    # A quarter of four pairs is the first, which turns alike at any base.
    wider = [PATTERNS["local_global_p_rope"][0], Layer(0.62, kept=0.75)]
    as_published("local_global_p_rope", "encoding.layers.1.share=0.75", pattern=wider)


@oracle("rope_chunked_nope", "double loop")
def test_rope_in_chunks_and_nope_are_those_of_llama_4() -> None:
    as_published("rope_chunked_nope")


@oracle("sink_windows", "double loop")
def test_windows_with_sinks_are_those_of_gpt_oss() -> None:
    as_published("sink_windows")


def as_published(name: str, *words: str, pattern: list[Layer] | None = None) -> None:
    sizes = ("model.num_layers=3", f"model.num_heads={HEADS}", f"model.head_width={WIDTH}")
    run = setup(f"encoding={name}", *sizes, *words)
    length, pattern = run.train_positions, pattern or PATTERNS[name]
    a = call(range(LONG))
    for index, encoding in enumerate(run.model().encodings):
        encoding, layer = shaken(encoding), pattern[index % 2]
        sinks = encoding.logits.tolist() if layer.sink else []
        expected = by_hand(a, layer, length, sinks)
        same(attend(encoding.encode(a)), expected)
        same(dense(encoding.encode(a)), expected)
        for share in (layer.window, layer.chunk):  # a part of the tokens is hidden
            assert not share or 1 < round(share * length) < LONG


def test_a_chunk_knows_nothing_of_the_one_before() -> None:
    a, host = call(range(7)), ALiBi(HEADS)
    allowed = Chunked(host, 3).encode(a).allowed(slice(0, 7))[0, 0]
    assert allowed.sum(-1).tolist() == [1, 2, 3, 1, 2, 3, 1]
    same(attend(Chunked(host, 7).encode(a)), attend(host.encode(a)))
    with pytest.raises(ConfigError, match="chunk is a number of tokens"):
        Chunked(host, 0)


# -- some layers alone -----------------------------------------------------------------------------


def stack() -> EncodingStack:
    """Two kinds in turn over five layers: the last of the pattern is not that of the model."""
    return EncodingStack([RoPE(WIDTH), NoPE(), RoPE(WIDTH), NoPE(), RoPE(WIDTH)], 2)


def after(extension: Extension, before: EncodingStack, a: Attention) -> list[bool]:
    """Which layers an extension leaves as they are, bit for bit."""
    extended = extension.extend(before, 4, 12)
    assert len(extended) == len(before)
    return [
        torch.equal(attend(new.encode(a)), attend(old.encode(a)))
        for new, old in zip(extended, before, strict=True)
    ]


@pytest.mark.parametrize(
    ("layers", "changed"),
    [([0], [0, 2, 4]), ([-2], [0, 2, 4]), ([1], [1, 3]), ([-1], [1, 3]), ([1, 0], [0, 1, 2, 3, 4])],
)
def test_the_other_layers_stay_bit_for_bit(layers: list[int], changed: list[int]) -> None:
    a = call(range(12))
    same_as_before = after(Only(LogFloor(), layers), stack(), a)
    assert same_as_before == [index not in changed for index in range(5)]


@pytest.mark.parametrize("inner", [LogFloor(), PI(), YaRN(), Both(YaRN(), LogFloor())])
def test_chosen_layers_are_what_the_extension_makes_of_them(inner: Extension) -> None:
    a, before = call(range(12)), stack()
    expected = list(inner.extend(before, 4, 12))
    for index, layer in enumerate(Only(inner, [0]).extend(before, 4, 12)):
        wanted = expected[index] if index % 2 == 0 else list(before)[index]
        assert torch.equal(attend(layer.encode(a)), attend(wanted.encode(a)))


def test_each_layer_keeps_what_is_its_own() -> None:
    """Layers of one kind may have parameters, and no two have changed places."""
    before = EncodingStack([shaken(ALiBi(HEADS)), NoPE(), shaken(ALiBi(HEADS)), NoPE()], 2)
    part = Only(LogFloor(), [0]).part(before)
    assert list(map(id, part)) == list(map(id, list(before)[::2]))


def test_an_encoding_that_is_the_same_in_every_layer_has_a_pattern_of_one() -> None:
    a, alike = call(range(12)), EncodingStack([RoPE(WIDTH) for _ in range(3)])
    assert after(Only(PI(), [-1]), alike, a) == [False] * 3
    with pytest.raises(IllegalExtension, match=r"layers \[1\] are not in the pattern .* after 1,"):
        Only(PI(), [1]).extend(alike, 4, 12)


def test_layers_without_what_an_extension_needs_are_refused_by_their_place() -> None:
    sentence = r"^layers \[-1\] of the pattern cannot be extended: PI needs frequencies, which this"
    with pytest.raises(IllegalExtension, match=sentence):
        Only(PI(), [-1]).extend(stack(), 4, 12)
    for absent in (2, -3):
        with pytest.raises(IllegalExtension, match=rf"layers \[{absent}\] are not in the pattern"):
            Only(LogFloor(), [absent]).extend(stack(), 4, 12)


@pytest.mark.parametrize("layers", [[], [0, 0]])
def test_a_choice_of_layers_names_each_once(layers: list[int]) -> None:
    with pytest.raises(ConfigError, match="each once and one at least"):
        Only(Direct(), layers)


def test_an_extension_that_trains_is_not_for_some_layers() -> None:
    drope = built("extension=drope")
    assert drope.trains
    with pytest.raises(ConfigError, match="trains or searches"):
        Only(drope, [0])


def test_parameters_stay_shared() -> None:
    alike = EncodingStack([shaken(ALiBi(HEADS)), NoPE()], 2)
    learned = setup("encoding=sink_windows").model().encodings
    extended = Only(LogFloor(), [-1]).extend(learned, 4, 12)
    assert [p.data_ptr() for p in extended.parameters()] == [
        p.data_ptr() for p in learned.parameters()
    ]
    assert after(Only(LogFloor(), [1]), alike, call(range(12)))[0]


def built(*words: str) -> Extension:
    cfg = compose(*words).cfg()
    cfg.train_positions, cfg.test_positions = 40, 120
    return build(OmegaConf.to_container(cfg, resolve=True)["extension"], "extension")  # type: ignore[index, call-overload]


@oracle("only", "identity: the extension itself, in the layers chosen")
@pytest.mark.parametrize("name", ["log_floor"])
def test_the_option_only_is_the_extension_in_the_last_layers(name: str) -> None:
    in_last_layers("only", name)


@oracle("yarn_last", "identity: the extension itself, in the layers chosen")
def test_yarn_last_is_yarn_in_the_last_layers() -> None:
    in_last_layers("yarn_last", "yarn")


@oracle("pi_last", "identity: the extension itself, in the layers chosen")
def test_pi_last_is_pi_in_the_last_layers() -> None:
    in_last_layers("pi_last", "pi")


@oracle("log_n_last", "identity: the extension itself, in the layers chosen")
def test_log_n_last_is_log_n_in_the_last_layers() -> None:
    in_last_layers("log_n_last", "log_n")


def in_last_layers(name: str, inner: str) -> None:
    a, before = call(range(60)), EncodingStack([ALiBi(HEADS), RoPE(WIDTH)], 2)
    extended = built(f"extension={name}").extend(before, 40, 120)
    plain = built(f"extension={inner}").apply(before.layers[1], 40, 120)
    assert torch.equal(attend(extended.layers[0].encode(a)), attend(before.layers[0].encode(a)))
    assert torch.equal(attend(extended.layers[1].encode(a)), attend(plain.encode(a)))
    assert a.q.shape[0] == BATCH
