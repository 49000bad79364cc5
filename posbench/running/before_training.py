"""What an encoding returns has the shapes that attention takes, and what a task draws those that it
declares. Every run asks this before it trains, because a bias with too few dimensions broadcasts,
and trains as something else in silence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from posbench.base.errors import PosbenchError, of_limits
from posbench.base.wording import closest, listed
from posbench.config import blame
from posbench.core import coverage
from posbench.core.attention import Attention, attend
from posbench.core.encoding import Draw, EncodingStack, PositionEncoding
from posbench.core.scoring import position_ids
from posbench.core.settings import ModelConfig
from posbench.core.task import Batch, Task
from posbench.running.setup import Setup
from posbench.running.subject import MANY

ROUNDING = 1e-3
"""Of single precision, as a share of the largest output: what is summed otherwise rounds so."""
TORCHS = frozenset(vars(nn.Module()))
"""Attributes in which torch itself keeps parameters, buffers and modules."""
HOOKS = ("encode", "embed", "positions")
"""What posbench calls of an encoding."""


def refuse_wrong_shapes(setup: Setup) -> None:
    """Ask the task of a run for a batch of its shortest and of its longest training length, and
    copies of its encodings on these. PosbenchError names the class, and what it returns.
    """
    model, task = setup.config.model, setup.task
    stack = EncodingStack(setup.encodings(), len(setup.specifications))
    rows = model.num_heads + 1  # unlike the number of heads, so that neither passes for the other
    lengths = setup.config.training.lengths
    batches = [task.batch(lengths[0], rows, 0, "shapes"), task.batch(lengths[-1], 1, 0, "shapes")]
    for n, batch in zip((lengths[0], lengths[-1]), batches, strict=True):
        _refuse_wrong_batch(task, n, batch)
    layers = [*stack]
    asked, *_ = kinds = [layers[index] for index in stack.firsts]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        try:
            for batch in batches:
                ids = position_ids(batch, stack)[:, :MANY]
                a = _call(model, drawn(kinds[0], ids, len(batch.tokens)), batch)
                for asked in kinds:
                    _refuse_what_cannot_be_trained(asked, a)
        except PosbenchError as error:
            raise PosbenchError(
                f"{type(asked).__name__}: {error}; posbench check FILE, with the YAML of "
                "the encoding, says where"
            ) from None
        except RuntimeError as error:  # of torch, about shapes that do not fit
            if blame.of_own_code(error) is not None or of_limits(error) is not None:
                raise
            raise PosbenchError(
                f"{type(asked).__name__} cannot be applied to {ids.shape[1]} tokens and "
                f"{model.num_heads} heads of {model.head_width} channels ({blame.told(error)}): "
                "change its settings or those of the model"
            ) from None
    _refuse_what_is_never_trained(stack, position_ids(batches[0], stack)[:1], model)


def _call(model: ModelConfig, pos: Tensor, batch: Batch) -> Attention:
    """An attention call on random inputs, at these positions and in the segments of a batch."""
    generator, (rows, places) = torch.Generator().manual_seed(0), (len(batch.tokens), pos.shape[1])
    q, k, v = torch.randn(3, rows, model.num_heads, places, model.head_width, generator=generator)
    x = torch.randn(rows, places, model.width, generator=generator)
    segments = torch.from_numpy(batch.segments)[:, :places]
    return Attention(q, k, v, x, pos, pos, scale=model.head_width**-0.5, segments=segments)


def _refuse_wrong_batch(task: Task, n: int, batch: Batch) -> None:
    """PosbenchError unless sequences are as long, and hold the tokens, that a task declares: by
    these lengths positions are counted and models are built.
    """
    try:
        _require(
            isinstance(batch, Batch),
            f"sample returns {_kind(batch)}: return what posbench.task.assemble makes of prompt "
            "and answer",
        )
        tokens, declared = batch.tokens.shape[1], task.total_length(n)
        _require(
            tokens == declared,
            f"a sequence of n={n} has {tokens} tokens with BOS, SEP and EOS, and total_length({n}) "
            f"is {declared}",
        )
        asked, declared = batch.answer.sum(1) - batch.answer[:, -1], task.answer_length(n)
        _require(
            bool((asked == declared).all()),
            f"an answer of n={n} has {asked.max()} tokens, EOS left out, and answer_length({n}) is "
            f"{declared}",
        )
        highest, size = batch.tokens.max(), task.vocab_size
        _require(
            batch.tokens.min() >= 0 and highest < size,
            f"tokens of n={n} run up to {highest}, and vocab_size is {size}",
        )
    except PosbenchError as error:
        raise PosbenchError(
            f"{type(task).__name__}: {error}; posbench check FILE, with the YAML of the "
            "task, says where"
        ) from None


def _refuse_what_cannot_be_trained(encoding: PositionEncoding, a: Attention) -> None:
    """PosbenchError unless outputs are finite, and stay when later tokens are others, from the
    middle on or the last one: a model that sees the next token learns nothing else.
    """
    out, embedded = called(encoding, a), encoding.embed(a.x, a.q_pos)
    _require(
        bool(out.isfinite().all()),
        "attention gives what is not finite before any training, so no learning rate helps",
    )
    places, largest = a.x.shape[1], max(out.abs().max().item(), embedded.abs().max().item())
    for place in {places // 2, places - 1}:
        later = (torch.arange(places) >= place)[:, None]
        q, k, v, x = (torch.where(later, 1 - each, each) for each in (a.q, a.k, a.v, a.x))
        changes = (called(encoding, replace(a, q=q, k=k, v=v, x=x)) - out)[..., :place, :]
        changes_embedded = (encoding.embed(x, a.q_pos) - embedded)[:, :place]
        each = [change.abs().max() for change in (changes, changes_embedded)]
        ahead = torch.stack(each).max().item()  # NaN of either stays, unlike in Python's max
        _require(
            ahead <= ROUNDING * largest,
            f"what is put out for a token changes with a later one (by {ahead:.1e}, of {places} "
            f"tokens with others from place {place} on), which it would predict: a term and a "
            "mask may depend on keys up to the query alone",
        )


def _refuse_what_is_never_trained(stack: EncodingStack, ids: Tensor, model: ModelConfig) -> None:
    """PosbenchError if there are parameters and nothing that is put out depends on one, or if some
    are kept where torch does not find them.
    """
    for encoding in stack:
        refuse_hidden_parameters(encoding)
    try:
        coverage.used_entries(stack, ids, model.num_heads, model.head_width, model.width, True)
    except RuntimeError as error:
        if "does not require grad" not in str(error):
            raise
        first = next(iter(stack))
        names = ", ".join(dict(first.named_parameters()))
        raise PosbenchError(
            f"{type(first).__name__}: nothing that it returns depends on its parameters "
            f"({names}), so that no training changes them: use them in encode or embed without "
            "detach, or keep a constant with register_buffer"
        ) from None


def refuse_hidden_parameters(encoding: nn.Module) -> None:
    """PosbenchError names the first attribute with parameters that `encoding.parameters()` lacks,
    as a list has them.
    """
    known = {id(each) for each in encoding.parameters()}
    for module in encoding.modules():
        for name, value in vars(module).items():
            if not isinstance(value, list | tuple | dict) or name in TORCHS:
                continue
            every = value.values() if isinstance(value, dict) else value
            if any(id(each) not in known for some in every for each in _parameters(some)):
                raise PosbenchError(
                    f"{type(module).__name__} keeps parameters in self.{name}, where torch does "
                    "not find them, so that no training changes them: keep them in an "
                    "nn.ParameterList, nn.ParameterDict, nn.ModuleList or nn.ModuleDict"
                )


def _parameters(value: object) -> Iterator[nn.Parameter]:
    if isinstance(value, nn.Parameter):
        yield value
    elif isinstance(value, nn.Module):
        yield from value.parameters()


def drawn(encoding: PositionEncoding, ids: Tensor, rows: int) -> Tensor:
    """The positions that an encoding draws in training, if they have a shape that it may return."""
    for training in (False, True):
        pos = encoding.positions(ids, Draw(rows, torch.Generator().manual_seed(0), training))
        places = ids.shape[1]
        _require(
            isinstance(pos, Tensor)
            and pos.ndim in (2, 3)
            and pos.shape[0] in (1, rows)
            and pos.shape[1] == places,
            f"positions returns {_kind(pos)}: return [batch|1, n], here [{rows}|1, {places}]",
        )
    return pos


def called(encoding: PositionEncoding, a: Attention) -> Tensor:
    """What attention gives with an encoding. Refuse what `embed` and `encode` return, and the terms
    and masks in it, unless attention takes it.
    """
    _refuse_what_is_never_called(type(encoding))
    embedded = encoding.embed(a.x, a.q_pos)
    _require(
        isinstance(embedded, Tensor) and embedded.shape == a.x.shape,
        f"embed returns {_kind(embedded)}: return the embeddings with position in them, "
        f"[batch, n, model width], here {list(a.x.shape)}",
    )
    plan = encoding.encode(a)
    _require(
        hasattr(plan, "run") and hasattr(plan, "each"),
        f"encode returns {_kind(plan)}: return an Attention, such as a.plus(bias) or "
        "replace(a, q=q, k=k)",
    )
    for leaf in leaves(plan):
        for kind, terms in (("term", leaf.terms), ("mask", leaf.masks)):
            for term in terms:
                _shaped(kind, term, leaf, a)
    out, wanted = attend(plan), a.v.shape
    _require(
        out.shape == wanted,
        f"attention gives {list(out.shape)} for {list(wanted)} [batch, heads, n, head width]: "
        "what `encode` sets has another number of heads or channels than the queries; take "
        "it from a.num_heads",
    )
    return out


def _refuse_what_is_never_called(kind: type[PositionEncoding]) -> None:
    """PosbenchError where a class has methods and none that posbench calls, as if one of them were
    misspelt: it would be trained without positions in silence.
    """
    above = kind.__mro__[: kind.__mro__.index(PositionEncoding)]
    named = {name for each in above for name in vars(each) if callable(vars(each)[name])}
    if named & {*HOOKS} or not (own := sorted(each for each in named if each[0] != "_")):
        return
    meant = [f"{meant} for {each}" for each in own if (meant := closest(each, HOOKS))]
    hint = f": did you mean {listed(meant)}?" if meant else ": override one of them"
    raise PosbenchError(
        f"it has none of {', '.join(HOOKS)}, so it would be trained without positions{hint}"
    )


def leaves(plan: Any) -> Iterator[Attention]:
    """The calls that a plan is made of."""
    if isinstance(plan, Attention):
        yield plan
    else:
        for part in plan.parts:
            yield from leaves(part)


def _shaped(kind: str, term: Any, leaf: Attention, a: Attention) -> None:
    batch, places = a.x.shape[:2]
    _require(
        callable(term),
        f"a {kind} is a {type(term).__name__}: give {'plus' if kind == 'term' else 'where'} a "
        "function of rows, as def bias(rows), which returns it for some of the queries",
    )
    for rows in (slice(0, places), slice(places // 4, places // 2 + 1)):
        count = rows.stop - rows.start
        wanted = (
            "[batch|1, heads|1, rows, keys], here "
            f"[{batch}|1, {leaf.num_heads}|1, {count}, {places}]"
        )
        try:
            found = term(rows)
        except RuntimeError as error:
            if "must match the size of tensor" not in str(error):
                raise
            raise PosbenchError(
                f"{blame.told(error, ' in a ' + kind)}: make it from {wanted}, in which distances "
                "are a.distance(rows)[:, None], and a weight for each head is weight[:, None, None]"
            ) from error
        fits = isinstance(found, Tensor) and found.ndim == 4
        _require(
            fits
            and found.shape[0] in (1, batch)
            and found.shape[1] in (1, leaf.num_heads)
            and found.shape[2] in (1, count)
            and found.shape[3] in (1, places),
            f"a {kind} returns {_kind(found)} for {count} rows: return {wanted}; with fewer "
            "dimensions a batch is taken for heads",
        )
        if kind == "mask":
            _require(
                found.dtype == torch.bool,
                f"a mask returns {found.dtype}: return a boolean, True where a key is seen",
            )


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise PosbenchError(sentence)


def _kind(found: object) -> str:
    if isinstance(found, Tensor):
        return str(list(found.shape))
    return "None" if found is None else f"an object of {type(found).__name__}"
