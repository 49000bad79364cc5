"""A model whose blocks are applied again and again is a stack of copies of them, and an extension
applies them more often.
"""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from small_runs import made, trained
from small_runs import tiny as tiny_run
from torch import Tensor, nn

from posbench.base.errors import ConfigError, IllegalExtension
from posbench.config.compose import compose
from posbench.core.encoding import EncodingStack
from posbench.core.looped import Looped, LoopedStack
from posbench.core.scoring import inputs, loss
from posbench.core.training import Training
from posbench.core.transformer import Transformer
from posbench.encodings.rope import RoPE
from posbench.explain.measures import watched, without_head
from posbench.extensions.both import Both
from posbench.extensions.more_loops import MoreLoops
from posbench.extensions.only import Only
from posbench.extensions.pi import PI
from posbench.running.shared_training import SharedTraining
from posbench.running.subject import setup
from posbench.running.train import multiplications
from posbench.sweeping.plan import Refusals

oracle = pytest.mark.oracle
SIZES = ("model.width=12", "model.num_heads=2", "model.head_width=6")
ENCODINGS = ("rope", "learned", "t5", "gated_deltanet", "rope_window_nope", "fox_pro")
TOKENS = torch.randint(8, 12, (2, 9), generator=torch.Generator().manual_seed(0))
POS = torch.arange(9)[None]


def model(*words: str) -> Transformer:
    return setup(*SIZES, *words).model().double().eval()


def unrolled(of: Transformer, loops: int) -> tuple[Tensor, list[nn.ModuleList]]:
    """The logits of blocks that are all different ones, and these blocks, loop by loop."""
    several = [copy.deepcopy(of.blocks) for _ in range(loops)]
    injected = of.encodings.embed(of.embedding(TOKENS), POS)
    h = torch.zeros_like(injected)
    for blocks in several:
        h = h + injected
        for index, block in enumerate(blocks):
            h = block(h, POS, None, of.encodings.layers[index])
    return of.head(of.norm(h)), several


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("loops", [2, 3, 5])
def test_loops_are_a_stack_of_copies(encoding: str, loops: int) -> None:
    looped = model(f"encoding={encoding}", f"model.loops={loops}")
    assert isinstance(looped, Looped)
    found, (expected, _) = looped(TOKENS, POS), unrolled(looped, loops)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    once = model(f"encoding={encoding}")(TOKENS, POS)
    assert not torch.allclose(found, once, atol=1e-3)


def test_the_gradient_of_a_weight_is_the_sum_over_the_copies() -> None:
    looped = model("encoding=t5", "model.loops=3")
    logits, several = unrolled(looped, 3)
    logits.square().sum().backward()
    of_input = looped.embedding.weight.grad
    copies = [dict(blocks.named_parameters()) for blocks in several]
    expected = {name: sum(each[name].grad for each in copies) for name in copies[0]}  # type: ignore[misc]
    looped.zero_grad()
    looped(TOKENS, POS).square().sum().backward()
    assert of_input is not None and looped.embedding.weight.grad is not None
    torch.testing.assert_close(looped.embedding.weight.grad, of_input, rtol=1e-9, atol=1e-10)
    for name, weight in looped.blocks.named_parameters():
        torch.testing.assert_close(weight.grad, expected[name], rtol=1e-9, atol=1e-10)


def test_one_loop_is_the_plain_model_bit_for_bit() -> None:
    sizes = (20, 12, 2, 2, 6)
    plain = Transformer(*sizes, EncodingStack([RoPE(6), RoPE(6)]))
    looped = Looped(*sizes, LoopedStack([RoPE(6), RoPE(6)], 1, 1))
    assert torch.equal(plain(TOKENS, POS), looped(TOKENS, POS))
    assert type(model("model.loops=1")) is Transformer


def test_the_weights_are_those_of_one_loop() -> None:
    once, often = (model(f"model.loops={loops}").state_dict() for loops in (1, 4))
    assert once.keys() == often.keys()
    assert all(torch.equal(once[name], often[name]) for name in once)


@pytest.mark.parametrize("first", [3, 7])
def test_the_last_layer_of_the_last_loop_alone_may_begin_late(first: int) -> None:
    looped, where = model("model.loops=3"), torch.zeros(2, 9, dtype=torch.bool)
    where[0, first], where[1, first + 1] = True, True
    whole = looped(TOKENS, POS)
    torch.testing.assert_close(looped(TOKENS, POS, None, where, first), whole[where])
    shorter = looped(TOKENS[:, : first + 1], POS[:, : first + 1])[:, -1]
    torch.testing.assert_close(shorter, whole[:, first])


@pytest.mark.parametrize("value", ["0", "1.5", "true"])
def test_a_number_of_loops_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match=r"model\.loops"):
        setup(f"model.loops={value}")


# -- more of them at test --------------------------------------------------------------------------


def stack(loops: int = 4) -> LoopedStack:
    return LoopedStack([RoPE(6), RoPE(6)], 1, loops)


@oracle("more_loops", "identity: a model that was told that number of loops")
@pytest.mark.parametrize(("tested", "loops"), [(40, 3), (50, 4), (80, 6), (320, 24)])
def test_more_loops_are_a_model_with_so_many(tested: int, loops: int) -> None:
    trained_with = model("model.loops=3")
    extended = trained_with.with_encodings(MoreLoops().extend(trained_with.encodings, 40, tested))
    told = model(f"model.loops={loops}")
    assert torch.equal(extended(TOKENS, POS), told(TOKENS, POS))
    assert trained_with.encodings.loops == 3


@oracle("more_loops", "identity: nothing changes up to the training length")
@pytest.mark.parametrize("tested", [10, 39, 40])
def test_loops_are_those_of_training_up_to_its_length(tested: int) -> None:
    extended = MoreLoops().extend(stack(), 40, tested)
    assert isinstance(extended, LoopedStack) and extended.loops == 4
    assert MoreLoops(1.0).extend(stack(), 40, 320).loops == 4  # type: ignore[attr-defined]
    assert [*extended] == [*stack().replaced([*extended])]


def test_a_fixed_scale_counts_at_every_length() -> None:
    assert not MoreLoops(2.5).is_identity
    for tested in (10, 40, 320):
        assert MoreLoops(2.5).extend(stack(), 40, tested).loops == 10  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match="at least 1"):
        MoreLoops(0.5)


def test_a_model_without_loops_is_refused_in_a_sentence() -> None:
    with pytest.raises(IllegalExtension, match=r"set model\.loops to 2 or more"):
        setup("method=rope", "extension=more_loops").model()


def test_a_plan_refuses_more_loops_of_a_model_without_and_of_no_other() -> None:
    assert not Refusals().refusal(compose("method=rope_more_loops"))
    refused = Refusals().refusal(compose("method=rope", "extension=more_loops"))
    assert "set model.loops to 2 or more" in refused


def test_other_extensions_keep_the_loops_and_go_together_with_more() -> None:
    for extension in (PI(), Only(PI(), [-1])):
        extended = extension.extend(stack(), 40, 80)
        assert isinstance(extended, LoopedStack) and extended.loops == 4
    for pair in (Both(PI(), MoreLoops()), Both(MoreLoops(), PI())):
        both = pair.extend(stack(), 40, 80)
        assert isinstance(both, LoopedStack) and both.loops == 8
        a, b = (each.layers[0].frequencies.theta() for each in (both, PI().extend(stack(), 40, 80)))
        assert torch.equal(a, b)


# -- in a run --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_multiplications_grow_by_the_same_with_every_loop() -> None:
    counts = []
    for loops in (1, 2, 3, 6):
        run = setup("protocol=smoke", *SIZES, f"model.loops={loops}")
        counts.append(multiplications(Training(run.model(), run.task, run.config.training, 0)))
    once, twice, thrice, six = counts
    assert twice - once == thrice - twice == (six - once) / 5 > 0.5 * once


def test_loops_are_part_of_a_training_and_its_code() -> None:
    plain, one, four = (setup(*words) for words in ((), ("model.loops=1",), ("model.loops=4",)))
    hashes = [next(SharedTraining.of(each)).settings_hash for each in (plain, one, four)]
    assert hashes[0] == hashes[1] != hashes[2]
    assert plain.source_hash == one.source_hash != four.source_hash
    assert "loops" not in next(SharedTraining.of(one)).dependencies["model"]


@pytest.mark.slow
def test_a_run_with_loops_trains_and_is_tested_with_more_of_them(tmp_path: Path) -> None:
    run, after, _ = made(tmp_path, "method=rope_loops", "training.steps=3")
    again = tiny_run(tmp_path, "method=rope_more_loops", "training.steps=3")
    rows = {}
    for each in (run, again):
        weights = trained(each).model  # found, not made again
        for name, weight in weights.state_dict().items():
            assert torch.equal(weight, after.model.state_dict()[name])
        rows[each], _ = each.evaluation.evaluate(weights, each.extension)
    here, there = rows[run], rows[again]
    assert here[0].multiple == 1 and here[0].loss == there[0].loss
    longer = [(a, b) for a, b in zip(here, there, strict=True) if a.multiple > 1.1]
    assert longer and all(a.loss != b.loss for a, b in longer)


def test_what_is_explained_is_the_last_loop_and_a_head_is_taken_out_of_all() -> None:
    looped = model("model.loops=3")
    seen, layers = watched(looped)
    seen(TOKENS, POS)
    last = layers[1].plan.logits(slice(0, 9))
    model("model.loops=2")  # another model changes nothing of it
    fewer, others = watched(looped.with_encodings(looped.encodings.repeated(2)))  # type: ignore[operator]
    fewer(TOKENS, POS)
    assert not torch.allclose(last, others[1].plan.logits(slice(0, 9)))
    with without_head(looped, 0, 1):
        found = looped(TOKENS, POS)
    with torch.no_grad():
        looped.blocks[0].out.weight[:, 6:] = 0  # type: ignore[union-attr]
    torch.testing.assert_close(found, looped(TOKENS, POS))


def test_a_step_along_the_gradient_lowers_the_loss() -> None:
    run = setup("protocol=smoke", "method=nope_loops")
    looped = run.model()
    data = inputs(run.task.batch(run.train_length, 8, 0, "train", 0), looped.encodings, 0)
    before = loss(looped, data)
    before.backward()
    assert all(weight.grad is not None for weight in looped.parameters())
    torch.optim.SGD(looped.parameters(), lr=1e-3).step()
    assert loss(looped, data) < before
