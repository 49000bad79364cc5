"""Score against length for a row: its mean over tasks, seed by seed.

Every picture of it shows these numbers; leaderboard.js computes them once more, for a browser.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd

from posbench.statistics.measures import corrected_lines


def mean_curve(lengths: pd.DataFrame, tasks: Collection[str]) -> pd.DataFrame:
    """Average the corrected score of one row over tasks, and return it by [seed, multiple].

        mean over tasks of max(0, (s - c) / (1 - c))

    Here s is the score and c that of guessing, so that a score below chance counts as 0. A seed
    that lacks a task is left out, and so is a length at which one of the other seeds lacks a task:
    every point is a mean over the same seeds and tasks. Without such points the frame is empty.

    Args:
        lengths: the lines of the row in the long table, each run once, with columns `task`,
            `seed`, `multiple`, `score` and `chance`
        tasks: the tasks to average over
    """
    mine = lengths[lengths["task"].isin(tasks)]
    whole = mine.groupby("seed")["task"].transform("nunique") == len(tasks)
    mine = mine.assign(corrected=np.maximum(corrected_lines(mine), 0.0))[whole]
    by_task = mine.pivot(index=["seed", "multiple"], columns="task", values="corrected")
    return by_task.mean(axis=1, skipna=False).unstack("multiple").dropna(axis=1)
