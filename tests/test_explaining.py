"""What is said of a model's inside: hand-made attention, heads that do nothing, known phases."""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import torch
from making import record
from torch import Tensor

from posbench.base.errors import PosbenchError
from posbench.core.attention import Attention, Regions
from posbench.core.encoding import EncodingStack
from posbench.encodings.nope import NoPE
from posbench.encodings.rope import RoPE
from posbench.explain import command, measures, page, samples
from posbench.explain.measures import Inside, farthest, inside, unseen_phases, watched, without_head
from posbench.explain.page import kept, reader, sentences, stops_at
from posbench.extensions.pi import PI
from posbench.running.checkpoints import Checkpoints
from posbench.running.subject import setup

SMOKE = ("protocol=smoke", "task=passkey")


def call(logits: Tensor, pos: Tensor | None = None) -> Attention:
    """One head and one sequence with these logits, [queries, keys]."""
    n = len(logits)
    zeros = torch.zeros(1, 1, n, 2)
    where = torch.arange(n)[None] if pos is None else pos
    inputs = (zeros, zeros, zeros, zeros[:, 0], where, where)
    return Attention(*inputs, scale=1.0, terms=(lambda rows: logits[None, None, rows],))


def test_attention_on_the_source_its_margin_and_the_keys_it_spreads_over() -> None:
    """The last of three queries sees logits 0, log 2 and log 5: weights 1/8, 2/8 and 5/8."""
    logits = torch.tensor([[0.0, 9, 9], [0, 0, 9], [0, math.log(2), math.log(5)]])
    where, source = torch.tensor([[False, False, True]]), torch.tensor([[-1, -1, 1]])
    found = measures.of_plan(call(logits), slice(0, 3), where, source)
    weights = [1 / 8, 2 / 8, 5 / 8]
    assert found["on_source"] == pytest.approx([2 / 8])
    assert found["margin"] == pytest.approx([math.log(2) - math.log(5)], abs=1e-6)
    entropy = -sum(weight * math.log(weight) for weight in weights)
    assert found["keys"] == pytest.approx([math.exp(entropy)])
    mean = math.log(10) / 3
    squares = [(value - mean) ** 2 for value in (0, math.log(2), math.log(5))]
    assert found["sd"] == pytest.approx([math.sqrt(sum(squares) / 3)])


def test_a_key_that_is_not_seen_is_in_no_number() -> None:
    """The second query sees two keys with equal logits, whatever stands in the third column."""
    where, source = torch.tensor([[False, True, False]]), torch.tensor([[-1, 0, -1]])
    one, other = (
        measures.of_plan(call(torch.tensor(rows)), slice(0, 3), where, source)
        for rows in ([[0.0, 9, 9], [3, 3, hidden], [0, 0, 0]] for hidden in (9.0, -9.0))
    )
    assert one == other
    assert one["keys"] == pytest.approx([2.0]) and one["on_source"] == pytest.approx([0.5])
    assert one["margin"] == [0.0] and one["sd"] == [0.0]


def test_without_a_source_there_is_nothing_to_look_at() -> None:
    where, source = torch.tensor([[False, False, True]]), torch.tensor([[-1, -1, -1]])
    found = measures.of_plan(call(torch.zeros(3, 3)), slice(0, 3), where, source)
    assert math.isnan(found["on_source"][0]) and math.isnan(found["margin"][0])
    assert found["keys"] == pytest.approx([3.0])


@pytest.mark.slow
def test_means_do_not_depend_on_how_sequences_are_cut_into_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As they are by the memory that a machine has."""
    run = setup(*SMOKE, "method=rope")
    model = run.model()

    def found() -> pd.DataFrame:
        return inside(run.evaluation, model, run.extension, (1.0, 2.0), samples=5).heads

    whole = found()
    monkeypatch.setattr(measures, "pieces", lambda batch, device: [slice(0, 1), slice(1, 5)])
    cut = found()
    pd.testing.assert_frame_equal(whole, cut, rtol=1e-5, atol=1e-6)


def test_watching_changes_no_logit_and_a_head_that_is_silenced_does() -> None:
    run = setup(*SMOKE, "method=rope")
    model = run.model()
    batch = run.task.batch(8, 2, 0, "test")
    data = run.evaluation.inputs(batch, model)
    with torch.no_grad():
        before = model(data.tokens, data.pos)
        seen, layers = watched(model)
        assert torch.equal(seen(data.tokens, data.pos), before)
        assert [layer.plan.num_queries for layer in layers] == [data.tokens.shape[1]] * len(layers)
        with without_head(model, 0, 1):
            silenced = model(data.tokens, data.pos)
        assert not torch.allclose(silenced, before)
        assert torch.equal(model(data.tokens, data.pos), before)
        width = model.head_width
        model.blocks[0].out.weight[:, width : 2 * width] = 0  # the same, by the weights
        assert torch.allclose(model(data.tokens, data.pos), silenced, atol=1e-6)


def test_the_farthest_distance_is_that_of_the_position_that_a_key_is_seen_at() -> None:
    pos = torch.tensor([[0, 10, 30]])
    plain = call(torch.zeros(3, 3), pos)
    assert farthest(plain, slice(0, 3)) == 30 and farthest(plain, slice(0, 2)) == 10
    near = plain.at(pos // 10, pos // 10)
    chosen = Regions(lambda rows: (plain.offset(rows) > 1)[None, None].long(), (plain, near))
    assert farthest(chosen, slice(0, 3)) == 20  # the neighbour; the first key is 3 steps away
    window = plain.where(lambda rows: (plain.offset(rows) < 2)[None, None])
    assert farthest(window, slice(0, 3)) == 20
    axes = plain.at(pos[..., None], pos[..., None])
    assert math.isnan(farthest(axes, slice(0, 3)))


def test_phases_are_unseen_where_a_pair_has_not_turned_once_and_turns_further() -> None:
    """Base 100 and eight channels: 1, .316, .1 and .0316 radians a position."""
    stack = EncodingStack([RoPE(8, 100.0)])
    # In 40 positions 40, 12.6, 4 and 1.3 radians: two pairs have not completed a turn.
    assert unseen_phases(stack, stack, 40, 80) == 0.5
    assert unseen_phases(stack, stack, 40, 40) == 0
    assert unseen_phases(stack, stack, 70, 140) == 0.25
    assert unseen_phases(stack, PI(scale=2.0).extend(stack, 40, 80), 40, 80) == 0
    assert math.isnan(unseen_phases(EncodingStack([NoPE()]), EncodingStack([NoPE()]), 40, 80))


def made() -> Inside:
    """Two heads at 1x, 2x and 4x; the second one reads, until 4x."""
    heads = pd.DataFrame(
        [
            (multiple, 0, head, on_source, keys, margin, 1.0, without)
            for multiple, values in {
                1.0: ((0.1, 5.0, -1.0, 0.9), (0.8, 1.5, 3.0, 0.2)),
                2.0: ((0.1, 9.0, -1.0, 0.6), (0.5, 3.0, 1.0, 0.1)),
                4.0: ((0.0, 20.0, -2.0, 0.1), (0.2, 15.0, -1.0, 0.1)),
            }.items()
            for head, (on_source, keys, margin, without) in enumerate(values)
        ],
        columns=["multiple", "layer", "head", "on_source", "keys", "margin", "sd", "without"],
    )
    lengths = pd.DataFrame(
        {
            "multiple": [1.0, 2.0, 4.0],
            "score": [1.0, 0.7, 0.2],
            "chance": [0.0, 0.0, 0.0],
            "farthest": [24.0, 48.0, 99.0],
            "unseen_phases": [0.0, 0.5, 0.75],
        }
    ).set_index("multiple")
    return Inside(heads, lengths)


def test_the_sentences_are_of_the_reader_and_of_where_the_method_stops() -> None:
    assert stops_at(made()) == 4.0 and reader(made()) == (0, 1)
    said = " ".join(sentences(made()))
    assert said.startswith("On these 32 sequences its score is 1.00 at 1x and .20 at 4x.")
    assert "(layer 1, head 2) has .80 of its attention there at 1x, and .20 at 4x" in said
    assert "+3.0 above all others, and then -1.0" in said
    assert "over 1.5 keys at 1x and over 15.0 at 4x" in said
    assert "Without layer 1, head 2 the score at 1x is .20" in said
    assert "distances up to 24 at 1x, and up to 99 at 4x" in said
    assert "At 4x, 75 % of its rotary pairs" in said and "at 1x, 0 %" in said


def test_what_guessing_gives_does_not_count_as_kept() -> None:
    found = made()
    found.lengths["score"], found.lengths["chance"] = [1.0, 0.7, 0.6], 0.5
    assert stops_at(found) == 2.0
    for scores, said in {
        (1.0, 0.76, 0.5): "has lost more than half of its score at 4x.",
        (1.0, 0.76, 0.8): "keeps at least half of its score up to 4x.",
        (0.5, 0.5, 0.5): "has not learned the task: it has less than half of it at 1x.",
    }.items():
        rows = [
            SimpleNamespace(multiple=multiple, score=score, chance=0.5)
            for multiple, score in zip((1.0, 2.0, 4.0), scores, strict=True)
        ]
        explained: Any = SimpleNamespace(rows=rows, label="rope")
        assert kept(explained) == f"rope {said}"


def test_what_has_not_learned_is_said_to_tell_little() -> None:
    found = made()
    found.lengths["score"] = [0.1, 0.0, 0.0]
    assert stops_at(found) == 2.0
    assert "has not learned its task" in " ".join(sentences(found))


def test_without_sources_the_reader_is_the_head_that_is_needed_most() -> None:
    found = made()
    found.heads["on_source"] = math.nan
    found.heads["without"] = [0.3, 0.9, 0.5, 0.5, 0.1, 0.1]
    assert reader(found) == (0, 0)
    assert "looks most" not in " ".join(sentences(found))


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("method=rope_self_extend",),
        ("method=stick_breaking",),
        ("method=rope_window_nope",),
        ("method=abacus", "task=addition"),
    ],
    ids=lambda words: words[0],
)
def test_methods_of_every_path_can_be_looked_into(words: tuple[str, ...]) -> None:
    run = setup(*SMOKE, *words)
    found = inside(run.evaluation, run.model(), run.extension, (1.0, 2.0), samples=2)
    assert list(found.lengths.index) == [1.0, 2.0]
    heads = run.config.model.num_layers * run.config.model.num_heads
    assert len(found.heads) == 2 * heads and (found.heads["keys"] >= 1 - 1e-4).all()
    assert found.heads["on_source"].dropna().between(-1e-6, 1 + 1e-5).all()


@pytest.mark.slow
def test_interpolated_positions_turn_no_pair_further_than_training_did() -> None:
    """Of the positions that a model is told, one more than its largest distance is counted, in
    training as in the test: where PI fits 2x into the trained range, no phase is new.
    """
    shares = {}
    for method in ("rope", "rope_pi"):
        run = setup(*SMOKE, f"method={method}")
        multiples = (1.0, 2.0, 4.0)
        found = inside(run.evaluation, run.model(), run.extension, multiples, samples=2)
        shares[method] = found.lengths["unseen_phases"].tolist()
    assert shares["rope_pi"] == [0.0, 0.0, 0.0]
    assert shares["rope"][0] == 0.0 and 0 < shares["rope"][1] <= shares["rope"][2]


@pytest.mark.slow
def test_the_page_has_both_methods_their_sentences_and_no_bare_label() -> None:
    explained = [
        page.Explanation(label, "passkey", "score", "python -m posbench", rows, [], made())
        for label, rows in (
            ("rope", record("rope", {1: 1.0, 2: 0.51, 4: 0.49, 8: 0.6}).rows),
            ("<b>x</b>", record("rope", {1: 0.8, 2: 0.41, 4: 0.41}).rows),
        )
    ]
    text = page.html(explained)
    above = text[: text.index("</header>")]
    assert "trained on passkey" in above and "8 times those of training" in above
    assert "rope has lost more than half of its score at 4x." in above
    assert "keeps at least half of its score up to 4x." in above
    assert "<b>x</b>" not in text and "&lt;b&gt;x&lt;/b&gt;" in text
    assert text.count("score is 1.00 at 1x") == 2 and text.count("<svg") == 3
    assert page.html(explained) == text
    assert "1x            1     2        .80" in page.text(explained[0])


def test_more_than_two_runs_are_refused() -> None:
    with pytest.raises(PosbenchError, match="method=rope,nope,alibi asks for more than two"):
        command.runs(["method=rope,nope,alibi", "seed=0"])
    with pytest.raises(PosbenchError, match=r"method=rope,nope encoding\.base=5,6 asks"):
        command.runs(["method=rope,nope", "encoding.base=5,6"])
    assert command.runs(["task=copy", "method=rope,nope"]) == [
        ["task=copy", "method=rope"],
        ["task=copy", "method=nope"],
    ]


@pytest.mark.parametrize(
    ("word", "methods"),
    [
        ("method=choice(rope,rope_yarn)", ["rope", "rope_yarn"]),
        ("method=glob(rope_yarn_t*s,exclude=*tuned)", ["rope_yarn_turns"]),
        ("method=glob(zz*)", ["glob(zz*)"]),  # refused later, by its name
    ],
)
def test_methods_are_listed_as_a_sweep_lists_them(word: str, methods: list[str]) -> None:
    found = command.runs([word, "task=copy", "evaluation.multiples=[1,2]"])
    assert found == [
        [f"method={method}", "task=copy", "evaluation.multiples=[1,2]"] for method in methods
    ]


@pytest.mark.parametrize(
    "word", ["task=copy,sort", "seed=0,1", "seed=range(2)", "model.width=32,64"]
)
def test_two_tests_are_two_pages(word: str) -> None:
    """One page would be titled, and its file named, as if it were of one method twice."""
    with pytest.raises(PosbenchError, match=f"{re.escape(word)} asks for several pages"):
        command.runs(["method=rope", word])


@pytest.mark.parametrize(
    "word", ["extension=direct,yarn", "encoding.base=9,8", "model.qk_norm=0,1"]
)
def test_what_makes_a_row_may_be_listed(word: str) -> None:
    key, _, values = word.partition("=")
    one, other = command.runs(["task=copy", word])
    assert [one[1], other[1]] == [f"{key}={value}" for value in values.split(",")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["method=alibi", "extension=yarn"],
            "which this encoding does not have; it can extend rope",
        ),
        (["method=rope_ceiling"], "a ceiling is another model at each length: explain the method"),
        (["method=rope", "trainer.accelerator=mps"], "needs an Apple GPU and torch sees none"),
    ],
    ids=lambda value: "" if isinstance(value, str) else value[0],
)
def test_what_cannot_be_explained_is_refused_before_anything_is_trained(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("posbench.running.prepare.legal_encodings", lambda extension: ["rope"])
    folder = tmp_path / "results"
    assert command.main([*SMOKE, *words, f"results_dir={folder}"]) == 1
    answer = capsys.readouterr().err
    assert said in answer and answer.count("\n") == 1 and not folder.exists()


def test_a_full_disk_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where torch writes, which says no more than that it failed."""

    def full(*_: object) -> None:
        raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0")

    monkeypatch.setattr(Checkpoints, "train_once", full)
    assert command.main([*SMOKE, "method=rope", f"results_dir={tmp_path}"]) == 1
    answer = capsys.readouterr().err
    assert answer.startswith(f"posbench: {tmp_path} cannot be written to")


@pytest.mark.slow
def test_runs_that_differ_have_pages_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = record("rope", {1: 1.0, 2: 0.5}).rows
    explained = page.Explanation("rope", "passkey", "score", "posbench", rows, [], made())
    monkeypatch.setattr(command, "_explained", lambda asked, own: explained)
    monkeypatch.setattr(page, "html", lambda explained: "")  # which takes a second to draw
    asked = ["seed=0", "seed=1", "training.steps=3", "encoding.base=5", "task.key_length=2"]
    for words in asked:
        assert command.main([*SMOKE, "method=rope", words, f"results_dir={tmp_path}"]) == 0
    pages = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.html")]
    assert len(pages) == len(asked)
    assert {f"explain/smoke/passkey/rope/seed={seed}.html" for seed in (0, 1)} <= {*pages}


@pytest.mark.slow
def test_the_command_trains_explains_and_writes_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*SMOKE, "method=rope,rope_yarn", f"results_dir={tmp_path}"]
    assert command.main(words) == 0
    said = capsys.readouterr().out
    assert "rope_yarn" in said and "weights are shared" in said
    assert (tmp_path / "explain/smoke/passkey/rope,rope_yarn/seed=0.html").stat().st_size > 10_000
    assert command.main(["method=ropee"]) == 1
    assert "did you mean rope?" in capsys.readouterr().err


def test_a_task_is_shown_in_words_with_what_it_asks(capsys: pytest.CaptureFixture[str]) -> None:
    assert samples.main(["copy", "--count", "1"]) == 0
    about, shown = capsys.readouterr().out.splitlines()
    assert about == "The answer is the prompt."
    words = shown.split()
    prompt, answer = words[1:9], words[10:18]  # eight symbols, without --n
    assert (words[0], words[9], words[18:]) == ("BOS", "SEP", ["[EOS]"])
    assert answer == [f"[{symbol}]" for symbol in prompt]
