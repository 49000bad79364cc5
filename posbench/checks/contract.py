"""Attention asks this of every encoding, whatever it computes: shapes, equal calls, prefixes,
positions as they come, mixed precision.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from posbench.checks import counting, devices
from posbench.checks.attention_paths import moved
from posbench.core.attention import Attention, attend, dense
from posbench.core.encoding import Draw, PositionEncoding
from posbench.running import before_training
from posbench.running.subject import (
    EXACT,
    HEADS,
    WIDTH,
    Broken,
    Outputs,
    Subject,
    call,
    difference,
    finite,
    outputs,
    random_tokens,
    require,
)

ROWS, PLACES = 3, 9  # of a batch; unlike the number of heads, so that neither passes for the other
INPUTS = ("q", "k", "v", "x", "q_pos", "k_pos", "segments")
AHEAD = 1e-12  # by which a logit may differ that no later token can change
UNUSUAL = 23  # tokens: of a number that no other check asks for


# -- what a call returns ---------------------------------------------------------------------------


def calls_return_what_attention_takes(subject: Subject) -> None:
    """`positions`, `embed` and `encode`, and the terms and masks in what `encode` returns."""
    for encoding in subject.layers():
        a = call(PLACES, batch=ROWS)
        before_training.drawn(encoding, a.q_pos, ROWS)
        before_training.called(encoding, a)


def outputs_are_finite(subject: Subject) -> None:
    """Also at all positions of the longest test, and the first one that is not is named."""
    for encoding in subject.layers():
        with torch.no_grad():
            found = outputs(encoding, torch.arange(subject.longest)[None])
        good = [torch.isfinite(each).all(-1).flatten(0, -2).all(0) for each in found]
        bad = torch.nonzero(~(good[0] & good[1]))
        finite(found, f"from position {int(bad[0])} on" if len(bad) else "")


def finite_under_decreasing_positions(subject: Subject) -> None:
    """The ids that a task supplies may run backwards or repeat."""
    for encoding in subject.layers():
        for ids in ([9, 8, 7, 6, 5], [3, 3, 3, 3, 3], [0, 4, 1, 4, 2]):
            finite(outputs(encoding, torch.tensor([ids])), f"at the positions {ids}")


def two_calls_are_equal(subject: Subject) -> None:
    """Two calls must be equal bit for bit, in training too: only `draw.generator` may draw."""
    for encoding in subject.layers():
        for training in (False, True):
            encoding.train(training)
            with torch.random.fork_rng(devices=[]):
                state = torch.get_rng_state()
                one, other = (
                    (*_positions(encoding, training), *outputs(encoding, torch.arange(12)[None]))
                    for _ in range(2)
                )
                seeded = not torch.equal(state, torch.get_rng_state())
            change = max(difference((a, a), (b, b)) for a, b in zip(one, other, strict=True))
            require(
                change == 0,
                f"two equal calls give different results (by {change:.1e}): a call may neither "
                "draw nor count by itself; override `positions`, which is called once for all "
                "layers, and draw from draw.generator",
            )
            require(
                not seeded,
                "a call changes the state of torch's global generator, by drawing from it or "
                "seeding it (torch.manual_seed): draw from draw.generator in `positions`",
            )
        encoding.eval()


def inputs_are_left_alone(subject: Subject) -> None:
    """Queries, keys, values, layer input and positions are shared with what comes after."""
    for encoding in subject.stirred():
        shifted = 2 * torch.arange(PLACES)[None] + 3
        for pos in (shifted, shifted.double()):
            if pos.is_floating_point() and not encoding.float_positions:
                continue
            a = call(PLACES, pos)
            given = {name: getattr(a, name) for name in INPUTS}
            before = {name: tensor.clone() for name, tensor in given.items()}
            with torch.no_grad():  # else torch itself refuses some of it
                _outputs(encoding, a)
            changed = [name for name in INPUTS if not torch.equal(given[name], before[name])]
            require(
                not changed,
                f"a call changes what it is given: a.{' and a.'.join(changed)} in place; make new "
                "tensors, with a * b for a.mul_(b) and torch.where for an assignment",
            )


def training_and_test_are_the_same(subject: Subject) -> None:
    """`encode` and `embed` may not ask for self.training; `positions` is told by its draw."""
    for encoding in subject.stirred():
        pos = torch.arange(12)[None]
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            trained, tested = (outputs(encoding.train(mode), pos) for mode in (True, False))
        change = difference(trained, tested)
        require(
            change == 0,
            f"in training outputs are others than in a test (by {change:.1e}): what is tested "
            "would not be what was trained; leave self.training out of `encode` and `embed`",
        )


def no_tensor_is_made_on_another_device(subject: Subject) -> None:
    """On a GPU, a tensor that is made on the CPU cannot be mixed with the inputs."""
    for encoding in subject.layers():
        encoding.to("meta")
        a = moved(call(PLACES), "meta")
        try:
            with devices.elsewhere(), torch.no_grad():
                _outputs(encoding, a)
        except (devices.WrongDevice, RuntimeError) as error:
            if not any(word in str(error) for word in ("aten::", "device")):
                raise
            raise Broken(
                "on a GPU it fails, because it mixes a tensor of the CPU with its inputs: make "
                "tensors with device=a.q.device, and keep constants with register_buffer"
            ) from error


def _positions(encoding: PositionEncoding, training: bool) -> tuple[Tensor]:
    draw = Draw(ROWS, torch.Generator().manual_seed(0), training)
    return (encoding.positions(torch.arange(12)[None], draw).double(),)


# -- prefixes and positions ------------------------------------------------------------------------


def no_output_depends_on_a_later_token(subject: Subject) -> None:
    """Changing the tokens from a place on must leave earlier logits as they are, in few tokens and
    in as many as the longest test has.
    """
    model, longest = subject.stirred_model(), subject.longest
    for n, places in ((14, (9,)), (longest, (longest // 3, longest // 2, longest - 1))):
        pos, tokens = torch.arange(n)[None], random_tokens(n)
        with torch.no_grad():
            before = model(tokens, pos)
        for place in places:
            later = tokens.clone()
            later[:, place:] = 8 + (later[:, place:] - 7) % 12
            with torch.no_grad():
                after = model(later, pos)
            change = (before - after)[:, :place].abs().max().item()
            require(
                change < AHEAD,
                f"changing tokens from place {place} of {n} on changes earlier logits by "
                f"{change:.1e}: the encoding lets a query see later keys (a sum over all keys, a "
                "mean over the sequence, a mask that is not causal)",
            )
            require(
                not torch.allclose(before[:, place:], after[:, place:]),
                "the logits do not depend on the tokens at all",
            )


def a_prefix_gives_alone_what_it_gives_within_the_whole(subject: Subject) -> None:
    """If this fails, decoding token by token gives other answers than one pass over the whole."""
    model, longest = subject.stirred_model(), subject.longest
    for n, few in ((14, 9), (longest, longest // 2 + 1)):
        pos, tokens = torch.arange(n)[None], random_tokens(n)
        with torch.no_grad():
            whole, alone = model(tokens, pos), model(tokens[:, :few], pos[:, :few])
        change = (whole[:, :few] - alone).abs().max().item()
        require(
            change < EXACT,
            f"the first {few} tokens alone give other logits than within {n} (by {change:.1e}): "
            "something depends on how many tokens there are, such as a.num_queries, a mean or a "
            "largest position; take what a query can see, or a length from the settings",
        )


def positions_are_taken_as_they_come(subject: Subject) -> None:
    """Positions are given, not counted: they may be stretched, shifted, in any order, and others in
    each row of a batch.
    """
    for encoding in subject.stirred():
        _not_kept_from_an_earlier_call(encoding)
        _of_its_own_row(encoding)
        if not counting.declared(encoding):
            found = counting.found(encoding)
            require(
                not found,
                f"tokens that are alike, at equal positions, are not treated alike: {found}. It "
                "counts places by itself (arange(n), a.offset), or sums over other tokens, and "
                "ignores the positions given: use a.q_pos, a.k_pos and a.distance(rows). A class "
                "that is meant to count tokens, as FoX does, says so: counts_tokens = True",
            )
        _not_rebuilt(encoding)


def _not_kept_from_an_earlier_call(encoding: PositionEncoding) -> None:
    """As many tokens at other positions, and then one token more, which a cache has not seen."""
    a = call(UNUSUAL + 1)
    whole = 2 * torch.arange(UNUSUAL + 1)[None] + 3
    before = slice(0, UNUSUAL)
    _outputs(encoding, _part(a, before).at(*2 * [torch.arange(UNUSUAL)[None]]))
    again = _outputs(encoding, _part(a, before).at(*2 * [whole[:, before]]))
    out, embedded = _outputs(encoding, a.at(whole, whole))
    change = difference(again, (out[..., before, :], embedded[..., before, :]))
    # The same tensor with other numbers in it, which a cache by its id takes for the first.
    if change < EXACT:
        kept = torch.arange(UNUSUAL)[None].clone()
        _outputs(encoding, _part(a, before).at(kept, kept))
        kept.copy_(whole[:, before])
        change = difference(_outputs(encoding, _part(a, before).at(kept, kept)), again)
    require(
        change < EXACT,
        "positions count anew for every call, and here outputs are those of an earlier call with "
        f"as many tokens (off by {change:.1e}): something that depends on positions is kept under "
        "the number of tokens, or the id of a tensor; compute it from positions each time",
    )


def _of_its_own_row(encoding: PositionEncoding) -> None:
    a, n = call(PLACES, batch=ROWS), PLACES
    mixed = torch.tensor([4, 0, 7, 1, 8, 2, 6, 3, 5])
    pos = torch.stack([torch.arange(n), 2 * torch.arange(n) + 3, mixed])
    for given, what, remedy in (
        (
            a,
            "row {} of a batch",
            "something is summed, averaged or looked up over the batch, dimension 0; each row is a "
            "sequence of its own",
        ),
        (
            a.at(pos, pos),
            "with other positions in each row of a batch, row {}",
            "positions are [batch|1, n], so keep their first dimension",
        ),
    ):
        together = _outputs(encoding, given)
        for row in range(ROWS):
            alone = _outputs(encoding, _part(given, batch=slice(row, row + 1)))
            change = difference((together[0][row : row + 1], together[1][row : row + 1]), alone)
            require(
                change < EXACT,
                f"{what.format(row)} gives another result than alone (by {change:.1e}): {remedy}",
            )


def _not_rebuilt(encoding: PositionEncoding) -> None:
    """For tokens that are all alike, what varies from place to place must come from positions, or,
    where an encoding counts tokens, from the content that it counts by.
    """
    even, far = torch.arange(PLACES)[None], 2 * torch.arange(PLACES)[None] + 3
    usual, counted = _traces(encoding, _alike(even, 0, 0)), counting.declared(encoding)
    others = [
        _traces(encoding, call)
        for call in (_alike(far, 0, 0), _alike(even, 1, 0), _alike(even, 0, 1))
    ]
    for index, (kind, trace) in enumerate(usual):
        if not _varies(trace, kind):
            continue
        if kind in ("query", "key") and counted and not _varies(trace[..., -2:, :], kind):
            continue  # a sum over the few tokens before, of which the first ones have fewer
        # Queries and keys that are turned follow their own content, in the same way at each place.
        asked = others if kind == "bias" else others[:2]
        moved = any((other[index][1] - trace).abs().max() > EXACT for other in asked)
        require(
            moved,
            f"for tokens that are all alike the {kind} differs from place to place, and stays as "
            "it is when positions are stretched: it counts places by itself (arange(n), a.offset) "
            "and ignores the positions given; use a.q_pos, a.k_pos and a.distance(rows)",
        )


def _alike(pos: Tensor, x_seed: int, qk_seed: int) -> Attention:
    """A call whose tokens are all the same."""

    def same(seed: int, *shape: int) -> Tensor:
        drawn = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
        return drawn.double()[..., None, :].expand(*shape[:-1], PLACES, shape[-1])

    q, k = (same(2 + 2 * qk_seed + index, 1, HEADS, WIDTH) for index in range(2))
    x, v = same(10 + x_seed, 1, HEADS * WIDTH), same(20, 1, HEADS, WIDTH)
    segments = torch.zeros(1, PLACES, dtype=torch.long)
    return Attention(q, k, v, x, pos, pos, scale=WIDTH**-0.5, segments=segments)


def _traces(encoding: PositionEncoding, a: Attention) -> list[tuple[str, Tensor]]:
    """The terms that an encoding adds to embeddings and scores, and its queries and keys."""
    rows = slice(0, PLACES)
    found = [("embedding", (encoding.embed(a.x, a.q_pos) - a.x).detach())]
    for leaf in before_training.leaves(encoding.encode(a)):
        bias = leaf.bias(rows)
        if bias is not None:
            hidden = torch.ones(PLACES, PLACES, dtype=torch.bool).triu(1)
            found.append(("bias", bias.detach().double().masked_fill(hidden, 0)))
        found += [("query", leaf.q.detach()), ("key", leaf.k.detach())]
    return found


def _varies(trace: Tensor, kind: str) -> bool:
    if kind != "bias":
        return bool((trace - trace[..., :1, :]).abs().max() > EXACT)
    seen = torch.ones(PLACES, PLACES, dtype=torch.bool).tril()
    values = trace[..., seen] if trace.shape[-2:] == seen.shape else trace.flatten(-2)
    values = values.nan_to_num(neginf=-1e9)
    return bool((values - values[..., :1]).abs().max() > EXACT)


def _part(a: Attention, places: slice = slice(None), batch: slice = slice(None)) -> Attention:
    """Some of the tokens, or some rows of the batch."""
    inputs = {name: getattr(a, name)[batch, :, places] for name in ("q", "k", "v")}
    pos = {
        name: getattr(a, name)[batch if len(getattr(a, name)) > 1 else slice(None), places]
        for name in ("q_pos", "k_pos", "segments")
    }
    return replace(a, **inputs, **pos, x=a.x[batch, places])


def _outputs(encoding: PositionEncoding, a: Attention) -> Outputs:
    return encoding.embed(a.x, a.q_pos), dense(encoding.encode(a))


# -- precision -------------------------------------------------------------------------------------


def mixed_precision_runs(subject: Subject) -> None:
    """Under autocast queries, keys and values are bfloat16, and the layer input and all parameters
    float32.
    """
    for encoding in subject.layers():
        encoding.float()
        given = call(12, dtype=torch.float32)
        halves = {name: getattr(given, name).bfloat16() for name in ("q", "k", "v")}
        a = replace(given, **halves)
        try:
            with torch.autocast("cpu", torch.bfloat16):
                embedded, out = encoding.embed(a.x, a.q_pos), attend(encoding.encode(a))
                if embedded.requires_grad or out.requires_grad:
                    (embedded.float().sum() + out.float().sum()).backward()
        except RuntimeError as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise Broken(
                f"in mixed precision it fails ({reason}): queries, keys and values are bfloat16 "
                "there, a.x and the parameters float32; compute in float32 and cast what meets a "
                "query with .to(a.q.dtype)"
            ) from error
        require(
            out.dtype == torch.bfloat16 and embedded.dtype == torch.float32,
            f"in mixed precision embeddings are {embedded.dtype} and outputs {out.dtype}: keep the "
            "precision of x and of the values",
        )
        require(
            bool(torch.isfinite(out).all()) and bool(torch.isfinite(embedded).all()),
            "in mixed precision some outputs are infinite or not a number",
        )
