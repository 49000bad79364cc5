"""Are the declarations of an encoding true? Each is measured: `relative`, `float_positions`,
`max_positions`, `handles` and, of your own classes, `counts_tokens`.
"""

from __future__ import annotations

from collections.abc import Collection

import torch

from posbench.base.errors import IllegalExtension, PosbenchError
from posbench.base.wording import closest
from posbench.checks import counting
from posbench.core.encoding import PositionEncoding
from posbench.core.extension import ExtensionWrapper
from posbench.core.frequencies import Frequencies
from posbench.running.subject import (
    EXACT,
    Broken,
    Subject,
    difference,
    finite,
    outputs,
    random_tokens,
    require,
)

LONGEST = 256
"""Tokens of the longest sequence in which a class may begin to count them."""


def relative_is_as_declared(subject: Subject) -> None:
    """Logits must survive a shift of all positions if and only if `relative` is declared.

    Also where the parameters of the encodings are no longer what they begin with.
    """
    model, n, shift = subject.stirred_model(), 12, 5
    pos = torch.arange(n)[None]
    change = (
        (model(random_tokens(n), pos + shift) - model(random_tokens(n), pos)).abs().max().item()
    )
    declared = all(encoding.relative for encoding in model.encodings)
    require(
        (change < EXACT) == declared,
        f"`relative` is declared {declared}, and shifting all positions by {shift} changes logits "
        f"by {change:.1e}: declare relative = {not declared}, or use differences of positions "
        "alone",
    )


def float_positions_are_accepted_iff_declared(subject: Subject) -> None:
    """Try positions like 0.25, 1.0 and 1.75.

    Whole numbers in float must also give what integers give.
    """
    for encoding in subject.layers():
        pos, whole = torch.arange(10)[None] * 0.75 + 0.25, torch.arange(10)[None]
        if not encoding.float_positions:
            try:
                outputs(encoding, pos)
            except (IndexError, RuntimeError, TypeError, PosbenchError):
                continue
            raise Broken(
                "`float_positions` is declared False, and positions like 0.25 were taken without "
                "an error: declare it True, or index with them as they are (casting to integers "
                "hides a mistake)"
            )
        finite(outputs(encoding, pos), "at positions like 0.25")
        change = difference(outputs(encoding, whole.double()), outputs(encoding, whole))
        require(
            change < EXACT,
            f"the positions 0.0, 1.0, 2.0 give another result than 0, 1, 2 (by {change:.1e}): "
            "integer arithmetic on positions, or a table indexed by them; declare float_positions "
            "= False if they cannot be floats",
        )


def counts_tokens_is_as_declared(subject: Subject) -> None:
    """A class that says it counts tokens does so, at the latest in the longest test."""
    for encoding in subject.stirred():
        if not getattr(encoding, "counts_tokens", False):
            continue
        longest = min(subject.made().test_positions, LONGEST)
        require(
            bool(counting.found(encoding) or counting.found(encoding, longest)),
            "`counts_tokens` is declared True, and tokens that are alike, at equal positions, are "
            f"treated alike in sequences of {longest} tokens: leave the declaration out",
        )


def max_positions_is_as_declared(subject: Subject) -> None:
    """Positions up to the limit work, and beyond it there is an IndexError.

    Without a limit, position 100,000 must work.
    """
    for encoding in subject.layers():
        limit = encoding.max_positions
        if limit is None:
            try:
                found = outputs(encoding, torch.arange(100_000, 100_012)[None])
            except IndexError as error:
                raise Broken(
                    "`max_positions` is declared None, and position 100,000 gives an IndexError: "
                    "declare the number of rows that there are, or compute with positions instead "
                    "of looking them up"
                ) from error
            finite(found, "at position 100,000")
            continue
        outputs(encoding, torch.arange(limit - 4, limit)[None])
        try:
            outputs(encoding, torch.arange(limit - 3, limit + 1)[None])
        except IndexError:
            continue
        raise Broken(
            f"`max_positions` is declared {limit}, and position {limit} gave no IndexError: an "
            "encoding that clamps in silence reports results of positions it does not have; "
            "declare None if there is no limit"
        )


def handles_are_as_declared(subject: Subject) -> None:
    """Each handle is one that some extension takes hold of, with the attribute that it means,
    and some extension must have an effect through it at the longest test.

    An extension may refuse only if its handle is not offered, and must change nothing if there
    is nothing to extend.
    """
    run, stack = subject.made(), subject.model().encodings
    offered = dict(subject.extensions())
    known = {part for each in offered.values() for part in each.needs.split(" and ") if part}
    for layer in stack:
        _have_what_they_stand_for(layer, known)
    trained, longest = (
        stack.span(run.train_positions, training=True),
        stack.span(run.test_positions),
    )
    pos = torch.arange(min(48, stack.max_positions or 48))[None]
    before = [outputs(layer, pos) for layer in stack]
    changes: dict[str, float] = {}
    for name, extension in offered.items():
        needs = extension.needs
        try:
            extended = extension.extend(stack, trained, longest)
        except IllegalExtension:
            require(
                needs not in extension.part(stack).handles,
                f"extension {name} refused, although {needs!r} is among the handles",
            )
            continue
        if type(extension).extend is ExtensionWrapper.extend:
            continue  # it does what the extension inside it does, which is asked by itself
        change = max(
            difference(outputs(new, pos), old) for new, old in zip(extended, before, strict=True)
        )
        # If training already draws positions from their whole range, nothing is left to extend.
        may = extension.changes and (longest > trained or not extension.is_identity)
        require(
            may or change <= EXACT,
            f"extension {name} changes outputs by {change:.1e}, and has nothing to extend",
        )
        if may:
            changes[needs] = max(change, changes.get(needs, 0.0))
    for needs, change in changes.items():
        require(
            change > EXACT,
            f"no extension that takes hold of {needs!r}, which the handles offer, changes an "
            "output at the longest test: an offered handle must have an effect; drop it from "
            "`handles` otherwise",
        )


CONTRACTS: dict[str, tuple[str, type]] = {"frequencies": ("frequencies", Frequencies)}
"""The attribute that an extension finds behind a handle; the others need none."""


def _have_what_they_stand_for(layer: PositionEncoding, known: Collection[str]) -> None:
    for handle in sorted(layer.handles):
        near = closest(handle, known)
        require(
            handle in known,
            f"`handles` offers {handle!r}, of which no extension takes hold: "
            f"{f'did you mean {near!r}? ' if near else ''}The handles are "
            f"{', '.join(sorted(known))}",
        )
        if handle in CONTRACTS:
            attribute, kind = CONTRACTS[handle]
            found = getattr(layer, attribute, None)
            require(
                isinstance(found, kind),
                f"`handles` offers {handle!r}, and self.{attribute} is {type(found).__name__}: an "
                f"extension replaces it by another {kind.__module__}.{kind.__name__}, so set one "
                "in __init__ and read it in `encode`, or drop the handle",
            )
