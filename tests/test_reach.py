"""How far a model reads: the search, what it keeps, and how long it says that it takes."""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy import stats
from small_models import llama, saved

from posbench.extensions.direct import Direct
from posbench.pretrained import reach
from posbench.pretrained.abilities import (
    Ability,
    KeptTexts,
    LossOfTheLast,
    MeasuredText,
    Point,
    share,
)
from posbench.pretrained.bisection import NEAR, LengthSearch
from posbench.pretrained.proof import mounted_and_proved

pytestmark = pytest.mark.filterwarnings("ignore")

POSITIONS = 300


class Falling(Ability):
    """Right up to a length, and less so beyond it; a text takes the square of its tokens."""

    name = "falling"

    def __init__(self, until: int, beyond: int = 2, of: int = 20) -> None:
        self.until, self.beyond, self.of = until, beyond, of
        self.asked: list[tuple[int, int]] = []

    def samples(self, length: int, text: int) -> list[float]:
        self.asked.append((length, text))
        right = self.of if length <= self.until else self.beyond
        return [1.0] * right + [0.0] * (self.of - right)

    def point(self, length: int, samples: Sequence[float]) -> Point:
        return share(length, round(sum(samples)), len(samples))


class Ticking:
    """A clock that the texts that were asked for set: a text of 100 tokens takes a second."""

    def __init__(self, *abilities: Falling) -> None:
        self.abilities = abilities

    @property
    def seconds(self) -> float:
        return sum((length / 100) ** 2 for each in self.abilities for length, _ in each.asked)


def search(ability: Ability, folder: Path, longest: int = 800, **settings: Any) -> LengthSearch:
    given: dict[str, Any] = {"texts": 1, "start": 100, "hold": 0.5, **settings}
    return LengthSearch(
        ability, KeptTexts(folder, "falling", {"of": "it"}), longest=longest, **given
    )


def ended(*found: LengthSearch, until: float = math.inf) -> list[str]:
    """What is said until the searches end, or the time is up; a second is that of `Ticking`."""
    abilities: list[Any] = [each.ability for each in found]
    clock: Any = Ticking(*abilities)
    for each in found:
        each.measure = functools.partial(measured, each, each.measure)  # type: ignore[method-assign]
    return list(reach.searched(found, clock, until))


def measured(found: LengthSearch, before: Any, length: int) -> None:
    before(length)
    texts = found.kept._texts[length]
    texts[-1] = MeasuredText(texts[-1].samples, (length / 100) ** 2)


@pytest.mark.slow
@pytest.mark.parametrize("until", [100, 137, 200, 399, 555, 799])
def test_bisection_comes_near_to_the_last_length_that_holds(until: int, tmp_path: Path) -> None:
    found = search(Falling(until), tmp_path)
    said = ended(found)
    assert found.reach <= until < NEAR * found.reach + 1
    surely, never = found.bounds
    assert surely == found.reach and never == min(p.length for p in found.all if p.value < 0.5)
    held = {p.length: found.cells(p, 100)[-1] for p in found.all}
    assert held == {n: "yes" if n <= found.reach else "no" for n in held}
    assert f"holds up to {found.reach} tokens" in found.sentence()
    [last] = re.findall(r"between (\d+) and (\d+) tokens\. \d+ (?:s|min) so far\.$", said[-1])
    assert (int(last[0]), int(last[1])) == (found.reach, never)


def test_a_model_that_holds_everywhere_or_can_do_nothing_is_told(tmp_path: Path) -> None:
    ability = Falling(10_000)
    found = search(ability, tmp_path / "all", 400)
    said = ended(found)
    assert found.reach == 400 and len(ability.asked) == 3 and found.bounds == (400, None)
    assert "still holds at 400, the longest measured" in found.sentence()
    assert "The reach is at least 400 tokens" in said[-1]
    nothing = Falling(0, beyond=0)
    found = search(nothing, tmp_path / "none")
    assert "so there is nothing to lose" in ended(found)[-1] and len(nothing.asked) == 1
    assert "can do nothing at 100 tokens" in found.sentence()


class Harmed(Falling):
    """More context harms, as it may do to the loss."""

    def point(self, length: int, samples: Sequence[float]) -> Point:
        return Point(length, -0.004, -0.009, 0.001, len(samples))


def test_a_model_that_context_harms_can_do_nothing(tmp_path: Path) -> None:
    for texts in (1, 2):
        found = search(Harmed(0), tmp_path / str(texts), texts=texts)
        said = ended(found)
        assert "so there is nothing to lose" in said[-1] and [p.length for p in found.all] == [100]
        assert "can do nothing at 100 tokens" in found.sentence()
        again = search(Harmed(0), tmp_path / str(texts), texts=texts)  # all of it is kept
        assert ended(again) == [] and again.sentence() == found.sentence()


def test_few_samples_leave_the_reach_open(tmp_path: Path) -> None:
    """Two of two at the trained length, one of two beyond: half, and its interval has all."""
    found = search(Falling(150, beyond=1, of=2), tmp_path, hold=0.6)
    ended(found)
    surely, never = found.bounds
    assert surely is None and never is None and 100 <= found.reach <= 150
    held = [found.cells(each, 100)[-1] for each in found.all]
    assert held[0] == "yes" and set(held[1:]) == {"open"}
    assert "though its interval leaves that open" in found.decision(found.all[1].length)
    assert found.sentence() == (
        "falling: it is not decided whether 0.6 of what it does at 100 tokens holds anywhere up to "
        "800 (95 %: no length is sure, no upper bound). More texts are needed: raise texts="
    )
    # A higher share is asked for than the lower bound of the trained length itself.
    assert share(100, 2, 2).low == pytest.approx(1 / (1 + 1.959964**2 / 2), abs=1e-5)


@pytest.mark.slow
def test_a_longest_length_that_intervals_do_not_decide_is_not_said_to_hold(tmp_path: Path) -> None:
    """Two of four everywhere beyond: half, and the interval goes from .15 to .85."""
    found = search(Falling(100, beyond=2, of=4), tmp_path / "few", 400)
    ended(found)
    assert found.reach == 400
    assert found.sentence() == (
        "falling: it is not decided whether 0.5 of what it does at 100 tokens still holds at 400, "
        "the longest measured (95 %: at least 100, no upper bound). More texts are needed: raise "
        "texts="
    )
    many = search(Falling(100, beyond=390, of=400), tmp_path / "many", 400)
    ended(many)
    assert many.sentence() == (
        "falling: 0.5 of what it does at 100 tokens still holds at 400, the longest measured "
        "(95 %: at least 400, no upper bound)."
    )


# -- time, and what is kept ------------------------------------------------------------------------


def test_what_the_search_may_take_is_said_after_the_first_text(tmp_path: Path) -> None:
    """Two texts of a second at 100 tokens. At the least the second one is read again, and two each
    of 200, 141, 119 and 109 tokens, in time that grows with tokens: 1 + 2 * 5.69. At most 200, 400,
    800, 566, 673 and 734 tokens, in time that grows with their square: 1 + 2 * 279.
    """
    found = search(Falling(137), tmp_path, texts=2)
    said = ended(found)
    assert said[0].startswith("The first text of 100 tokens took 1 s. The whole search ")
    lengths = [200, 400, 800, 566, 673, 734]
    most = 1 + 2 * sum((each / 100) ** 2 for each in lengths)
    assert f"likely to take 12 s to {most / 60:.0f} min more, by how far the model" in said[0]
    assert said[0].endswith("minutes= ends it earlier.")
    assert said[1].startswith("falling, 100 tokens: 1.000 (.912 to 1.000). A longer text has to")


def test_a_text_is_begun_only_if_the_time_suffices(tmp_path: Path) -> None:
    """A second at 100 tokens and four at 200 leave 4.5 of 9.5 seconds. These suffice for 212 tokens
    and not for 400, and 212 are not a tenth more than 200.
    """
    found = search(Falling(500), tmp_path / "short")
    ended(found, until=9.5)
    assert [each.length for each in found.all] == [100, 200]
    assert found.sentence() == (
        "falling: the time was up. 0.5 of what it does at 100 tokens holds at 200, and nothing "
        "longer was measured (95 %: at least 200, no upper bound). The same command with more "
        "minutes= goes on from there."
    )
    # With 14 seconds, 9 are left after 200 tokens, in which 300 can be read.
    found = search(Falling(250), tmp_path / "longer")
    said = ended(found, until=14)
    assert [each.length for each in found.all] == [100, 200, 300]
    assert "holds at 200, and not at 300 (95 %: at least 200, less than 300)" in found.sentence()
    assert "It ends after 0.233333 minutes." in said[0]
    # The first text is read in any case, for nothing says how long it takes.
    assert len(ended(search(Falling(100), tmp_path / "none"), until=0.5)) == 2


def test_the_shortest_text_comes_next_and_each_task_has_its_share_of_the_time(
    tmp_path: Path,
) -> None:
    """Of 14 seconds one is gone after the first length of the other, and either has 6.5, where 200
    tokens take 4. Then it is 4.5 of 9. Of the last 5, 2.5 are too few for 220 tokens.
    """
    one, other = (Falling(1000) for _ in range(2))
    ended(search(Falling(1000), tmp_path / "0"), until=0.5)  # an earlier command
    searches = [search(each, tmp_path / str(i)) for i, each in enumerate((one, other))]
    ended(*searches, until=14)
    assert one.asked == [(200, 0)] and other.asked == [(100, 0), (200, 0)]
    assert [each.reach for each in searches] == [200, 200]
    # What one does not need is for the other.
    one, other = Falling(0, beyond=0), Falling(1000)
    searches = [search(each, tmp_path / f"{i}") for i, each in enumerate((one, other), 2)]
    ended(*searches, until=22)
    assert one.asked == [(100, 0)] and other.asked == [(100, 0), (200, 0), (400, 0)]


@pytest.mark.slow
def test_a_search_that_was_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    whole = Falling(555)
    ended(search(whole, tmp_path / "whole", texts=2))
    for stop in range(1, len(whole.asked)):
        folder, first = tmp_path / str(stop), Falling(555)

        def killed(length: int, text: int, first: Falling = first, stop: int = stop) -> list[float]:
            if len(first.asked) == stop:
                raise KeyboardInterrupt
            return Falling.samples(first, length, text)

        first.samples = killed  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            ended(search(first, folder, texts=2))
        second = Falling(555)
        ended(search(second, folder, texts=2))
        assert first.asked + second.asked == whole.asked
    # More texts add to those that are there, and a longer search goes on.
    more = Falling(555)
    ended(search(more, tmp_path / "whole", texts=3))
    assert {text for _, text in more.asked} == {2}
    longer = Falling(1700)
    ended(search(Falling(1700), tmp_path / "longer", 800))
    ended(search(longer, tmp_path / "longer", 1600))
    assert longer.asked == [(1600, 0)]


def test_texts_of_other_settings_are_not_mixed(tmp_path: Path) -> None:
    one = KeptTexts(tmp_path, "it", {"questions": 1})
    ended(LengthSearch(Falling(100), one, 1, 100, 400, 0.5))
    other = KeptTexts(tmp_path, "it", {"questions": 2})
    assert other.path != one.path and other.lengths == []
    assert KeptTexts(tmp_path, "it", {"questions": 1}).lengths == one.lengths
    one.path.rename(other.path)
    with pytest.raises(reach.ConfigError, match="were measured with other settings"):
        KeptTexts(tmp_path, "it", {"questions": 2})
    other.path.write_text(other.path.read_text()[:-20])
    with pytest.raises(reach.ConfigError, match="cannot be read as texts of an earlier search"):
        KeptTexts(tmp_path, "it", {"questions": 2})


# -- with a model ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(llama(positions=POSITIONS), tmp_path_factory.mktemp("models") / "tiny")


@pytest.mark.slow
def test_the_loss_of_the_last_tokens_is_that_of_the_model_itself() -> None:
    net = llama(positions=POSITIONS)
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(40, (900,), generator=generator)

    def loss(text: int, length: int) -> float:
        end = 900 - 64 * text
        row = tokens[end - length : end][None]
        with torch.no_grad():
            said = net(input_ids=row).logits.log_softmax(-1)[0, -65:-1]
        return float(-said.gather(1, row[0, -64:, None]).mean())

    expected = [loss(text, 128) - loss(text, 290) for text in (0, 1, 2)]
    with mounted_and_proved(net) as mounted:
        ability = LossOfTheLast(tokens.tolist(), [], mounted, Direct())
        samples = [each for text in range(3) for each in ability.samples(290, text)]
        found = ability.point(290, samples)
    assert samples == pytest.approx(expected, abs=1e-5)
    assert found.value == pytest.approx(sum(expected) / 3, abs=1e-5) and found.samples == 3
    theirs = stats.t.interval(0.95, 2, loc=found.value, scale=stats.sem(expected))
    assert (found.low, found.high) == pytest.approx(theirs, abs=1e-5)


@pytest.mark.slow
def test_reach_answers_on_the_command_line(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("The road goes past the mill. " * 50)
    words = [f"model={folder}", "questions=2", f"text={text}", f"results_dir={tmp_path / 'kept'}"]
    words += ["task=passkey,loss", "longest=1.5"]
    assert reach.main(words) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[1].startswith("The first text of 300 tokens took ")
    assert out[-2].startswith("passkey: the model can do nothing at 300 tokens, so it has no reach")
    assert out[-1].startswith("loss: ")
    files = sorted((tmp_path / "kept").iterdir())
    assert [re.sub("-[0-9a-f]{8}", "", each.name) for each in files] == [
        *("tiny-loss.json", "tiny-passkey.json")
    ]
    kept = {each: (each.read_bytes(), each.stat().st_mtime_ns) for each in files}
    assert json.loads(kept[files[0]][0])["settings"]["train_positions"] == POSITIONS
    assert reach.main([*words, "minutes=1", "texts=2"]) == 0
    again = capsys.readouterr().out.splitlines()
    assert again[1:] == out[-len(again) + 1 :], "nothing is measured again"
    assert {each: (each.read_bytes(), each.stat().st_mtime_ns) for each in files} == kept
    refused = {
        "task=loss": "task=loss needs text=FILE, got None",
        "task=passkye": "task=passkye: did you mean passkey?",
        "extension=yarm": "extension=yarm is unknown: did you mean yarn?",
        "extension=yarn_fine_tuned": "trains further",
        "questions=20": "begins at 300 tokens, and a text with 20 questions needs",
        "hold=2": "hold must be less than or equal to 1",
        "longest=0": "longest must be greater than 0",
        "longest=.5": "start=300 is beyond longest=0.5 times the 300 trained positions",
        "minutes=-1": "minutes must be greater than or equal to 0",
    }
    for word, said in refused.items():
        assert reach.main([f"model={folder}", f"results_dir={tmp_path}", word]) == 1
        assert said in capsys.readouterr().err, word
    assert reach.main([*words, "longest=8"]) == 1
    assert "longest=1.5 and longest=8 set the same" in capsys.readouterr().err
    assert reach.main([*words[:-1], "longest=8"]) == 1
    assert "has 1450 tokens, and 2464 are needed" in capsys.readouterr().err
