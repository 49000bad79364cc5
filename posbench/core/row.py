"""One run at one test length: the columns of every table, each with its meaning and its unit."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator


class Part(BaseModel):
    """A part of a record: it never changes, and what is not declared is refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        protected_namespaces=(),
        allow_inf_nan=False,
    )


def _or_none(value: Any) -> Any:
    """A loss far beyond training may overflow, and JSON cannot hold infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _or_least(value: Any) -> Any:
    """A score that follows from such a loss is the least there is."""
    return -1.0 if isinstance(value, float) and not math.isfinite(value) else value


Loss = Annotated[float | None, BeforeValidator(_or_none)]
Score = Annotated[float, BeforeValidator(_or_least), Field(ge=-1, le=1)]
Share = Annotated[float, Field(ge=0, le=1)]
COUNTED = Field(ge=0, le=2**53)  # as JSON can hold it, and a table


class Unit(str):
    """In what a column counts."""


class Row(Part):
    """The measures of one run at one test length."""

    test_length: Annotated[int, COUNTED, Unit("n")]
    """Task length n of the test."""
    multiple: Annotated[float, Unit("x")]
    """Positions of the test over those of the longest training sequence, as the protocol asks."""
    true_multiple: Annotated[float, Unit("x")]
    """The same, of the length that comes nearest."""
    aggregated: bool
    """Whether the length enters means."""
    total_length: Annotated[int, COUNTED, Unit("tokens")]
    """Length of a test sequence, BOS and EOS included."""
    test_positions: Annotated[int, COUNTED, Unit("positions")]
    """Largest position of the test plus one, as the encoding counts."""
    num_samples: Annotated[int, COUNTED, Unit("sequences")]
    """Test sequences; 0 where training diverged."""
    num_tokens: Annotated[int, COUNTED, Unit("tokens")]
    """Tokens that the test asks for, EOS included."""
    num_tokens_within: Annotated[int, COUNTED, Unit("tokens")]
    """Tokens among these whose source is no farther than any in training."""
    num_tokens_beyond: Annotated[int, COUNTED, Unit("tokens")]
    """Tokens among these whose source is farther."""
    score: Annotated[Score, Unit("share")]
    """How well the length is solved; see `measure`. Less than `chance` is worse than guessing."""
    proficiency: Annotated[Score, Unit("share")]
    """The number that must pass the gate; the score, for most tasks."""
    sequence_accuracy: Annotated[Share, Unit("share")]
    """Sequences whose every answer token is right."""
    sequence_accuracy_without_end: Annotated[Share, Unit("share")]
    """The same, EOS aside."""
    correct_prefix: Annotated[Share, Unit("share")]
    """Answer before its first wrong token, mean."""
    token_accuracy_teacher_forced: Annotated[Share, Unit("share")]
    """Right tokens, given the right tokens before them."""
    token_accuracy_within_trained_distance: Annotated[Share | None, Unit("share")]
    """The same where the source is no farther than in training; none: no such tokens."""
    token_accuracy_beyond_trained_distance: Annotated[Share | None, Unit("share")]
    """The same where the source is farther; none: no such tokens."""
    loss: Annotated[Loss, Unit("nats")]
    """Mean cross-entropy of the tokens asked for; none: it overflowed."""
    chance: Annotated[float, Field(ge=0, lt=1), Unit("share")]
    """Score of guessing, knowing the format."""
    untrained: Annotated[Share | None, Unit("share")]
    """Parameter entries that the encoding uses here and training did not; none: it has none."""

    @property
    def corrected(self) -> float:
        """The score s corrected for the chance c, $(s - c)/(1 - c)$."""
        return (self.score - self.chance) / (1 - self.chance)

    @classmethod
    def without_model(
        cls,
        test_length: int,
        multiple: float,
        true_multiple: float,
        aggregated: bool,
        total_length: int,
        chance: float,
    ) -> Self:
        """The row of a training that diverged: there is no model, and nothing is right."""
        return cls(
            test_length=test_length,
            multiple=multiple,
            true_multiple=true_multiple,
            aggregated=aggregated,
            total_length=total_length,
            test_positions=0,
            num_samples=0,
            num_tokens=0,
            num_tokens_within=0,
            num_tokens_beyond=0,
            score=0.0,
            proficiency=0.0,
            sequence_accuracy=0.0,
            sequence_accuracy_without_end=0.0,
            correct_prefix=0.0,
            token_accuracy_teacher_forced=0.0,
            token_accuracy_within_trained_distance=None,
            token_accuracy_beyond_trained_distance=None,
            loss=None,
            chance=chance,
            untrained=None,
        )


class View(Part):
    """The tokens of one test in bins of one quantity; a list holds one entry a bin."""

    test_length: Annotated[int, COUNTED, Unit("n")]
    """Task length n of the test."""
    by: Literal["distance", "depth", "position"]
    """What the bins are of.

    Distance to the source over the largest in training, depth of the source in its prompt from 0
    to 1, or place of the token over the positions of training.
    """
    above: list[float]
    """Lower edge of the bin, which it does not include."""
    up_to: list[float | None]
    """Upper edge, included; none: no upper edge."""
    num_tokens: Annotated[list[Annotated[int, COUNTED]], Unit("tokens")]
    """Tokens in the bin."""
    token_accuracy_teacher_forced: Annotated[list[Share], Unit("share")]
    """Right tokens of the bin."""
    loss: Annotated[list[Loss], Unit("nats")]
    """Mean cross-entropy of the bin."""

    @model_validator(mode="after")
    def _binned(self) -> Self:
        """Every list has an entry a bin."""
        others = (self.up_to, self.num_tokens, self.token_accuracy_teacher_forced, self.loss)
        if any(len(each) != len(self.above) for each in others):
            raise ValueError("lists of a view are of unlike length")
        return self
