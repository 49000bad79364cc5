"""The table of bad inputs and of wrong classes is what is answered today, and no answer in it is
worse than one sentence.
"""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from refusals import HERE, INPUTS, TABLE
from wrong import WRONG

ROW = re.compile(r"^\| (.*?) \| (-?\d+) \| (.*?) \| (.*?) \| (yes|no) \|$", re.M)


@pytest.mark.slow
def test_the_table_is_what_is_answered_today() -> None:
    done = subprocess.run(
        [sys.executable, HERE / "refusals.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_every_bad_input_is_refused_in_a_sentence_and_leaves_nothing_behind() -> None:
    rows = ROW.findall(TABLE.read_text("utf-8"))
    assert len(rows) == len(INPUTS) >= 100
    for words, status, said, left, _ in rows:
        assert status == "1" and left == "nothing", words
        assert said.startswith("posbench: ") and "Traceback" not in said, words


def test_every_wrong_class_is_found() -> None:
    text = TABLE.read_text("utf-8")
    assert len(WRONG) >= 20 and "Traceback" not in text
    for wrong in WRONG:
        (row,) = re.findall(
            rf"^\| {wrong.kind} \| {re.escape(wrong.what)} \| 1 \| (.*) \|$", text, re.M
        )
        assert wrong.said in row.replace("\\|", "|"), wrong.what
