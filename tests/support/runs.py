"""Small tables of runs, as the statistics of a board take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

Areas = Mapping[str, Mapping[str, Sequence[float]]]
"""Row -> task -> area of each seed."""


def runs(areas: Areas, groups: Mapping[str, str] | None = None) -> pd.DataFrame:
    """The table of runs with these areas; without groups, all tasks are in one."""
    return pd.DataFrame(
        [
            {
                "row": row,
                "task": task,
                "group": (groups or {}).get(task, "all"),
                "seed": seed,
                "area": float(area),
            }
            for row, tasks in areas.items()
            for task, seeds in tasks.items()
            for seed, area in enumerate(seeds)
        ]
    )


def random_runs(rows: int = 4, groups: int = 3, seeds: int = 5, seed: int = 0) -> pd.DataFrame:
    """Rows `r0` and so on, the better the later, on two tasks a group."""
    generator = np.random.default_rng(seed)
    areas = {
        f"r{row}": {
            f"t{task}": np.clip(0.3 + 0.1 * row + 0.15 * generator.standard_normal(seeds), 0, 1)
            for task in range(2 * groups)
        }
        for row in range(rows)
    }
    return runs(areas, {f"t{task}": f"g{task // 2}" for task in range(2 * groups)})
