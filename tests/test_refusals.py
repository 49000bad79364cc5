"""Settings that cannot work are refused when an object is made, or at the latest when it is used,
with one sentence. Of it is tested which value is wrong and what would do, not the words around.
"""

from __future__ import annotations

import math
import re
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
from posbench.encodings.key_offset import KeyOffset
from posbench.encodings.learned import Learned
from posbench.encodings.lerope import LeRoPE
from posbench.encodings.multiplicative import Multiplicative
from posbench.encodings.nape import NAPE
from posbench.encodings.nope import NoPE
from posbench.encodings.p_rope import PRoPE
from posbench.encodings.partial_rope import PartialRoPE
from posbench.encodings.partial_vo_rope import PartialVORoPE
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
from posbench.encodings.top_k import TopK
from posbench.encodings.transformer_xl import TransformerXL
from posbench.encodings.tupe import TUPE
from posbench.encodings.unit_length import UnitLength
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
from posbench.extensions.top_k import TopK as Selection
from posbench.extensions.tuned import Tuned
from posbench.extensions.yarn import YaRN
from posbench.extensions.yarn_temperature import YarnTemperature
from posbench.extensions.yarn_turns import YaRNTurns

TURNS = "beta_fast > beta_slow > 0"
FACTORS = "high_freq_factor > low_freq_factor > 0"

ENCODINGS: list[tuple[Callable[[], object], *tuple[str, ...]]] = [
    (lambda: RoPE(7), "head_width", "got 7", "even"),
    (lambda: RoPE(8, layout="halves"), "layout", "got 'halves'", "one of"),
    (lambda: RoPE(8, base=0.0), "base", "got 0.0", "exceed 1"),
    (lambda: RoPE(8, base=-10000.0), "base", "got -10000.0", "exceed 1"),
    (lambda: RoPE(0), "frequency", "got 0", "at least one"),
    (lambda: Sinusoidal(15), "model width", "got 15", "even"),
    (lambda: Sinusoidal(16, base=-1.0), "base", "got -1.0", "exceed 1"),
    (lambda: Learned(16, 0), "num_rows", "got 0", "at least 1"),
    (lambda: Learned(16, -3), "num_rows", "got -3", "at least 1"),
    (lambda: ALiBi(0), "head", "got 0", "at least one"),
    (lambda: T5(2, 16, 1, 42), "num_buckets", "got num_buckets=1", "at least 2"),
    (lambda: T5(2, 16, 32, 16), "max_distance=16", "num_buckets=32", "raise it"),
    (lambda: Frequencies(4, stretch=(1.0, 2.0)), "frequencies", "got 2", "need 4"),
    (lambda: Shaw(8, 0), "clip", "got 0", "at least 1"),
    (lambda: TransformerXL(0, 8, 16), "head", "got 0", "at least one"),
    (lambda: TransformerXL(2, 8, 15), "model width", "got 15", "even"),
    (lambda: XLNet(2, 8, 15), "model width", "got 15", "even"),
    (lambda: XLNet(2, 8, 16, base=1.0), "base", "got 1.0", "exceed 1"),
    (lambda: TENER(2, 7), "head_width", "got 7", "even"),
    (lambda: TENER(0, 8), "head", "got 0", "at least one"),
    (lambda: TENER(2, 8, scale=0.0), "scale", "got 0.0", "exceed 0"),
    (lambda: DeBERTa(0, 8, 16, 4), "head", "got 0", "at least one"),
    (lambda: DeBERTa(2, 8, 16, 0), "clip", "got 0", "at least 1"),
    (lambda: DeBERTa(2, 8, 16, 4, "hf"), "index", "got 'hf'", "one of"),
    (lambda: ProjectedLogits(0, 16, 4, 4), "head", "got 0 and 4", "at least one"),
    (lambda: ProjectedLogits(2, 16, 0, 4), "head", "got 2 and 0", "at least one"),
    (lambda: ProjectedLogits(2, 16, 4, 0), "extent", "got 0", "at least 1"),
    (lambda: TUPE(NoPE(), 0, 8, 16, 4), "head", "got 0", "at least one"),
    (lambda: TUPE(NoPE(), 2, 8, 16, 0), "num_rows", "got 0", "at least 1"),
    (lambda: Multiplicative(16, 0), "num_rows", "got 0", "at least 1"),
    (lambda: Sinusoidal(16, layout="halves"), "layout", "got 'halves'", "one of"),
    (lambda: Sinusoidal(16, spacing="t2t"), "spacing", "got 't2t'", "one of"),
    (lambda: Sinusoidal(2, spacing="tensor2tensor"), "base", "spacing", "or more"),
    (
        lambda: Sinusoidal(16, -1.0, spacing="tensor2tensor"),
        "base",
        "got -1.0",
        "exceed 1",
    ),
    (lambda: ScaledSinusoidal(15), "model width", "got 15", "even"),
    (lambda: BidirectionalT5(2, 16, 1, 42), "num_buckets", "got num_buckets=1", "at least 2"),
    (lambda: KerpleLog(0), "head", "got 0", "at least one"),
    (lambda: KerplePower(-1), "head", "got -1", "at least one"),
    (lambda: FIRE(0, 32, 10.0), "head", "got 0 and 32", "at least one"),
    (lambda: FIRE(2, 0, 10.0), "head", "got 2 and 0", "at least one"),
    (lambda: FIRE(2, 32, 0.0), "threshold", "got 0.0", "exceed 0"),
    (lambda: FIRE(2, 32, 10.0, init_c=-0.1), "init_c", "got -0.1", "exceed 0"),
    (lambda: DynamicBias(0, 16), "head", "got 0", "at least one"),
    (lambda: DynamicBias(2, 3), "model width", "got 3", "at least 4"),
    (lambda: DynamicBias(2, 16, 0), "depth", "got 0", "at least 1"),
    (lambda: Sandwich(0), "head", "got 0", "at least one"),
    (lambda: Sandwich(2, 7), "width", "got 7", "even"),
    (lambda: Sandwich(2, 0), "width", "got 0", "even"),
    (lambda: Sandwich(2, compression=0.0), "compression", "got 0.0", "exceed 0"),
    (lambda: Sandwich(2, base=1.0), "base", "got 1.0", "exceed 1"),
    (lambda: CoPE(8, 0), "largest", "got 0", "at least 1"),
    (lambda: CoPE(8, 4, "none"), "scale_pos", "got 'none'", "one of"),
    (lambda: FoX(8, 0), "head", "got 0", "at least one"),
    (lambda: Cable(8, -1), "head", "got -1", "at least one"),
    (lambda: PerRowForgetting(8, 0, 4), "head", "got 0 and 4", "at least one"),
    (lambda: PerRowForgetting(8, 2, 0), "head", "got 2 and 0", "at least one"),
    (lambda: PaTH(8, 2, 4, 0, 3), "rank", "got 0", "at least 1"),
    (lambda: PaTH(8, 2, 4, 4, 0), "kernel", "got 0", "at least 1"),
    (lambda: PaTHFoX(8, 2, 4, -2, 3), "rank", "got -2", "at least 1"),
    (lambda: GRAPEA(0, 8), "head", "got 0", "at least one"),
    (lambda: GRAPEA(2, 8, "keys"), "gate", "got 'keys'", "one of"),
    (lambda: DAPE(NoPE(), 0, 32), "head", "got 0 and 32", "at least one"),
    (lambda: DAPE(NoPE(), 2, 0), "head", "got 2 and 0", "at least one"),
    (lambda: LearnedALiBi(0), "head", "got 0", "at least one"),
    (lambda: HardALiBi(4, 0), "num_masked", "got 0", "from 1 to 4"),
    (lambda: HardALiBi(4, 5), "num_masked", "got 5", "from 1 to 4"),
    (lambda: HardALiBi(4, shortest=-1), "shortest", "got -1", "or more"),
    (lambda: NAPE(1), "heads", "got 1", "at least 2"),
    (lambda: WindowEncoding(NoPE(), 0), "window", "got 0", "at least 1"),
    (lambda: SSMax(NoPE(), 2, 1), "length", "got 1", "at least 2"),
    (lambda: Sink(NoPE(), 0), "head", "got 0", "at least one"),
    (lambda: ScaleInvariant(NoPE(), 0.0), "tau", "got 0.0", "exceed 0"),
    (lambda: RandomPositions(RoPE(8), 0), "largest", "got 0", "at least 1"),
    (lambda: RandomFloats(RoPE(8), 0), "largest", "got 0", "at least 1"),
    (lambda: RandomFloats(Learned(8, 9), 5), "random_floats", "Learned", "choose another host"),
    (lambda: SHAPE(Sinusoidal(8), 0), "max_shift", "got 0", "at least 1"),
    (lambda: SHAPE(RoPE(8), 5), "RoPE", "choose an absolute host"),
    (
        lambda: CAPE(Sinusoidal(8), -1.0),
        "max_jitter",
        "max_shift",
        "got -1.0 and 0.5",
        "not be negative",
    ),
    (
        lambda: CAPE(Sinusoidal(8), 1.0, -0.5),
        "max_jitter",
        "max_shift",
        "got 1.0 and -0.5",
        "not be negative",
    ),
    (lambda: CAPE(Sinusoidal(8), 1.0, max_scaling=0.9), "max_scaling", "at least 1: 0.9"),
    (lambda: CAPE(Learned(8, 9), 1.0), "cape", "Learned", "choose another host"),
    (lambda: Coupling(Learned(8, 9), 0), "largest", "got 0", "at least 1"),
    (lambda: Abacus(8, 1), "num_rows", "got 1", "at least 2"),
    (lambda: BiPE(RoPE(8), 8, 1), "num_rows", "got 1", "at least 2"),
    (lambda: PartialRoPE(7), "head_width", "got 7", "even"),
    (lambda: PartialRoPE(8, 0.0), "share", "got 0.0", "at most 1"),
    (lambda: PartialRoPE(8, 1.5), "share", "got 1.5", "at most 1"),
    (lambda: PartialRoPE(8, 0.2), "share=0.2", "head_width=8", "raise either"),
    (lambda: PartialRoPE(8, 0.5, 1.0), "base", "got 1.0", "exceed 1"),
    (lambda: PRoPE(9), "head_width", "got 9", "even"),
    (lambda: PRoPE(8, -0.1), "share", "got -0.1", "at most 1"),
    (lambda: PRoPE(8, 0.1), "share=0.1", "head_width=8", "raise either"),
    (lambda: PRoPE(8, 0.5, -2.0), "base", "got -2.0", "exceed 1"),
    (lambda: XPos(7, 20.0), "head_width", "got 7", "even"),
    (lambda: XPos(8, 0.0), "scale_base", "got 0.0", "exceed 0"),
    (lambda: XPos(8, 20.0, 0.0), "gamma", "got 0.0", "exceed 0"),
    (lambda: XPos(8, 20.0, base=0.5), "base", "got 0.5", "exceed 1"),
    (lambda: PoPE(0, 8), "head", "got 0", "at least one"),
    (lambda: PoPE(2, 0), "frequency", "got 0", "at least one"),
    (lambda: LeRoPE(5), "head_width", "got 5", "even"),
    (lambda: LeRoPE(0), "frequency", "got 0", "at least one"),
    (lambda: FoPE(0, 8, 20), "head", "got 0", "at least one"),
    (lambda: FoPE(2, 7, 20), "head_width", "got 7", "even"),
    (lambda: FoPE(2, 8, 20, sigma=-0.1), "sigma", "got -0.1", "not be negative"),
    (lambda: FoPE(2, 8, 6), "train_positions=6", "or more"),
    (lambda: SelectiveRoPE(3, 8, 25), "model_width", "got 25 and 3", "multiple of num_heads"),
    (lambda: SelectiveRoPE(0, 8, 24), "model_width", "got 24 and 0", "multiple of num_heads"),
    (lambda: SelectiveRoPE(3, 7, 24), "head_width", "got 7", "even"),
    (lambda: SelectiveRoPE(3, 8, 24, rank=0), "kernel", "rank", "got 0 and 4", "at least 1"),
    (lambda: SelectiveRoPE(3, 8, 24, kernel=0), "kernel", "rank", "got 16 and 0", "at least 1"),
    (lambda: VORoPE(7), "head_width", "got 7", "even"),
    (lambda: PartialVORoPE(8), "share=0.125", "head_width=8", "raise either"),
    (lambda: KeyOffset(8, 0.0), "share", "got 0.0", "at most 1"),
    (lambda: TopK(NoPE(), 0), "keys", "got 0", "at least 1"),
    (lambda: UnitLength(NoPE(), 0, 8), "head", "got 0", "at least one"),
    (lambda: UnitLength(NoPE(), 2, 8, qk_norm=True), "model.qk_norm", "got true", "leave"),
]


EXTENSIONS: list[tuple[Callable[[], object], *tuple[str, ...]]] = [
    (lambda: PI(0.5), "scale", "got 0.5", "at least 1"),
    (lambda: NTK(0.0), "scale", "got 0.0", "at least 1"),
    (lambda: YaRN(scale=-2.0), "scale", "got -2.0", "at least 1"),
    (lambda: YaRN(1.0, 1.0), "got 1.0 and 1.0", TURNS),
    (lambda: YaRN(1.0, 2.0), "got 1.0 and 2.0", TURNS),
    (lambda: YaRN(2.0, 0.0), "got 2.0 and 0.0", TURNS),
    (lambda: NTKFixed(0.5), "scale", "got 0.5", "at least 1"),
    (lambda: NTKMixed(0.0), "power", "got 0.0", "exceed 0"),
    (lambda: NTKMixed(1.0, 0.9), "scale", "got 0.9", "at least 1"),
    (lambda: DynamicNTK(0.5), "factor", "got 0.5", "at least 1"),
    (lambda: ByParts(1.0, 1.0), "got 1.0 and 1.0", TURNS),
    (lambda: ByParts(2.0, 1.0, "linear"), "ramp", "got 'linear'", "one of"),
    (lambda: ByParts(scale=0.0), "scale", "got 0.0", "at least 1"),
    (lambda: YaRNTurns(2.0, 0.0), "got 2.0 and 0.0", TURNS),
    (lambda: Llama3(4.0, 4.0), "got 4.0 and 4.0", FACTORS),
    (lambda: Llama3(0.0, 4.0), "got 4.0 and 0.0", FACTORS),
    (lambda: MrRoPEUni(1.0, 1.0), "got 1.0 and 1.0", TURNS),
    (lambda: MrRoPEPro(2.0, -1.0), "got 2.0 and -1.0", TURNS),
    (lambda: LongRoPE(None, (1.0, 2.0)), "long_factors", "short_factors", "give both or none"),
    (lambda: LongRoPE((1.0, 0.5)), "long_factors", "got 0.5", "at least 1"),
    (lambda: LongRoPE((1.0, 2.0), (0.9, 1.0)), "short_factors", "got 0.9", "at least 1"),
    (lambda: ABF(0.0), "growth", "got 0.0", "exceed 0"),
    (lambda: GiraffePower(0.0), "power", "got 0.0", "exceed 0"),
    (lambda: GiraffeTruncated(0.0), "turns", "got 0.0", "above 0"),
    (lambda: GiraffeTruncated(1.0, 8.0, 4.0), "got 4.0 and 8.0", "slowing >= span >= 1"),
    (lambda: GiraffeTruncated(1.0, 0.5), "got 16.0 and 0.5", "slowing >= span >= 1"),
    (lambda: ClippedRoPE(0.0), "share", "got 0.0", "at most 1"),
    (lambda: DropLowFrequencies(1.5), "share", "got 1.5", "at most 1"),
    (lambda: LogN(1), "length", "got 1", "at least 2"),
    (lambda: LogFloor(0.0), "beta", "got 0.0", "exceed 0"),
    (lambda: InklingTemperature(-0.1), "beta", "got -0.1", "exceed 0"),
    (lambda: LogFloor(0.1, 0), "length", "got 0", "at least 2"),
    (lambda: YarnTemperature(0.5), "scale", "got 0.5", "at least 1"),
    (lambda: SlidingWindow(0), "window", "got 0", "at least 1"),
    (lambda: Selection(0), "keys", "got 0", "positions seen in training"),
    (lambda: Chunked(-1), "chunk", "got -1", "at least 1"),
    (lambda: BlockCausal(0), "block", "got 0", "at least 1"),
    (lambda: TableInterpolation(0.9), "scale", "got 0.9", "at least 1"),
    (lambda: TableHierarchical(0.5), "upper digit", "got 0.5", "not one half"),
    (lambda: TableHierarchical(1.0), "upper digit", "got 1.0", "not one half"),
    (lambda: TableHierarchical(0.0), "upper digit", "got 0.0", "not one half"),
    (
        lambda: TableHierarchical().apply(Learned(8, 40), 4, 17),
        "16 positions",
        "17",
        "shorten evaluation.longest",
    ),
    (lambda: TableInterpolation().apply(Learned(8, 40), 1, 5), "seen 1", "needs two"),
    (lambda: ReRoPE(0), "window", "got 0", "at least 1"),
    (lambda: Clamp(0), "largest", "got 0", "at least 1"),
    (lambda: LeakyReRoPE(0), "window", "got 0", "at least 1"),
    (lambda: LeakyReRoPE(4, 0.5), "shrink", "got 0.5", "at least 1"),
    (lambda: SelfExtend(0), "window", "got 0", "at least 1"),
    (lambda: SelfExtend(4, 0), "group", "got 0", "at least 1"),
    (lambda: Mesa(0), "chunk", "got 0", "at least 1"),
    (lambda: Mesa(4, 0), "step", "got 0", "at least 1"),
    (lambda: DCA(4, 0), "window", "got 0", "at least 1"),
    (lambda: DCA(4, 4).regions(8, 20), "largest=4", "exceed window=4"),
    (lambda: STRING(4, 4).regions(8, 20), "shift=4", "exceed window=4"),
    (lambda: STRING(4, -1), "window", "got -1", "at least 0"),
    (lambda: LMInfinite(-1), "first", "got -1", "at least 0"),
    (lambda: LMInfinite(4, 0), "window", "got 0", "at least 1"),
    (lambda: StreamingLLM(0), "sinks", "got 0", "at least 1"),
    (lambda: StreamingLLM(4, 0), "window", "got 0", "at least 1"),
    (lambda: InterpolateDistance(0.5), "scale", "got 0.5", "at least 1"),
    (lambda: LeakyReRoPE(7).regions(8, 20), "window=7", "choose fewer than"),
    (lambda: SelfExtend(8).regions(8, 20), "window=8", "choose fewer than"),
    (lambda: Mesa(8).regions(8, 20), "chunk=8", "choose fewer than"),
    (lambda: StreamingLLM(8).regions(8, 20), "sinks=8", "choose fewer than"),
    (lambda: Dropped(-0.1), "growth", "got -0.1", "not be negative"),
    (lambda: Dropped(math.nan), "growth", "got nan", "not be negative"),
    (lambda: Dropped(0.1, 0.5), "scale", "got 0.5", "at least 1"),
    (lambda: SkipWise(0.9), "multiple", "got 0.9", "at least 1"),
    (lambda: FineTuned(PI(2.0), steps=0), "steps", "got 0", "must be positive"),
    (lambda: FineTuned(PI(2.0), multiple=-1), "multiple", "got -1", "must be positive"),
    (
        lambda: FineTuned(PI(2.0), learning_rate=math.inf),
        "learning_rate",
        "got inf",
        "must be positive",
    ),
    (lambda: FineTuned(PI(2.0), steps=math.nan), "steps", "got nan", "must be positive"),
    (lambda: LongRoPESearch(budget=0), "budget", "got 0", "at least 1"),
    (lambda: LongRoPESearch(multiple=1.0), "multiple", "got 1.0", "exceed 1"),
    (lambda: Tuned(YaRN, {}), "knobs", "got {}", "at least one"),
    (lambda: Tuned(YaRN, {"beta_fast": []}), "knobs", "got {'beta_fast': []}", "at least one"),
    (
        lambda: LongRoPEExponents((0.0, 0.5, 0.4)),
        "exponents",
        "got [0.0, 0.5, 0.4]",
        "not fall",
    ),
    (lambda: LongRoPEExponents((-0.1, 0.5)), "exponents", "got [-0.1, 0.5]", "not be negative"),
    (lambda: LongRoPEExponents((0.0, math.nan)), "exponents", "got [0.0, nan]", "not be negative"),
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
    ("make", "named"),
    [(make, named) for make, *named in [*ENCODINGS, *EXTENSIONS]],
    ids=[" ".join(named) for _, *named in [*ENCODINGS, *EXTENSIONS]],
)
def test_a_setting_that_cannot_work_is_refused_by_its_value_and_what_would_do(
    make: Callable[[], object], named: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        make()
    said = str(caught.value)
    assert all(re.search(rf"{re.escape(words)}(?![\w.])", said) for words in named), said
    assert "\n" not in said


@pytest.mark.parametrize("make", SMALLEST)
def test_the_smallest_settings_that_work_are_accepted(make: Callable[[], object]) -> None:
    make()
