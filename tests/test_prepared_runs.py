"""Extensions that search or go on training, in whole runs of a tiny model.

Which weights change, what is trained anew, what a record says.
"""

from __future__ import annotations

import contextlib
import json
import math
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lightning import Callback
from processes import checkpoint_folder, finished, record, started, succeeded
from processes import without_seconds as of_process
from small_runs import TINY, made, prepared, ran, tiny, trained, without_seconds
from torch import Tensor

from posbench.base.errors import ConfigError, Diverged
from posbench.core.evaluation import Answers, Evaluation
from posbench.core.extension import EarlyFineTuning, Extension, FineTuning, FrequencyExtension
from posbench.core.scoring import inputs, loss
from posbench.core.streams import stream_seed
from posbench.core.training import Training, fit
from posbench.extensions.abf import ABF
from posbench.extensions.both import Both
from posbench.extensions.llama3 import Llama3
from posbench.extensions.longrope2_search import LongRoPE2Factors
from posbench.extensions.longrope_search import LongRoPEExponents
from posbench.extensions.pi import PI
from posbench.extensions.pose import SkipWise
from posbench.extensions.yarn import YaRN
from posbench.records.record import Record
from posbench.running import checkpoints as keeping
from posbench.running.console import Console
from posbench.running.scores import table
from posbench.running.setup import Setup
from posbench.running.shared_training import SharedTraining
from posbench.running.subject import setup

oracle = pytest.mark.oracle


def state(model: torch.nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def checkpoints(folder: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in folder.glob("checkpoints/*/weights.pt")}


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [("method=rope_pi_fine_tuned",), ("encoding=t5", "extension=direct_fine_tuned")],
    ids=" ".join,
)
def test_fine_tuning_changes_its_own_weights_and_not_the_shared_ones(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    run = tiny(tmp_path, *words)
    before_it = trained(run)
    before, files = state(before_it.model), checkpoints(tmp_path)
    found = prepared(run, before_it)
    found.evaluate()
    tuned = found.model
    assert equal(state(before_it.model), before)
    assert len(checkpoints(tmp_path)) == 2 and files.items() <= checkpoints(tmp_path).items()
    after = state(tuned)
    assert after.keys() == before.keys()
    assert [name for name in after if torch.equal(after[name], before[name])] == [], (
        "all of them are trained"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extension", "encoding", "inner", "multiple"),
    [
        pytest.param(name, *case, marks=oracle(name, "identity: trained further by hand"), id=name)
        for name, *case in (
            ("drope", "nope", None, 1),
            ("direct_continued", "rope", None, 1),
            ("pi_fine_tuned", "rope", PI(2.0), 2),
            ("llama3_fine_tuned", "rope", Llama3(scale=2.0), 2),
            ("abf_fine_tuned", "rope", ABF(50.0), 2),
            ("pose", "rope", Both(PI(4.0), SkipWise(4.0)), 1),
        )
    ],
)
def test_fine_tuning_is_the_training_of_what_the_extension_makes_of_the_model(
    tmp_path: Path, extension: str, encoding: str, inner: Extension | None, multiple: float
) -> None:
    """Put together by hand: these weights, that encoding, two steps of their own stream."""
    run, shared, found = made(tmp_path, "encoding=rope", f"extension={extension}")
    model = setup(*TINY, f"encoding={encoding}").model()
    model.load_state_dict(shared.model.state_dict())
    if inner is not None:
        model = model.with_encodings(
            inner.extend(model.encodings, run.train_positions, run.train_positions)
        )
    settings = FineTuning(0.1, multiple, 1.0).settings(run.config.training, run.task)
    training = Training(model.train(), run.task, settings, stream_seed(0, "fine-tuning"))
    fit(training, tmp_path / "last.ckpt", "cpu", 100, [], [], lambda point: None)
    expected, other_weights = state(found.model), state(shared.model)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-6)
        assert not torch.equal(value, other_weights[name]), name


@pytest.mark.slow
def test_gaps_are_there_while_it_is_fine_tuned_and_nowhere_else(
    tmp_path: Path, fits: list[Training]
) -> None:
    run, _, found = made(tmp_path, "method=rope_pose")
    first, second = fits
    n = max(first.batch(step).pos.shape[1] for step in range(20))
    assert all(int(first.batch(step).pos.max()) < n for step in range(20))
    widest = max(int(second.batch(step).pos.max()) for step in range(20))
    assert 2 * run.train_positions < widest < 4 * run.train_positions
    [(_, held_out)] = second.validation()
    assert int(held_out.pos.max()) == run.train_positions - 1
    tests = run.evaluation
    [batch] = tests.batches(16)
    tested = tests.extend(found.model, run.extension, 16)
    for model in (found.model, tested):
        assert int(tests.inputs(batch, model).pos.max()) == run.task.num_positions(16) - 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "kind", "policy", "lengths"),
    [
        (
            "rope_pi_fine_tuned",
            "fine-tuned",
            "fixed",
            [3, 25],
        ),  # of 34 positions, twice those of n = 8
        ("rope_pose", "trained beyond", "fixed", [3, 8]),
    ],
)
def test_the_record_says_what_was_spent_on_fine_tuning(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    method: str,
    kind: str,
    policy: str,
    lengths: list[int],
) -> None:
    found = ran(tmp_path, f"method={method}", "extension.steps=0.6")
    assert (found.method_class, found.scale_policy) == (kind, policy)
    spent = found.finetuning
    assert spent is not None
    assert (spent.steps, list(spent.lengths), spent.device) == (12, lengths, "cpu")
    assert spent.curve.step == [10, 12] and len(spent.curve.validation_loss) == 2
    assert (tmp_path / "checkpoints" / spent.hash / "weights.pt").exists()
    assert spent.hash != found.training.hash and found.training.steps == 20
    assert found.search is None and found.evaluated.preparation_cpu_seconds > 0
    out = capsys.readouterr().out
    assert f"Fine-tuning: 12 steps with n up to {lengths[1]}." in out
    assert "(before" in out and "fine-tuning)" in out and "(same" not in out


@pytest.mark.slow
def test_records_without_preparation_say_so(tmp_path: Path) -> None:
    for words, policy in (
        (("method=rope",), "none"),
        (("method=rope_ntk", "extension.scale=2"), "fixed"),
    ):
        found = ran(tmp_path, *words)
        assert (found.search, found.finetuning) == (None, None)
        assert (found.method_class, found.scale_policy) == ("zero-shot", policy)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("encoding", "extension"), [("learned", "drope"), ("t5", "drope"), ("t5", "direct_fine_tuned")]
)
def test_a_second_run_loads_the_fine_tuned_weights(
    tmp_path: Path, fits: list[Training], encoding: str, extension: str
) -> None:
    words = (f"encoding={encoding}", f"extension={extension}")
    first = made(tmp_path, *words)
    assert [training.settings.total_steps for training in fits] == [20, 2]
    second = made(tmp_path, *words)
    assert len(fits) == 2, "nothing was trained again"
    assert equal(state(first[2].model), state(second[2].model))
    assert first[2].finetuning == second[2].finetuning
    assert first[2].evaluate() == second[2].evaluate()
    before, after = (state(each) for each in (first[1].model, first[2].model))
    assert any(name.startswith("encodings.") for name in before)
    for name in before:  # what has been dropped is not trained
        kept = extension == "drope" and name.startswith("encodings.")
        assert torch.equal(before[name], after[name]) == kept, name


@pytest.mark.slow
def test_other_settings_of_the_fine_tuning_are_another_fine_tuning(
    tmp_path: Path, fits: list[Training]
) -> None:
    for words in ((), ("extension.learning_rate=0.5",), (), ("extension.multiple=3",)):
        made(tmp_path, "method=rope_pi_fine_tuned", *words)
    found = [
        (each.settings.total_steps, each.settings.learning_rate, each.settings.lengths[1])
        for each in fits
    ]
    assert found == [(20, 3e-3, 8), (2, 3e-3, 25), (2, 1.5e-3, 25), (2, 3e-3, 42)]


class Interrupted(Exception):
    pass


class Interrupting(Console):
    """Stops a training in its middle."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step

    @contextlib.contextmanager
    def progress(self, steps: int) -> Iterator[Any]:
        def report(point: dict[str, float]) -> None:
            if point["step"] >= self.step:
                raise Interrupted

        with super().progress(steps) as (_, callback):
            yield report, callback


@pytest.mark.slow
def test_an_interrupted_fine_tuning_goes_on_from_its_checkpoint(
    tmp_path: Path, fits: list[Training], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("method=rope_pi_fine_tuned", "extension.steps=1", "trainer.checkpoint_every=5")
    _, _, whole = made(tmp_path / "whole", *words)
    run = tiny(tmp_path / "parts", *words)
    before_it = trained(run)
    before = state(before_it.model)
    with pytest.raises(Interrupted):
        prepared(run, before_it, Interrupting(20))
    assert [path.parent.name for path in tmp_path.glob("parts/checkpoints/*/last.ckpt")] == [
        whole.finetuning.hash  # type: ignore[union-attr]
    ]
    assert len(checkpoints(tmp_path / "parts")) == 1, "only what is complete"
    assert equal(state(before_it.model), before)
    capsys.readouterr()
    again = prepared(run, before_it)
    out = capsys.readouterr().out
    assert (
        "Going on from the last checkpoint" in out
        and "step 10/20" not in out
        and "step 20/20" in out
    )
    assert equal(state(again.model), state(whole.model))
    assert again.finetuning.curve == whole.finetuning.curve  # type: ignore[union-attr]
    assert not list(tmp_path.glob("*/checkpoints/*/last.ckpt"))


@pytest.mark.slow
def test_a_fine_tuning_stopped_by_kill_minus_nine_has_the_record_of_an_undisturbed_one(
    tmp_path: Path,
) -> None:
    words = (
        "protocol=smoke",
        "method=rope_pi_fine_tuned",
        "extension.steps=20",
        "trainer.checkpoint_every=20",
    )
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    succeeded(whole, *words)
    for step in (80, 160):
        command = started(parts, *words)
        command.until(lambda step=step, command=command: f"step {step}/400" in command.out)  # type: ignore[misc]
        command.signalled(signal.SIGKILL)
        assert not list(parts.rglob("seed=0.json"))
    command = succeeded(parts, *words)
    assert "the weights are shared" in command.out and "step 120/400" not in command.out
    assert of_process(parts, "rope_pi_fine_tuned*") == of_process(whole, "rope_pi_fine_tuned*")
    assert not list(parts.rglob("last.ckpt"))


# -- fine-tuning from the middle of the training ---------------------------------------------------


class Kept(Callback):
    """The weights and the rate at each step."""

    def __init__(self) -> None:
        self.weights: dict[int, dict[str, Tensor]] = {}
        self.rates: dict[int, float] = {}

    def on_train_batch_end(self, trainer: Any, module: Any, *_: Any) -> None:
        self.weights[trainer.global_step] = state(module.model)
        self.rates[trainer.global_step] = trainer.optimizers[0].param_groups[0]["lr"]


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("training.warmup_steps=15", "training.decay=cosine")])
def test_the_middle_of_a_training_is_made_by_a_shorter_one(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Bit for bit, as far as the rate has not fallen; and a step later no more."""
    run, seen = tiny(tmp_path, "method=fox", *words), Kept()
    [whole] = SharedTraining.of(run)
    fit(whole.begin(), tmp_path / "last.pt", "cpu", 100, [], [seen], lambda point: None)
    last = run.config.training.constant_steps(20)
    assert last == 14
    for step in (1, 10, last, last + 3):
        there = run.at_constant_rate(step, 3e-3)
        model = trained_alone(there, tmp_path / str(step))
        alike = [torch.equal(model[name], seen.weights[step][name]) for name in model]
        assert all(alike) == (step <= last)
        [shorter] = SharedTraining.of(there)
        assert shorter.hash != whole.hash and shorter.settings.total_steps == step


def trained_alone(run: Setup, folder: Path) -> dict[str, Tensor]:
    run.config.results_dir = str(folder)
    return state(trained(run).model)


@pytest.mark.slow
def test_the_middle_of_a_training_whose_steps_are_data_is_a_share_of_those_made(
    tmp_path: Path, fits: list[Training]
) -> None:
    """It learns at once, at step 20, and its decay takes 10 steps more."""
    sizes = [word for word in TINY if not word.startswith("protocol=")]
    until = ("score=0.0", "validations=2", "least_decay=10")
    words = ("validate_every=10", "warmup_steps=2", "validation_samples=8", "steps=100")
    all_words = [f"training.until.{word}" for word in until] + [
        f"training.{word}" for word in words
    ]
    run = setup("protocol=learned", *sizes, *all_words, "method=rope_pi_early_fine_tuned")
    run.config.results_dir = str(tmp_path)
    shared = trained(run)
    assert shared.log.curve.step[-1] == 30 and run.config.training.constant_steps(30) == 20
    found = prepared(run, shared)
    assert [each.settings.total_steps for each in fits] == [30, 15, 3]
    assert found.finetuning is not None
    whole, seen = next(SharedTraining.of(run)).begin(), Kept()
    fit(whole, tmp_path / "last.pt", "cpu", 100, [], [seen], lambda point: None)
    middle = trained(run.at_constant_rate(15, 3e-3)).model.state_dict()
    assert all(torch.equal(middle[name], seen.weights[15][name]) for name in middle)
    # A start in the decay begins where that does.
    assert EarlyFineTuning(0.1, 2, 1.0, 0.9).begins(run.config.training, 30) == 20


@pytest.mark.slow
def test_an_early_fine_tuning_begins_with_the_weights_of_the_middle(
    tmp_path: Path, fits: list[Training]
) -> None:
    words = ("method=rope_pi_early_fine_tuned", "extension.steps=0.5", "extension.multiple=1")
    _, shared, found = made(tmp_path, *words)
    first, middle, further = fits
    assert [each.settings.total_steps for each in fits] == [20, 10, 10]
    # What is fine-tuned has the decay of the whole training and a share of all its steps.
    assert further.settings.decay_fraction == 0.3 and middle.settings.decay_fraction == 0.0
    assert further.settings.warmup_steps == 1
    assert first.model is shared.model and found.model is not middle.model
    assert found.cpu_seconds > 0 and found.finetuning is not None
    late = made(tmp_path, "method=rope_pi_fine_tuned", *words[1:])[2]
    assert late.finetuning.hash != found.finetuning.hash  # type: ignore[union-attr]
    other = made(tmp_path, *words, "extension.start=0.25")[2]
    assert other.finetuning.hash != found.finetuning.hash  # type: ignore[union-attr]
    made(tmp_path, "method=rope_drope_early")
    assert [each.settings.total_steps for each in fits[3:]] == [10, 5, 10, 2]
    fits.clear()
    again = made(tmp_path, *words)[2]
    assert not fits and again.finetuning == found.finetuning
    assert torch.equal(state(again.model)["head.weight"], state(found.model)["head.weight"])


@pytest.mark.slow
def test_further_training_that_diverges_costs_what_led_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[Training] = []

    def diverging(training: Training, *arguments: Any) -> Any:
        trained.append(training)
        if len(trained) == 3:
            raise Diverged("the loss became nan")
        return fit(training, *arguments)

    monkeypatch.setattr(keeping, "fit", diverging)
    with pytest.raises(Diverged, match="the loss became nan") as raised:
        made(tmp_path, "method=rope_pi_early_fine_tuned", "extension.steps=0.5")
    logs = [json.loads(path.read_text()) for path in tmp_path.rglob("training.json")]
    [middle] = [log["cpu_seconds"] for log in logs if log["curve"]["step"][-1] == 10]
    [last] = [json.loads(path.read_text()) for path in tmp_path.rglob("diverged.json")]
    assert raised.value.cpu_seconds == pytest.approx(middle + last["cpu_seconds"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extension", "multiple"),
    [
        pytest.param(name, multiple, marks=oracle(name, "identity: trained further by hand"))
        for name, multiple in (
            *((f"{name}_early_fine_tuned", 2) for name in ("pi", "ntk", "yarn", "llama3")),
            *((f"{name}_early_fine_tuned", 2) for name in ("abf", "direct")),
            *((f"{name}_early", 1) for name in ("drope", "pose")),
        )
    ],
)
def test_early_fine_tuning_is_the_training_of_what_the_extension_makes_of_the_middle(
    tmp_path: Path, extension: str, multiple: float
) -> None:
    run, shared, found = made(tmp_path, "encoding=rope", f"extension={extension}")
    assert state(shared.model).keys() == state(found.model).keys()
    middle = trained(run.at_constant_rate(10, 3e-3)).model
    inner = run.extension.extension  # type: ignore[attr-defined]
    longest = run.positions(run.extension.finetuning.settings(run.config.training, run.task))  # type: ignore[union-attr]
    model = middle.with_encodings(inner.extend(middle.encodings, run.train_positions, longest))
    settings = FineTuning(0.1, multiple, 1.0).settings(run.config.training, run.task)
    training = Training(model.train(), run.task, settings, stream_seed(0, "fine-tuning"))
    fit(training, tmp_path / "last.ckpt", "cpu", 100, [], [], lambda point: None)
    for name, value in middle.state_dict().items():
        torch.testing.assert_close(value, state(found.model)[name], rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("start", "said"),
    [(0.8, r"step 16, .* falls from step 14 on: choose at most 0\.7"), (1, "got 1")],
)
def test_a_start_in_the_decay_is_refused_before_the_training(
    tmp_path: Path, fits: list[Training], start: float, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        made(tmp_path, "method=rope_drope_early", f"extension.start={start}")
    assert not fits


@pytest.mark.parametrize("extension", ["direct_fine_tuned", "log_floor_tuned"])
def test_a_table_too_short_for_what_comes_after_training_is_refused_before_it(
    tmp_path: Path, fits: list[Training], extension: str
) -> None:
    words = (f"extension={extension}", "evaluation.multiples=[1,1.5]", "evaluation.longest=1.5")
    with pytest.raises(ConfigError, match="positions") as caught:
        made(tmp_path, "encoding=learned", *words)
    assert "\n" not in str(caught.value) and fits == []


# -- a search in a run -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "make"),
    [
        pytest.param(f"rope_{name}", make, marks=oracle(name, "identity: by the loss of training"))
        for name, make in {
            "yarn_tuned": YaRN,
            "longrope_search": LongRoPEExponents,
            "longrope2_search": LongRoPE2Factors,
        }.items()
    ],
)
def test_a_search_keeps_what_loses_least_on_a_length_of_its_own(
    tmp_path: Path, method: str, make: type[FrequencyExtension]
) -> None:
    run, shared, found = made(tmp_path, f"method={method}", "extension.budget=6")
    search = found.search
    # n = 8 has 17 positions; 2.5 times as many are between those of n = 33 and of n = 34.
    assert search is not None and search.length == 33
    assert search.length not in run.lengths.multiples
    assert search.num_samples == 16 and len(search.trials) == 6
    losses = [trial.loss for trial in search.trials]
    assert losses[0] == min(losses) and search.chosen == search.trials[0].settings
    assert sum(trial.settings == {} for trial in search.trials) == 1
    model, positions = shared.model, run.task.num_positions(33)
    data = inputs(run.task.batch(33, 16, 0, "validation", 33), model.encodings, 0)
    for trial in search.trials:  # by the loss of training, which shares no code with tests
        settings = trial.settings or ({"beta_fast": 2.0, "beta_slow": 1.0} if make is YaRN else {})
        extended = model.with_encodings(
            make(**settings).extend(model.encodings, run.train_positions, positions)
        )
        with torch.no_grad():
            assert trial.loss == pytest.approx(loss(extended, data).item(), rel=1e-5)
    assert type(found.extension) is make
    assert all(
        getattr(found.extension, key) == pytest.approx(value)
        for key, value in search.chosen.items()
    )
    assert found.model is shared.model and found.finetuning is None


@pytest.mark.slow
@oracle("dynamic_ntk_tuned", "identity: the extension with the settings found")
def test_the_record_of_a_search_names_its_trials_and_rows_are_those_of_the_winner(
    tmp_path: Path,
) -> None:
    words = {
        "dynamic_ntk": ("method=rope", "extension=dynamic_ntk"),
        "tuned": ("method=rope_dynamic_ntk_tuned",),
    }
    tuned = ran(tmp_path, *words["tuned"])
    assert (tuned.method_class, tuned.scale_policy) == (
        "tuned",
        "per test length",
    )
    chosen = tuned.search.chosen or {"factor": setup("extension=dynamic_ntk").extension.factor}
    plain = ran(tmp_path, *words["dynamic_ntk"], f"extension.factor={chosen['factor']}")
    assert tuned.rows == plain.rows
    assert {trial.settings.get("factor") for trial in tuned.search.trials} >= {
        1.25,
        1.5,
        3,
        4,
        6,
        8,
    }


@pytest.mark.slow
def test_another_seed_of_the_run_searches_other_candidates(tmp_path: Path) -> None:
    def candidates(seed: int) -> set[str]:
        _, _, found = made(
            tmp_path, "method=rope_longrope_search", "extension.budget=3", f"seed={seed}"
        )
        return {json.dumps(trial.settings) for trial in found.search.trials}  # type: ignore[union-attr]

    assert candidates(0) == candidates(0)
    assert candidates(0) & candidates(1) == {"{}"}


@pytest.mark.slow
def test_a_candidate_whose_loss_is_no_number_is_recorded_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predict, asked = Evaluation.predict, Counter[int]()

    def first_is_nan(self: Evaluation, *arguments: Any) -> Answers:
        asked[0] += 1
        found = predict(self, *arguments)
        return SimpleNamespace(mean_loss=math.nan) if asked[0] == 1 else found  # type: ignore[return-value]

    monkeypatch.setattr(Evaluation, "predict", first_is_nan)
    found = ran(tmp_path, "method=rope_longrope_search", "extension.budget=3")
    assert [trial.loss is None for trial in found.search.trials] == [False, False, True]
    assert found.search.trials[-1].settings == {}


def test_a_validation_length_that_is_a_test_length_is_refused_before_training(
    tmp_path: Path, fits: list[Training]
) -> None:
    for method in ("rope_yarn_tuned", "rope_longrope_search"):
        with pytest.raises(
            ConfigError, match=r"extension\.multiple=2 .* n = 25, which is a test length"
        ) as caught:
            ran(tmp_path, f"method={method}", "extension.multiple=2")
        assert "1, 1.25, 1.5, 2, 3, 4, 6, 8" in str(caught.value) and "\n" not in str(caught.value)
    assert fits == [] and checkpoints(tmp_path) == {}


# -- runs that share their weights -----------------------------------------------------------------


@pytest.mark.slow
def test_runs_in_one_folder_train_once_and_give_what_folders_of_their_own_give(
    tmp_path: Path, fits: list[Training], capsys: pytest.CaptureFixture[str]
) -> None:
    here = [ran(tmp_path / "one", f"method={name}") for name in ("rope", "rope_ntk")]
    assert len(fits) == 1
    assert capsys.readouterr().out.count("the weights are shared") == 1
    for name, found in zip(("rope", "rope_ntk"), here, strict=True):
        alone = ran(tmp_path / name, f"method={name}")
        assert without_seconds(alone) == without_seconds(found)
    assert len(fits) == 3


@pytest.mark.slow
def test_other_weights_are_trained_however_many_there_were_before(
    tmp_path: Path, fits: list[Training]
) -> None:
    for words in (
        ("method=rope",),
        ("seed=1",),
        ("encoding.base=500",),
        ("seed=1", "extension=pi"),
        ("method=rope",),
    ):
        made(tmp_path, *words)
    assert [
        (training.seed, training.model.encodings.layers[0].frequencies.base) for training in fits
    ] == [
        (0, 10000),
        (1, 10000),
        (0, 500),
    ]
    made(tmp_path, "method=rope", "force=true")
    assert len(fits) == 4


@pytest.mark.slow
def test_the_model_without_the_extension_is_measured_once_for_all_runs_that_share_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate, measured = Evaluation.evaluate, []

    def noted(self: Evaluation, model: Any, extension: Extension | None) -> Any:
        measured.append(type(extension).__name__)
        return evaluate(self, model, extension)

    monkeypatch.setattr(Evaluation, "evaluate", noted)
    for method in ("rope_pi", "rope_ntk", "rope", "rope_fine_tuned", "rope_yarn"):
        ran(tmp_path, f"method={method}")
    assert measured == ["PI", "NoneType", "NTK", "Direct", "FineTuned", "YaRN"]


@pytest.mark.slow
def test_what_is_shown_beside_a_run_is_measured_at_its_own_lengths_and_on_its_own_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[Any, Any]] = []
    monkeypatch.setattr(
        Console, "result", lambda self, record, base: shown.append((record.rows, base))
    )
    for words in (
        ("method=rope_ntk", "evaluation.multiples=[1]"),
        ("method=rope_pi", "evaluation.multiples=[1,2]"),
        ("method=rope_ntk", "evaluation.multiples=[1,2]", "evaluation.num_samples=8"),
    ):
        ran(tmp_path, *words)
    for rows, base in shown:
        assert [(row.test_length, row.num_samples) for row in rows] == [
            (row.test_length, row.num_samples) for row in base
        ]


@pytest.mark.slow
def test_what_is_shown_beside_a_fine_tuned_run_is_the_model_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[Any, Any, str]] = []

    def noted(self: Console, record: Record, base: Any) -> None:
        headings = [str(column.header) for column in table(record, base).columns]
        shown.append((record.rows, base, headings[-2]))

    monkeypatch.setattr(Console, "result", noted)
    tuned, rope, ntk = (
        ran(tmp_path, f"method={name}") for name in ("rope_fine_tuned", "rope", "rope_ntk")
    )
    assert (
        shown[0] == (tuned.rows, rope.rows, "rope (before fine-tuning)") and tuned.rows != rope.rows
    )
    assert shown[1] == (rope.rows, None, "tokens")
    assert shown[2] == (ntk.rows, rope.rows, "rope (same weights)")


@pytest.mark.slow
def test_a_sweep_trains_once_and_its_runs_are_those_of_processes_of_their_own(
    tmp_path: Path,
) -> None:
    sweep, alone = tmp_path / "sweep", tmp_path / "alone"
    succeeded(sweep, "-m", "protocol=smoke", "method=rope,rope_ntk")
    out = "".join(path.read_text() for path in sweep.glob("results/local/logs/**/said.txt"))
    assert out.count("step 20/20") == 1 and out.count("the weights are shared") == 1
    assert checkpoint_folder(sweep).is_dir()
    assert finished(alone, "protocol=smoke", "method=rope_ntk").status == 0
    assert of_process(sweep, "rope_ntk") == of_process(alone, "rope_ntk")
    assert record(sweep, "rope")["training"] == record(sweep, "rope_ntk")["training"]
