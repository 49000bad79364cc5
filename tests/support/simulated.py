"""Boards of which the truth is known: rows and tasks with effects, and what was not learned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from posbench.statistics.effects import AdditiveFit


@dataclass(frozen=True)
class Population:
    """Rows with known effects, on tasks that are drawn anew for each board.

        y = effect of the row + task + row x task + training,  all but the first normal around 0

    `lacking` says which trainings have not learned: "nothing", a quarter of the trainings
    ("trainings") or of the cells ("cells") by luck, or most of the hard tasks ("tasks"), of which
    the chance to be learned falls with the effect of the task.
    """

    lacking: str
    rows: int = 8
    tasks: int = 12
    seeds: int = 3
    of_rows: float = 0.4  # from the lowest to the highest
    of_tasks: float = 0.2  # standard deviations
    of_both: float = 0.15
    of_seeds: float = 0.1

    @property
    def effects(self) -> pd.Series:
        names = [f"r{row:02}" for row in range(self.rows)]
        return pd.Series(
            np.linspace(0.5 - self.of_rows / 2, 0.5 + self.of_rows / 2, self.rows), names
        )

    def board(self, seed: int) -> pd.DataFrame:
        """The runs of one board."""
        random = np.random.default_rng(seed)
        shape = self.rows, self.tasks, self.seeds
        tasks = random.normal(0, self.of_tasks, self.tasks)
        cells = self.effects.to_numpy()[:, None] + tasks
        cells += random.normal(0, self.of_both, shape[:2])
        areas = cells[:, :, None] + random.normal(0, self.of_seeds, shape)
        chance = {
            "nothing": np.ones(shape[:2]),
            "trainings": np.full(shape[:2], 0.75),
            "cells": np.where(random.random(shape[:2]) < 0.75, 1.0, 0.0),
            "tasks": np.where(
                random.random(shape[:2]) < 1 / (1 + np.exp(-1.3 - 8 * tasks)), 1.0, 0.0
            ),
        }[self.lacking]
        row, task, training = np.indices(shape).reshape(3, -1)
        return pd.DataFrame(
            {
                "row": self.effects.index.to_numpy()[row],
                "task": [f"t{place:02}" for place in task],
                "seed": training,
                "training": [f"{a} {b} {c}" for a, b, c in zip(row, task, training, strict=True)],
                "area": areas.ravel(),
                "learned": random.random(shape).ravel() < np.repeat(chance.ravel(), self.seeds),
            }
        )


@dataclass(frozen=True)
class Coverage:
    """How often intervals of simulated boards held the truth, and rows differed that do not."""

    numbers: float  # share of the intervals of rows with a place
    differences: float  # share of the intervals of differences to the first row
    false: float  # share of boards on which a row of the same effect was found to differ

    @classmethod
    def of(cls, population: Population, boards: int, draws: int) -> Coverage:
        numbers, differences, false = [], [], []
        for seed in range(boards):
            fitted = AdditiveFit.of(population.board(seed), draws=draws, seed=seed)
            truth = population.effects[fitted.rows]
            placed = fitted.num_learned >= max(3, 2 / 3 * population.tasks - 1e-9)
            if not placed.any():
                continue
            half = fitted.half_widths()
            numbers += [*(np.abs(fitted.numbers[:, 0] - truth) <= half)[placed]]
            first = fitted.table()["number"].where(placed).idxmax()
            told = fitted.differences(str(first))
            told = told[told["p"].notna()]
            real = truth[told.index] - truth[first]
            differences += [*((told["low"] <= real) & (real <= told["high"]))]
            false.append(bool(((told["p_holm"] < 0.05) & (real.abs() < 1e-9)).any()))
        return cls(*(float(np.mean(each)) for each in (numbers, differences, false)))
