"""The terms of the board: what each column and word means, said once for all pages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Term:
    """A word with its definition, which a heading shows, and what else must be known of it."""

    name: str
    short: str
    more: str = ""

    @property
    def full(self) -> str:
        return f"{self.short} {self.more}".rstrip()


SCORE = Term(
    "Score",
    "The share of sequences in which every answer token and the end is right.",
    "A task that measures something else says so above its table. Lengths are multiples of the "
    "positions of the longest training sequence.",
)
AREA = Term(
    "Area",
    "The area under the score from 1x to 8x on a logarithmic axis of lengths, corrected for chance "
    "and not below 0.",
    "It is 1 if there is no error up to 8x. Of several tasks it is the mean of their groups, each "
    "the mean of its tasks; a row that lacks a task has none and comes last. Tests that end before "
    "8x give none, except where the page says that areas end before 8x.",
)
INTERVAL = Term(
    "95 %",
    "The 95 % interval of the area, from the bootstrap.",
    "It is drawn over seeds and over tasks of the same groups, and over seeds alone where some "
    "group has a single task. Behind the area of a single task, ± is half of the interval over "
    "seeds (Student's t), from three seeds on. Over seeds alone it is too narrow where no seed has "
    "learned a task, for the next one may. Of simulated boards that learn as often as the main one "
    "it holds the true number in 91 %. Where a quarter of the tasks is learned by luck, that is "
    "77 %.",
)
RANK = Term(
    "Rank",
    "The 95 % interval of the place within the section.",
    "It comes from the same draws. A place is one more than the number of rows that are at least "
    ".02 above.",
)
AT_TRAINING_LENGTH = Term(
    "1x",
    "The score at the training length.",
    "In tables of several tasks it is corrected for chance.",
)
REACH = Term(
    "Reach",
    "The length, in multiples of training, up to which the corrected score is at least .5; the "
    "median over tasks and seeds, in which every task counts the same.",
    "< 1 means that it is below .5 at the training length already, > 8 that it is not below .5 at "
    "any length that was measured. The median of such runs and others may be a bound as well, as "
    "< 1.6.",
)
LEARNED = Term(
    "Learned",
    "The share of runs that pass the gate of their task in the test at 1x: a score of .95 for most "
    "tasks.",
    "A row without such a run is marked “did not learn”, and says nothing about extrapolation. "
    "“Fails at 1x” marks a row that had passed at some step of its training and fails the test, "
    "mostly because an extension has lost the training length. Unsolved runs stay in every mean, "
    "and those whose training diverged count as 0.",
)
CLASS = Term(
    "Class",
    "Rows are put into classes by what they were given, and are ranked within their class alone.",
    "Zero-shot rows saw only training lengths. The settings of tuned rows were chosen on a "
    "validation length beyond training. Fine-tuned rows went on training; their controls did so "
    "without an extension. Other rows were trained on positions beyond the training length, or are "
    "given ids by the task. A ceiling is no method: it is a model trained at each length.",
)
CPU = Term(
    "CPU s",
    "CPU seconds of a training, and of fine-tuning or searching where a row has that; the mean "
    "over tasks and seeds.",
    "Extensions of the same trained weights share them, and their cost. GPU seconds, where there "
    "are any, are those of the shared training alone.",
)
PATH = Term(
    "Path",
    "How attention is computed: in a fused kernel, fused row by row with a mask, or from the whole "
    "matrix of scores.",
    "It was measured on an untrained layer.",
)
KEYS = Term(
    "Keys",
    "Whether the keys of earlier tokens can be cached while others follow.",
    "Yes: a key stays what it is. At one scale: it does as long as the extension keeps its factor. "
    "No: keys change as tokens follow. No keys: scores are not products with keys. It was measured "
    "on an untrained layer.",
)
