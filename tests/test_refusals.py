"""Settings that cannot work are refused when an object is made, or at the latest when it is used,
with one sentence that says which value is wrong and what would do.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from posbench.base.errors import ConfigError
from posbench.core.frequencies import Frequencies
from posbench.encodings.abacus import Abacus
from posbench.encodings.alibi import ALiBi
from posbench.encodings.alibi_learned import LearnedALiBi
from posbench.encodings.bipe import BiPE
from posbench.encodings.cable import Cable
from posbench.encodings.cape import CAPE
from posbench.encodings.cope import CoPE
from posbench.encodings.coupling import Coupling
from posbench.encodings.dape import DAPE
from posbench.encodings.deberta import DeBERTa
from posbench.encodings.dynamic_bias import DynamicBias
from posbench.encodings.fire import FIRE
from posbench.encodings.fope import FoPE
from posbench.encodings.fox import FoX
from posbench.encodings.grape_a import GRAPEA
from posbench.encodings.hard_alibi import HardALiBi
from posbench.encodings.kerple_log import KerpleLog
from posbench.encodings.kerple_power import KerplePower
from posbench.encodings.learned import Learned
from posbench.encodings.lerope import LeRoPE
from posbench.encodings.multiplicative import Multiplicative
from posbench.encodings.nape import NAPE
from posbench.encodings.nope import NoPE
from posbench.encodings.p_rope import PRoPE
from posbench.encodings.partial_rope import PartialRoPE
from posbench.encodings.path import PaTH
from posbench.encodings.path_fox import PaTHFoX
from posbench.encodings.per_row_dda import PerRowForgetting
from posbench.encodings.pope import PoPE
from posbench.encodings.projected_logits import ProjectedLogits
from posbench.encodings.random_floats import RandomFloats
from posbench.encodings.random_positions import RandomPositions
from posbench.encodings.rope import RoPE
from posbench.encodings.sandwich import Sandwich
from posbench.encodings.scale_invariant import ScaleInvariant
from posbench.encodings.scaled_sinusoidal import ScaledSinusoidal
from posbench.encodings.selective_rope import SelectiveRoPE
from posbench.encodings.shape import SHAPE
from posbench.encodings.shaw import Shaw
from posbench.encodings.sink import Sink
from posbench.encodings.sinusoidal import Sinusoidal
from posbench.encodings.sliding_window import SlidingWindow as WindowEncoding
from posbench.encodings.ssmax import SSMax
from posbench.encodings.t5 import T5
from posbench.encodings.t5_bidirectional import BidirectionalT5
from posbench.encodings.tener import TENER
from posbench.encodings.transformer_xl import TransformerXL
from posbench.encodings.tupe import TUPE
from posbench.encodings.vo_rope import VORoPE
from posbench.encodings.xlnet import XLNet
from posbench.encodings.xpos import XPos
from posbench.extensions.abf import ABF
from posbench.extensions.block_causal import BlockCausal
from posbench.extensions.by_parts import ByParts
from posbench.extensions.chunked import Chunked
from posbench.extensions.clamp import Clamp
from posbench.extensions.clipped_rope import ClippedRoPE
from posbench.extensions.dca import DCA
from posbench.extensions.drop_low_frequencies import DropLowFrequencies
from posbench.extensions.drope import Dropped
from posbench.extensions.dynamic_ntk import DynamicNTK
from posbench.extensions.finetuned import FineTuned
from posbench.extensions.giraffe_power import GiraffePower
from posbench.extensions.giraffe_truncated import GiraffeTruncated
from posbench.extensions.inkling_temperature import InklingTemperature
from posbench.extensions.interpolate_distance import InterpolateDistance
from posbench.extensions.leaky_rerope import LeakyReRoPE
from posbench.extensions.llama3 import Llama3
from posbench.extensions.lm_infinite import LMInfinite
from posbench.extensions.log_floor import LogFloor
from posbench.extensions.log_n import LogN
from posbench.extensions.longrope import LongRoPE
from posbench.extensions.longrope_search import LongRoPEExponents, LongRoPESearch
from posbench.extensions.mesa import Mesa
from posbench.extensions.mrrope_pro import MrRoPEPro
from posbench.extensions.mrrope_uni import MrRoPEUni
from posbench.extensions.ntk import NTK
from posbench.extensions.ntk_fixed import NTKFixed
from posbench.extensions.ntk_mixed import NTKMixed
from posbench.extensions.pi import PI
from posbench.extensions.pose import SkipWise
from posbench.extensions.rerope import ReRoPE
from posbench.extensions.self_extend import SelfExtend
from posbench.extensions.sliding_window import SlidingWindow
from posbench.extensions.streaming_llm import StreamingLLM
from posbench.extensions.string import STRING
from posbench.extensions.table_hierarchical import TableHierarchical
from posbench.extensions.table_interpolation import TableInterpolation
from posbench.extensions.tuned import Tuned
from posbench.extensions.yarn import YaRN
from posbench.extensions.yarn_temperature import YarnTemperature
from posbench.extensions.yarn_turns import YaRNTurns

ENCODINGS: list[tuple[Callable[[], object], str]] = [
    (lambda: RoPE(7), r"head_width must be even, got 7"),
    (lambda: RoPE(8, layout="halves"), r"layout must be one of half, interleaved, got 'halves'"),
    (
        lambda: RoPE(8, base=0.0),
        r"base of the frequencies must exceed 1: the first is the fastest; got 0\.0",
    ),
    (
        lambda: RoPE(8, base=-10000.0),
        r"base of the frequencies must exceed 1: the first is the fastest; got -10000\.0",
    ),
    (lambda: RoPE(0), r"at least one frequency, got 0: use a head width of 2 or more"),
    (lambda: Sinusoidal(15), r"even model width, got 15"),
    (
        lambda: Sinusoidal(16, base=-1.0),
        r"base of the frequencies must exceed 1: the first is the fastest; got -1\.0",
    ),
    (lambda: Learned(16, 0), r"at least 1, got 0"),
    (lambda: Learned(16, -3), r"at least 1, got -3"),
    (lambda: ALiBi(0), r"at least one head, got 0"),
    (lambda: T5(2, 16, 1, 42), r"at least 2 buckets, got num_buckets=1"),
    (
        lambda: T5(2, 16, 32, 16),
        r"max_distance=16 must exceed the 16 distances .*lower num_buckets=32",
    ),
    (lambda: Frequencies(4, stretch=(1.0, 2.0)), r"4 frequencies need 4 stretches, got 2"),
    (
        lambda: Shaw(8, 0),
        r"clip is the largest distance with vectors of its own, at least 1, got 0",
    ),
    (lambda: TransformerXL(0, 8, 16), r"at least one head, got 0"),
    (lambda: TransformerXL(2, 8, 15), r"model width must be even, got 15"),
    (lambda: XLNet(2, 8, 15), r"model width must be even, got 15"),
    (lambda: XLNet(2, 8, 16, base=1.0), r"base .* must exceed 1.*got 1\.0"),
    (lambda: TENER(2, 7), r"head_width must be even, got 7"),
    (lambda: TENER(0, 8), r"at least one head, got 0"),
    (lambda: TENER(2, 8, scale=0.0), r"scale multiplies all scores and must exceed 0, got 0\.0"),
    (lambda: DeBERTa(0, 8, 16, 4), r"at least one head, got 0"),
    (
        lambda: DeBERTa(2, 8, 16, 0),
        r"clip is the distance from which rows are shared, at least 1, got 0",
    ),
    (lambda: DeBERTa(2, 8, 16, 4, "hf"), r"index must be one of paper, published, got 'hf'"),
    (lambda: ProjectedLogits(0, 16, 4, 4), r"at least one head and one curve, got 0 and 4"),
    (lambda: ProjectedLogits(2, 16, 0, 4), r"at least one head and one curve, got 2 and 0"),
    (
        lambda: ProjectedLogits(2, 16, 4, 0),
        r"extent is the number of distances with a bias, at least 1, got 0",
    ),
    (lambda: TUPE(NoPE(), 0, 8, 16, 4), r"at least one head, got 0"),
    (
        lambda: TUPE(NoPE(), 2, 8, 16, 0),
        r"num_rows is the number of positions that have a row, at least 1, got 0",
    ),
    (lambda: Multiplicative(16, 0), r"at least 1, got 0"),
    (
        lambda: Sinusoidal(16, layout="halves"),
        r"layout must be one of interleaved, half, got 'halves'",
    ),
    (
        lambda: Sinusoidal(16, spacing="t2t"),
        r"spacing must be one of paper, tensor2tensor, got 't2t'",
    ),
    (
        lambda: Sinusoidal(2, spacing="tensor2tensor"),
        r"needs 2 frequencies: use a model width of 4 or more",
    ),
    (lambda: Sinusoidal(16, -1.0, spacing="tensor2tensor"), r"base .* must exceed 1.*got -1\.0"),
    (lambda: ScaledSinusoidal(15), r"even model width, got 15"),
    (lambda: BidirectionalT5(2, 16, 1, 42), r"at least 2 buckets, got num_buckets=1"),
    (lambda: KerpleLog(0), r"at least one head, got 0"),
    (lambda: KerplePower(-1), r"at least one head, got -1"),
    (lambda: FIRE(0, 32, 10.0), r"at least one head and one hidden unit, got 0 and 32"),
    (lambda: FIRE(2, 0, 10.0), r"at least one head and one hidden unit, got 2 and 0"),
    (lambda: FIRE(2, 32, 0.0), r"threshold .* must exceed 0, got 0\.0"),
    (lambda: FIRE(2, 32, 10.0, init_c=-0.1), r"init_c must exceed 0, .*got -0\.1"),
    (lambda: DynamicBias(0, 16), r"at least one head, got 0"),
    (lambda: DynamicBias(2, 3), r"model width, which must be at least 4, got 3"),
    (lambda: DynamicBias(2, 16, 0), r"depth is the number of hidden layers, at least 1, got 0"),
    (lambda: Sandwich(0), r"at least one head, got 0"),
    (lambda: Sandwich(2, 7), r"even and at least 2, got 7"),
    (lambda: Sandwich(2, 0), r"even and at least 2, got 0"),
    (lambda: Sandwich(2, compression=0.0), r"compression must exceed 0, got 0\.0"),
    (lambda: Sandwich(2, base=1.0), r"base .* must exceed 1.*got 1\.0"),
    (lambda: CoPE(8, 0), r"largest is the highest count .* at least 1, got 0"),
    (lambda: CoPE(8, 4, "none"), r"scale_pos must be one of attention, one, got 'none'"),
    (lambda: FoX(8, 0), r"at least one, got 0"),
    (lambda: Cable(8, -1), r"at least one, got -1"),
    (lambda: PerRowForgetting(8, 0, 4), r"at least one head and one channel, got 0 and 4"),
    (lambda: PerRowForgetting(8, 2, 0), r"at least one head and one channel, got 2 and 0"),
    (lambda: PaTH(8, 2, 4, 0, 3), r"rank .* at least 1, got 0"),
    (lambda: PaTH(8, 2, 4, 4, 0), r"kernel counts the tokens .*at least 1, got 0"),
    (lambda: PaTHFoX(8, 2, 4, -2, 3), r"rank .* at least 1, got -2"),
    (lambda: GRAPEA(0, 8), r"at least one head, got 0"),
    (lambda: GRAPEA(2, 8, "keys"), r"gate must be one of key, query, both, got 'keys'"),
    (lambda: DAPE(NoPE(), 0, 32), r"at least one head and one hidden unit, got 0 and 32"),
    (lambda: DAPE(NoPE(), 2, 0), r"at least one head and one hidden unit, got 2 and 0"),
    (lambda: LearnedALiBi(0), r"at least one head, got 0"),
    (lambda: HardALiBi(4, 0), r"num_masked is a number of heads, from 1 to 4, or null, got 0"),
    (lambda: HardALiBi(4, 5), r"from 1 to 4, or null, got 5"),
    (lambda: HardALiBi(4, shortest=-1), r"must be 0 or more, got -1"),
    (lambda: NAPE(1), r"at least 2 heads, got 1"),
    (lambda: WindowEncoding(NoPE(), 0), r"must be at least 1, got 0"),
    (lambda: SSMax(NoPE(), 2, 1), r"at least 2, got 1"),
    (lambda: Sink(NoPE(), 0), r"at least one, got 0"),
    (lambda: ScaleInvariant(NoPE(), 0.0), r"must exceed 0, got 0\.0"),
    (lambda: RandomPositions(RoPE(8), 0), r"at least 1, got 0"),
    (lambda: RandomFloats(RoPE(8), 0), r"at least 1, got 0"),
    (
        lambda: RandomFloats(Learned(8, 9), 5),
        r"random_floats .* Learned has a row for each whole one",
    ),
    (lambda: SHAPE(Sinusoidal(8), 0), r"at least 1, got 0"),
    (lambda: SHAPE(RoPE(8), 5), r"RoPE is relative, .*choose an absolute host"),
    (lambda: CAPE(Sinusoidal(8), -1.0), r"must not be negative, got -1\.0 and 0\.5"),
    (lambda: CAPE(Sinusoidal(8), 1.0, -0.5), r"must not be negative, got 1\.0 and -0\.5"),
    (lambda: CAPE(Sinusoidal(8), 1.0, max_scaling=0.9), r"at least 1: 0\.9"),
    (lambda: CAPE(Learned(8, 9), 1.0), r"cape .* Learned has a row for each whole one"),
    (lambda: Coupling(Learned(8, 9), 0), r"at least 1, got 0"),
    (lambda: Abacus(8, 1), r"at least 2, got 1"),
    (lambda: BiPE(RoPE(8), 8, 1), r"at least 2, got 1"),
    (lambda: PartialRoPE(7), r"head_width must be even, got 7"),
    (lambda: PartialRoPE(8, 0.0), r"share is .* above 0 and at most 1, got 0\.0"),
    (lambda: PartialRoPE(8, 1.5), r"share is .* above 0 and at most 1, got 1\.5"),
    (
        lambda: PartialRoPE(8, 0.2),
        r"share=0\.2 of head_width=8 leaves no pair to turn: raise either",
    ),
    (lambda: PartialRoPE(8, 0.5, 1.0), r"base .* must exceed 1.*got 1\.0"),
    (lambda: PRoPE(9), r"head_width must be even, got 9"),
    (lambda: PRoPE(8, -0.1), r"share is .* got -0\.1"),
    (lambda: PRoPE(8, 0.1), r"share=0\.1 of head_width=8 leaves no pair"),
    (lambda: PRoPE(8, 0.5, -2.0), r"base .* must exceed 1.*got -2\.0"),
    (lambda: XPos(7, 20.0), r"head_width must be even, got 7"),
    (lambda: XPos(8, 0.0), r"scale_base is a number of positions and must exceed 0, got 0\.0"),
    (lambda: XPos(8, 20.0, 0.0), r"gamma must exceed 0, .*got 0\.0"),
    (lambda: XPos(8, 20.0, base=0.5), r"base .* must exceed 1.*got 0\.5"),
    (lambda: PoPE(0, 8), r"at least one head, got 0"),
    (lambda: PoPE(2, 0), r"at least one frequency, got 0"),
    (lambda: LeRoPE(5), r"head_width must be even, got 5"),
    (lambda: LeRoPE(0), r"at least one frequency, got 0"),
    (lambda: FoPE(0, 8, 20), r"at least one head, got 0"),
    (lambda: FoPE(2, 7, 20), r"head_width must be even, got 7"),
    (
        lambda: FoPE(2, 8, 20, sigma=-0.1),
        r"sigma is a standard deviation and must not be negative, got -0\.1",
    ),
    (lambda: FoPE(2, 8, 6), r"train_positions=6 must be 7 or more"),
    (lambda: SelectiveRoPE(3, 8, 25), r"multiple of num_heads, got 25 and 3"),
    (lambda: SelectiveRoPE(0, 8, 24), r"multiple of num_heads, got 24 and 0"),
    (lambda: SelectiveRoPE(3, 7, 24), r"head_width must be even, got 7"),
    (
        lambda: SelectiveRoPE(3, 8, 24, rank=0),
        r"rank and kernel are counts of at least 1, got 0 and 4",
    ),
    (
        lambda: SelectiveRoPE(3, 8, 24, kernel=0),
        r"rank and kernel are counts of at least 1, got 16 and 0",
    ),
    (lambda: VORoPE(7), r"head_width must be even, got 7"),
]


EXTENSIONS: list[tuple[Callable[[], object], str]] = [
    (lambda: PI(0.5), r"at least 1 \(or null for one a length\), got 0\.5"),
    (lambda: NTK(0.0), r"at least 1 \(or null for one a length\), got 0\.0"),
    (lambda: YaRN(scale=-2.0), r"at least 1 \(or null for one a length\), got -2\.0"),
    (lambda: YaRN(1.0, 1.0), r"beta_fast > beta_slow > 0 turns, got 1\.0 and 1\.0"),
    (lambda: YaRN(1.0, 2.0), r"beta_fast > beta_slow > 0 turns, got 1\.0 and 2\.0"),
    (lambda: YaRN(2.0, 0.0), r"beta_fast > beta_slow > 0 turns, got 2\.0 and 0\.0"),
    (lambda: NTKFixed(0.5), r"at least 1 \(or null for one a length\), got 0\.5"),
    (lambda: NTKMixed(0.0), r"power must exceed 0, .*got 0\.0"),
    (lambda: NTKMixed(1.0, 0.9), r"at least 1 \(or null for one a length\), got 0\.9"),
    (lambda: DynamicNTK(0.5), r"factor is .* at least 1 \(NTK\), got 0\.5"),
    (lambda: ByParts(1.0, 1.0), r"beta_fast > beta_slow > 0 turns, got 1\.0 and 1\.0"),
    (lambda: ByParts(2.0, 1.0, "linear"), r"ramp must be one of index, turns, got 'linear'"),
    (lambda: ByParts(scale=0.0), r"at least 1 \(or null for one a length\), got 0\.0"),
    (lambda: YaRNTurns(2.0, 0.0), r"beta_fast > beta_slow > 0 turns, got 2\.0 and 0\.0"),
    (
        lambda: Llama3(4.0, 4.0),
        r"high_freq_factor > low_freq_factor > 0 turns in training, got 4\.0 and 4\.0",
    ),
    (
        lambda: Llama3(0.0, 4.0),
        r"high_freq_factor > low_freq_factor > 0 turns in training, got 4\.0 and 0\.0",
    ),
    (lambda: MrRoPEUni(1.0, 1.0), r"beta_fast > beta_slow > 0 turns, got 1\.0 and 1\.0"),
    (lambda: MrRoPEPro(2.0, -1.0), r"beta_fast > beta_slow > 0 turns, got 2\.0 and -1\.0"),
    (lambda: LongRoPE(None, (1.0, 2.0)), r"short_factors are given without long_factors"),
    (lambda: LongRoPE((1.0, 0.5)), r"long_factors are stretches of at least 1, got 0\.5"),
    (
        lambda: LongRoPE((1.0, 2.0), (0.9, 1.0)),
        r"short_factors are stretches of at least 1, got 0\.9",
    ),
    (lambda: ABF(0.0), r"growth is a factor on the base and must exceed 0, got 0\.0"),
    (lambda: GiraffePower(0.0), r"power must exceed 0, .*got 0\.0"),
    (lambda: GiraffeTruncated(0.0), r"turns is .* above 0, got 0\.0"),
    (lambda: GiraffeTruncated(1.0, 8.0, 4.0), r"slowing >= span >= 1, .*got 4\.0 and 8\.0"),
    (lambda: GiraffeTruncated(1.0, 0.5), r"slowing >= span >= 1, .*got 16\.0 and 0\.5"),
    (lambda: ClippedRoPE(0.0), r"share is .* above 0 and at most 1, got 0\.0"),
    (lambda: DropLowFrequencies(1.5), r"share is .* above 0 and at most 1, got 1\.5"),
    (lambda: LogN(1), r"at least 2 \(or null .*\), got 1"),
    (lambda: LogFloor(0.0), r"beta .* must exceed 0, got 0"),
    (lambda: InklingTemperature(-0.1), r"beta .* must exceed 0, got -0.1"),
    (lambda: LogFloor(0.1, 0), r"at least 2 \(or null .*\), got 0"),
    (lambda: YarnTemperature(0.5), r"at least 1 \(or null .*\), got 0.5"),
    (
        lambda: SlidingWindow(0),
        r"window is a number of tokens, at least 1 \(or null .*\), got 0",
    ),
    (lambda: Chunked(-1), r"chunk is a number of tokens, at least 1 \(or null .*\), got -1"),
    (lambda: BlockCausal(0), r"block is a number of tokens, at least 1 \(or null .*\), got 0"),
    (lambda: TableInterpolation(0.9), r"at least 1 \(or null .*\), got 0.9"),
    (lambda: TableHierarchical(0.5), r"between 0 and 1 and not one half, got 0.5"),
    (lambda: TableHierarchical(1.0), r"between 0 and 1 and not one half, got 1"),
    (lambda: TableHierarchical(0.0), r"between 0 and 1 and not one half, got 0"),
    (
        lambda: TableHierarchical().apply(Learned(8, 40), 4, 17),
        r"4 trained rows make 16 positions, .* has 17: shorten",
    ),
    (
        lambda: TableInterpolation().apply(Learned(8, 40), 1, 5),
        r"needs two trained rows, and training has seen 1",
    ),
    (lambda: ReRoPE(0), "window is a number of positions, at least 1, got 0"),
    (lambda: Clamp(0), "largest is a number of positions, at least 1, got 0"),
    (lambda: LeakyReRoPE(0), "window is a number"),
    (lambda: LeakyReRoPE(4, 0.5), "shrink divides far distances, at least 1"),
    (lambda: SelfExtend(0), "window is a number"),
    (lambda: SelfExtend(4, 0), "group is a number"),
    (lambda: Mesa(0), "chunk is a number"),
    (lambda: Mesa(4, 0), "step is a number"),
    (lambda: DCA(4, 0), "window is a number"),
    (lambda: DCA(4, 4).regions(8, 20), "largest=4 must exceed window=4"),
    (lambda: STRING(4, 4).regions(8, 20), "shift=4 must exceed window=4"),
    (lambda: STRING(4, -1), "window is a number of positions, at least 0, got -1"),
    (lambda: LMInfinite(-1), "first is a number of positions, at least 0, got -1"),
    (lambda: LMInfinite(4, 0), "window is a number"),
    (lambda: StreamingLLM(0), "sinks is a number"),
    (lambda: StreamingLLM(4, 0), "window is a number"),
    (lambda: InterpolateDistance(0.5), "scale is the factor of extension, at least 1"),
    (lambda: LeakyReRoPE(7).regions(8, 20), "window=7 leaves no trained distance"),
    (lambda: SelfExtend(8).regions(8, 20), "window=8 leaves no trained distance"),
    (lambda: Mesa(8).regions(8, 20), "chunk=8 leaves no trained distance"),
    (lambda: StreamingLLM(8).regions(8, 20), "sinks=8 leaves no trained distance"),
    (lambda: Dropped(-0.1), r"growth of the temperature .* must not be negative, got -0\.1"),
    (lambda: Dropped(math.nan), r"growth of the temperature .* must not be negative, got nan"),
    (lambda: Dropped(0.1, 0.5), r"at least 1 \(or null for one a length\), got 0\.5"),
    (
        lambda: SkipWise(0.9),
        r"multiple is that of the positions to be trained, at least 1, got 0\.9",
    ),
    (
        lambda: FineTuned(PI(2.0), steps=0),
        r"steps of the fine-tuning is a factor .* must be positive, got 0",
    ),
    (
        lambda: FineTuned(PI(2.0), multiple=-1),
        r"multiple of the fine-tuning .* must be positive, got -1",
    ),
    (
        lambda: FineTuned(PI(2.0), learning_rate=math.inf),
        r"learning_rate of the fine-tuning .* got inf",
    ),
    (lambda: FineTuned(PI(2.0), steps=math.nan), r"steps of the fine-tuning .* got nan"),
    (lambda: LongRoPESearch(budget=0), r"budget is the number of candidates, .* at least 1, got 0"),
    (
        lambda: LongRoPESearch(multiple=1.0),
        r"multiple is that of the validation length and must exceed 1, got 1\.0",
    ),
    (lambda: Tuned(YaRN, {}), r"knobs lists at least one setting, .* got \{\}"),
    (
        lambda: Tuned(YaRN, {"beta_fast": []}),
        r"for each at least one value, got \{'beta_fast': \[\]\}",
    ),
    (
        lambda: LongRoPEExponents((0.0, 0.5, 0.4)),
        r"not fall from pair to pair, got \[0\.0, 0\.5, 0\.4\]",
    ),
    (
        lambda: LongRoPEExponents((-0.1, 0.5)),
        r"exponents must not be negative .*got \[-0\.1, 0\.5\]",
    ),
    (lambda: LongRoPEExponents((0.0, math.nan)), r"exponents must not .*got \[0\.0, nan\]"),
]


SMALLEST: list[Callable[[], object]] = [
    lambda: RoPE(2),
    lambda: Sinusoidal(2),
    lambda: Learned(1, 1),
    lambda: ALiBi(1),
    lambda: T5(1, 1, 2, 2),
    lambda: T5(2, 16, 32, 17),
    lambda: PI(1.0),
    lambda: YaRN(1.1, 1.0),
    lambda: Shaw(1, 1),
    lambda: TransformerXL(1, 1, 2),
    lambda: XLNet(1, 1, 2),
    lambda: TENER(1, 2),
    lambda: DeBERTa(1, 1, 1, 1),
    lambda: ProjectedLogits(1, 1, 1, 1),
    lambda: Sinusoidal(4, spacing="tensor2tensor"),
    lambda: ScaledSinusoidal(2, init_scale=0.0),
    lambda: Multiplicative(1, 1),
    lambda: KerpleLog(1),
    lambda: KerplePower(1),
    lambda: FIRE(1, 1, 1),
    lambda: DynamicBias(1, 4, 1),
    lambda: Sandwich(1, 2),
    lambda: LearnedALiBi(1),
    lambda: HardALiBi(1),
    lambda: HardALiBi(2, 2, 0),
    lambda: NAPE(2),
    lambda: WindowEncoding(NoPE(), 1),
    lambda: SSMax(NoPE(), 1, 2),
    lambda: RandomPositions(NoPE(), 1),
    lambda: RandomFloats(NoPE(), 1),
    lambda: SHAPE(Sinusoidal(2), 1),
    lambda: CAPE(Sinusoidal(2), 0, 0, 1),
    lambda: Coupling(NoPE(), 1),
    lambda: Abacus(1, 2),
    lambda: BiPE(NoPE(), 1, 2),
    lambda: PartialRoPE(2, 1.0),
    lambda: PRoPE(8, 0.25),
    lambda: XPos(2, 0.5, 0.1),
    lambda: PoPE(1, 1),
    lambda: LeRoPE(2),
    lambda: FoPE(1, 2, 7, sigma=0.0),
    lambda: SelectiveRoPE(1, 2, 2, 1, 1),
    lambda: VORoPE(2),
]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [*ENCODINGS, *EXTENSIONS],
    ids=[sentence for _, sentence in [*ENCODINGS, *EXTENSIONS]],
)
def test_a_setting_that_cannot_work_is_refused_in_one_sentence(
    make: Callable[[], object], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("make", SMALLEST)
def test_the_smallest_settings_that_work_are_accepted(make: Callable[[], object]) -> None:
    make()
