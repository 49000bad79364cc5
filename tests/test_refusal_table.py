"""No bad input of the table gets more than one sentence, which names it and says what would do."""

from __future__ import annotations

import re

import pytest
from refusals import INPUTS, Answer, Input, in_a_process

REMEDY = re.compile(r": |\bmust\b|\bone of\b|\bat least\b")
OF_HYDRA = ("hydra.job.chdir=maybe", "--config-path x")  # whose words say no more
OF_SIZES = "lower the sizes of the model"  # what would do where all of them together are too large


def names(said: str, given: Input) -> bool:
    """Whether the answer has a word of the command, its key, its value, or the name of a file."""
    words = {given.command, *given.files, "is missing", "in a ring", OF_SIZES}
    for word in given.words:
        key, _, value = word.lstrip("+~-").partition("=")
        words |= {word or "''", key, key.rpartition(".")[2], *([value] if len(value) > 1 else [])}
    return any(word in said for word in words if word)


def complaint(given: Input, found: Answer) -> str:
    """What is wrong with an answer."""
    line, said = " ".join(given.words), found.said
    if found.status != 1 or found.left:
        return f"exit status {found.status}, left {found.left}"
    if not said.startswith("posbench: ") or "Traceback" in said:
        return "no sentence"
    if "\n" in said and given.command == "posbench":
        return "more than one line"
    if not names(said.removeprefix("posbench: "), given):
        return "does not name what is wrong"
    return "" if REMEDY.search(said[10:]) or line in OF_HYDRA else "does not say what would do"


@pytest.mark.slow
def test_every_bad_input_is_refused_in_a_sentence_that_names_it_and_leaves_nothing_behind() -> None:
    found = in_a_process()
    complaints = [
        (given, answer.said, why)
        for given, answer in zip(INPUTS, found, strict=True)
        if (why := complaint(given, answer))
    ]
    assert not complaints
    assert sum(not answer.torch for answer in found) > 145, "without waiting for torch"
