"""Wrong encodings, extensions and tasks, each with one real mistake, as people make them."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path

HEAD = {
    "encoding": """
        from dataclasses import replace

        import torch
        from torch import nn

        from posbench.core.encoding import PositionEncoding
        from posbench.core.frequencies import Frequencies


        """,
    "extension": """
        import torch
        from torch import nn

        from posbench.core.encoding import PositionEncoding
        from posbench.core.extension import Extension, FrequencyExtension, Scaled


        """,
    "task": """
        import numpy as np

        from posbench.core.task import FIRST_SYMBOL, Task, assemble


        """,
}
ALIBI = "return a.plus(lambda rows: -0.1 * a.distance(rows)[:, None].to(a.q.dtype).clamp(min=0))"


@dataclass(frozen=True)
class Wrong:
    """A class with a mistake: what it is, its code, its settings, and words of what is said."""

    what: str
    code: str
    said: str
    settings: str = ""
    kind: str = "encoding"

    @property
    def name(self) -> str:
        return self.code.split("class ", 1)[1].split("(", 1)[0]

    def write(self, folder: Path) -> Path:
        """The module and the YAML below a folder; returns the YAML."""
        stem = self.name.lower()
        text = textwrap.dedent(HEAD[self.kind]).lstrip() + textwrap.dedent(self.code).lstrip("\n")
        (folder / f"wrong_{stem}.py").write_text(text)
        target = f"_target_: wrong_{stem}.{self.name}\n{textwrap.dedent(self.settings)}"
        if self.kind == "task":
            lengths = "training:\n  min_length: 1\n  max_length: 20\n  steps: 10\n"
            target = "# @package _global_\ntask:\n" + textwrap.indent(target, "  ") + lengths
        path = folder / self.kind / f"{stem}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(target)
        return path


ENCODINGS = [
    Wrong(
        "bias divided by the number of queries",
        """
        class Averaged(PositionEncoding):
            def encode(self, a):
                return a.plus(
                    lambda rows: -a.distance(rows)[:, None].to(a.q.dtype) / a.num_queries
                )
        """,
        "the first 9 tokens alone give other logits than within 14",
    ),
    Wrong(
        "positions counted by arange",
        """
        class Counting(PositionEncoding):
            def encode(self, a):
                i = torch.arange(a.num_queries)

                def bias(rows):
                    return -0.1 * (i[rows, None] - i).clamp(min=0).to(a.q.dtype)[None, None]

                return a.plus(bias)
        """,
        "counts places by itself",
    ),
    Wrong(
        "queries and keys turned by arange",
        """
        class Turning(PositionEncoding):
            def encode(self, a):
                angle = torch.arange(a.num_queries)[:, None] * 0.3

                def turned(t):
                    x, y = t.chunk(2, -1)
                    cos, sin = angle.cos().to(t), angle.sin().to(t)
                    return torch.cat((x * cos - y * sin, x * sin + y * cos), -1)

                return replace(a, q=turned(a.q), k=turned(a.k))
        """,
        "counts places by itself",
    ),
    Wrong(
        "embeddings with a row for each place",
        """
        class Placed(PositionEncoding):
            relative = False

            def embed(self, x, pos):
                return x + (torch.arange(x.shape[1])[:, None] * 0.3).sin().to(x)
        """,
        "counts places by itself",
    ),
    Wrong(
        "a cache of the class, by the number of tokens",
        """
        class Keeping(PositionEncoding):
            kept = {}

            def encode(self, a):
                if a.num_queries not in self.kept:
                    whole = a.distance(slice(0, a.num_queries))[:, None]
                    self.kept[a.num_queries] = whole.clamp(min=0)
                return a.plus(
                    lambda rows: -0.1 * self.kept[a.num_queries][..., rows, :].to(a.q.dtype)
                )
        """,
        "kept under the number of tokens",
    ),
    Wrong(
        "the positions of the first row for the whole batch",
        """
        class FirstRow(PositionEncoding):
            def encode(self, a):
                pos = a.q_pos[0]

                def bias(rows):
                    distance = pos[rows, None] - pos
                    return -0.1 * distance.clamp(min=0).to(a.q.dtype)[None, None]

                return a.plus(bias)
        """,
        "with other positions in each row of a batch, row 1 gives another result",
    ),
    Wrong(
        "a term without a dimension for heads",
        """
        class Flat(PositionEncoding):
            def encode(self, a):
                return a.plus(lambda rows: -0.1 * a.distance(rows).to(a.q.dtype).clamp(min=0))
        """,
        "a term returns [1, 9, 9] for 9 rows",
    ),
    Wrong(
        "a bias that is no function of rows",
        """
        class Whole(PositionEncoding):
            def encode(self, a):
                return a.plus(-0.1 * a.distance(slice(0, a.num_queries)).abs().to(a.q.dtype))
        """,
        "a term is a Tensor: give plus a function of rows",
    ),
    Wrong(
        "weights of heads along the keys",
        """
        class Sideways(PositionEncoding):
            def __init__(self):
                super().__init__()
                self.slopes = nn.Parameter(torch.ones(2))

            def encode(self, a):
                return a.plus(lambda rows: -self.slopes * a.distance(rows).clamp(min=0))
        """,
        "a weight for each head is weight[:, None, None]",
    ),
    Wrong(
        "a constructor that does not call that of its class",
        f"""
        class Unbegun(PositionEncoding):
            def __init__(self):
                self.strength = 0.1

            def encode(self, a):
                {ALIBI}
        """,
        "call super().__init__() first",
    ),
    Wrong(
        "a misspelt handle",
        f"""
        class Misspelt(PositionEncoding):
            handles = PositionEncoding.handles | {{"positons"}}

            def encode(self, a):
                {ALIBI}
        """,
        "did you mean 'positions'?",
    ),
    Wrong(
        "a handle without its attribute",
        f"""
        class Hollow(PositionEncoding):
            handles = PositionEncoding.handles | {{"frequencies"}}

            def encode(self, a):
                {ALIBI}
        """,
        "self.frequencies is NoneType",
    ),
    Wrong(
        "a handle without an effect",
        f"""
        class Boasting(PositionEncoding):
            handles = PositionEncoding.handles | {{"frequencies"}}

            def __init__(self):
                super().__init__()
                self.frequencies = Frequencies(8)

            def encode(self, a):
                {ALIBI}
        """,
        "an offered handle must have an effect",
    ),
    Wrong(
        "noise drawn in each call",
        """
        class Noisy(PositionEncoding):
            def encode(self, a):
                return replace(a, q=a.q + 0.01 * torch.randn_like(a.q))
        """,
        "two equal calls give different results",
    ),
    Wrong(
        "a counter of calls",
        """
        class Telling(PositionEncoding):
            calls = 0

            def encode(self, a):
                self.calls += 1
                return replace(a, q=a.q * self.calls)
        """,
        "two equal calls give different results",
    ),
    Wrong(
        "encode returns nothing",
        """
        class Silent(PositionEncoding):
            def encode(self, a):
                a.plus(lambda rows: -a.distance(rows)[:, None])
        """,
        "encode returns None: return an Attention",
    ),
    Wrong(
        "encode returns the bias",
        """
        class Bare(PositionEncoding):
            def encode(self, a):
                return -a.distance(slice(0, a.num_queries))[:, None].to(a.q.dtype)
        """,
        "encode returns [1, 1, 9, 9]: return an Attention",
    ),
    Wrong(
        "another number of heads",
        """
        class Headed(PositionEncoding):
            def __init__(self):
                super().__init__()
                self.slopes = nn.Parameter(torch.ones(5, 1, 1))

            def encode(self, a):
                return a.plus(
                    lambda rows: -self.slopes * a.distance(rows)[:, None].clamp(min=0).to(a.q.dtype)
                )
        """,
        "a term returns [1, 5, 9, 9]",
    ),
    Wrong(
        "a mask of numbers",
        """
        class Numbered(PositionEncoding):
            def encode(self, a):
                return a.where(lambda rows: (a.distance(rows) < 8)[:, None].float())
        """,
        "a mask returns torch.float32",
    ),
    Wrong(
        "a table without max_positions",
        """
        class Tabled(PositionEncoding):
            relative = float_positions = False

            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(512, 32)

            def embed(self, x, pos):
                return x + self.table(pos)
        """,
        "declare the number of rows that there are",
    ),
    Wrong(
        "parameters that meet queries in another precision",
        """
        class Careless(PositionEncoding):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.eye(16))

            def encode(self, a):
                return replace(a, q=a.q @ self.weight)
        """,
        "queries may be bfloat16",
    ),
    Wrong(
        "a product that autocast does not cast",
        """
        class Stubborn(PositionEncoding):
            def encode(self, a):
                with torch.autocast("cpu", enabled=False):
                    return replace(a, q=a.q @ torch.eye(a.q.shape[-1], dtype=a.x.dtype))
        """,
        "in mixed precision it fails",
    ),
    Wrong(
        "a mean over the whole sequence",
        """
        class Prophet(PositionEncoding):
            def embed(self, x, pos):
                return x + x.mean(1, keepdim=True)
        """,
        "lets a query see later keys",
    ),
    Wrong(
        "the next token in each value, in sequences as long as those of training",
        """
        class Leaky(PositionEncoding):
            def encode(self, a):
                if a.v.shape[2] < 32:
                    return a
                return replace(a, v=a.v + torch.cat((a.v[:, :, 1:], a.v[:, :, -1:]), 2))
        """,
        "lets a query see later keys",
    ),
    Wrong(
        "a mean over blocks of 32 tokens",
        """
        class Chunked(PositionEncoding):
            def encode(self, a):
                q = a.q.clone()
                for start in range(0, a.q.shape[2] - 31, 32):
                    block = a.q[:, :, start : start + 32]
                    q[:, :, start : start + 32] = block + block.mean(2, keepdim=True)
                return replace(a, q=q)
        """,
        "lets a query see later keys",
    ),
    Wrong(
        "a logarithm that is not defined beyond a distance of 61",
        """
        class Late(PositionEncoding):
            def encode(self, a):
                return a.plus(
                    lambda rows: (61 - a.distance(rows).double()).log().to(a.q.dtype)[:, None]
                )
        """,
        "from position 62 on some outputs are infinite or not a number",
    ),
    Wrong(
        "parameters in a plain list",
        """
        class Listed(PositionEncoding):
            def __init__(self):
                super().__init__()
                self.slopes = [nn.Parameter(torch.ones(()))]

            def encode(self, a):
                far = lambda rows: a.distance(rows).clamp(min=0).to(a.q.dtype)[:, None]
                return a.plus(lambda rows: -self.slopes[0].to(a.q.dtype) * far(rows))
        """,
        "keeps parameters in self.slopes, where torch does not find them",
    ),
    Wrong(
        "a root at zero, whose gradient is infinite",
        """
        class RootAtZero(PositionEncoding):
            def __init__(self):
                super().__init__()
                self.slope = nn.Parameter(torch.ones(()))

            def encode(self, a):
                far = lambda rows: a.distance(rows).clamp(min=0).to(a.q.dtype)[:, None]
                return a.plus(lambda rows: -(self.slope * far(rows)).sqrt().to(a.q.dtype))
        """,
        "gets a gradient that is infinite or not a number",
    ),
    Wrong(
        "a slope kept from the first test",
        """
        class Stale(PositionEncoding):
            def __init__(self):
                super().__init__()
                self.slope = nn.Parameter(torch.ones(()))
                self.kept = None

            def encode(self, a):
                slope = self.slope
                if not self.training:
                    self.kept = slope = slope.detach().clone() if self.kept is None else self.kept
                far = lambda rows: a.distance(rows).clamp(min=0).to(a.q.dtype)[:, None]
                return a.plus(lambda rows: -slope.to(a.q.dtype) * far(rows))
        """,
        "kept from an earlier call",
    ),
    Wrong(
        "positions measured in the largest of the call",
        """
        class Relative(PositionEncoding):
            def encode(self, a):
                return a.plus(
                    lambda rows: -(a.distance(rows) / a.k_pos.max().clamp(min=1))[:, None]
                    .clamp(min=0)
                    .to(a.q.dtype)
                )
        """,
        "the first 9 tokens alone give other logits",
    ),
    Wrong(
        "a logarithm of zero",
        """
        class Logarithm(PositionEncoding):
            def encode(self, a):
                return a.plus(lambda rows: -a.distance(rows)[:, None].to(a.q.dtype).log())
        """,
        "infinite or not a number",
    ),
    Wrong(
        "an absolute encoding declared relative",
        """
        class Absolute(PositionEncoding):
            def embed(self, x, pos):
                return x + (pos[..., None] * torch.arange(x.shape[-1])).to(x.dtype).sin()
        """,
        "declare relative = False",
    ),
    Wrong(
        "a parameter that is not used",
        f"""
        class Idle(PositionEncoding):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.zeros(3))

            def encode(self, a):
                {ALIBI}
        """,
        "weight gets no gradient",
    ),
    Wrong(
        "a setting that is not used",
        f"""
        class Deaf(PositionEncoding):
            def __init__(self, strength):
                super().__init__()

            def encode(self, a):
                {ALIBI}
        """,
        "encoding.strength=2 can be doubled and no output changes",
        "strength: 2",
    ),
    Wrong(
        "slopes drawn by numpy",
        """
        class Dicing(PositionEncoding):
            def __init__(self):
                super().__init__()
                import numpy as np

                self.slope = nn.Parameter(torch.tensor(np.random.default_rng().random()))

            def encode(self, a):
                return a.plus(
                    lambda rows: -self.slope.to(a.q) * a.distance(rows)[:, None].clamp(min=0)
                )
        """,
        "is drawn anew each time",
    ),
    Wrong(
        "a plain module",
        """
        class Plain(nn.Module):
            def encode(self, a):
                return a
        """,
        "must subclass posbench.encoding.PositionEncoding",
    ),
    Wrong(
        "a mistake in the code of encode",
        """
        class Typo(PositionEncoding):
            def encode(self, a):
                return a.plus(lambda rows: -a.distanse(rows)[:, None])
        """,
        "AttributeError in",
    ),
    Wrong(
        "places counted, times a gate of the layer input",
        """
        class Gated(PositionEncoding):
            def __init__(self):
                super().__init__()
                self.gate = nn.Linear(32, 2)

            def encode(self, a):
                gate, i = self.gate(a.x).sigmoid().mT[..., None], torch.arange(a.num_queries)
                return a.plus(
                    lambda rows: -gate[..., rows, :] * (i[rows, None] - i).clamp(min=0)
                )
        """,
        "the score of query",
    ),
    Wrong(
        "places counted, times a gate of queries and keys",
        """
        class Asking(PositionEncoding):
            def encode(self, a):
                i = torch.arange(a.num_queries)

                def bias(rows):
                    gate = (a.q[..., rows, :] @ a.k.mT).sigmoid()
                    return -gate * (i[rows, None] - i).clamp(min=0)

                return a.plus(bias)
        """,
        "the score of query",
    ),
    Wrong(
        "places counted, times what two tokens differ by",
        """
        class Unlike(PositionEncoding):
            def encode(self, a):
                i, level = torch.arange(a.num_queries), a.x.mean(-1)

                def bias(rows):
                    gate = level[:, rows, None] - level[:, None]
                    return (gate * (i[rows, None] - i).clamp(min=0))[:, None].to(a.q.dtype)

                return a.plus(bias)
        """,
        "the score of query",
    ),
    Wrong(
        "places counted, times a parameter that begins at zero",
        """
        class Learning(PositionEncoding):
            def __init__(self):
                super().__init__()
                self.gate = nn.Parameter(torch.zeros(2, 1, 1))

            def encode(self, a):
                return a.plus(lambda rows: -self.gate * a.offset(rows).clamp(min=0)[None, None])
        """,
        "the score of query",
    ),
    Wrong(
        "a normaliser that counts places",
        """
        class Fading(PositionEncoding):
            def encode(self, a):
                def normalise(logits, allowed):
                    late = 0.01 * torch.arange(logits.shape[-1]).to(logits)
                    return (logits + late).masked_fill(~allowed, -torch.inf).softmax(-1)

                return replace(a, normalise=normalise)
        """,
        "the weight of equal scores of query",
    ),
    Wrong(
        "queries and keys turned by arange, times a gate",
        """
        class Spinning(PositionEncoding):
            def encode(self, a):
                gate = a.x.mean(-1).sigmoid()[:, None, :, None]
                angle = torch.arange(a.num_queries)[:, None] * gate

                def turned(t):
                    x, y = t.chunk(2, -1)
                    cos, sin = angle.cos().to(t), angle.sin().to(t)
                    return torch.cat((x * cos - y * sin, x * sin + y * cos), -1)

                return replace(a, q=turned(a.q), k=turned(a.k))
        """,
        "the query differs between the places",
    ),
    Wrong(
        "a window of places",
        """
        class Window(PositionEncoding):
            def encode(self, a):
                i = torch.arange(a.num_queries)
                return a.where(lambda rows: ((i[rows, None] - i) < 5)[None, None])
        """,
        "the mask of query",
    ),
    Wrong(
        "places counted from the first position",
        """
        class Starting(PositionEncoding):
            relative = False

            def embed(self, x, pos):
                pos = pos[:, :1] + torch.arange(x.shape[1])
                return x + (pos[..., None] * torch.arange(x.shape[-1])).sin().to(x)
        """,
        "the embedding differs between the places",
    ),
    Wrong(
        "places counted between the first and the last position",
        """
        class Between(PositionEncoding):
            def encode(self, a):
                n = a.num_queries
                step = (a.q_pos[:, -1:] - a.q_pos[:, :1]).double() / max(n - 1, 1)
                place = a.q_pos[:, :1] + step * torch.arange(n)

                def bias(rows):
                    distance = place[:, rows, None] - place[:, None]
                    return -0.1 * distance.clamp(min=0)[:, None].to(a.q.dtype)

                return a.plus(bias)
        """,
        "the score of query",
    ),
    Wrong(
        "a bias of every other key",
        """
        class Odd(PositionEncoding):
            def encode(self, a):
                odd = torch.arange(a.num_queries) % 2
                return a.plus(lambda rows: (a.distance(rows) * odd)[:, None].to(a.q.dtype))
        """,
        "the score of query",
    ),
    Wrong(
        "values that are scaled by place",
        """
        class Scaling(PositionEncoding):
            def encode(self, a):
                places = torch.arange(1, a.num_queries + 1)[:, None]
                return replace(a, v=a.v / places.to(a.v))
        """,
        "the value differs between the places",
    ),
    Wrong(
        "positions that are none of the ids",
        """
        class Renumbered(PositionEncoding):
            def positions(self, ids, draw):
                return torch.arange(ids.shape[1])[None]
        """,
        "what `positions` gives differs between the places",
    ),
    Wrong(
        "a declaration that it counts tokens, and it does not",
        f"""
        class Counted(PositionEncoding):
            counts_tokens = True

            def encode(self, a):
                {ALIBI}
        """,
        "`counts_tokens` is declared True, and tokens that are alike",
    ),
    Wrong(
        "places counted under the declaration, which no content moves",
        """
        class Excused(PositionEncoding):
            counts_tokens = True

            def encode(self, a):
                return a.plus(
                    lambda rows: -0.1 * a.offset(rows).clamp(min=0)[None, None].to(a.q.dtype)
                )
        """,
        "stays as it is when positions are stretched",
    ),
    Wrong(
        "queries and keys scaled by places that it counts, under the declaration",
        """
        class Swelling(PositionEncoding):
            counts_tokens = True

            def encode(self, a):
                places = torch.arange(a.num_queries, device=a.q.device).to(a.q.dtype)
                growth = (0.1 * places)[:, None].exp()
                return replace(a, q=a.q * growth, k=a.k * growth)
        """,
        "stays as it is when positions are stretched",
    ),
    Wrong(
        "embeddings changed in place",
        """
        class Overwriting(PositionEncoding):
            relative = False

            def embed(self, x, pos):
                x += (pos[..., None] * torch.arange(x.shape[-1])).sin().to(x)
                return x
        """,
        "a call changes what it is given: a.x in place",
    ),
    Wrong(
        "positions changed in place",
        """
        class Moving(PositionEncoding):
            def encode(self, a):
                pos = a.q_pos
                pos -= pos[:, :1].clone()
                return a.at(pos, pos).plus(
                    lambda rows: -0.1 * (pos[:, rows, None] - pos[:, None])[:, None].to(a.q.dtype)
                )
        """,
        "a.q_pos and a.k_pos in place",
    ),
    Wrong(
        "a mean over the batch",
        """
        class Centred(PositionEncoding):
            def embed(self, x, pos):
                return x - x.mean(0, keepdim=True)
        """,
        "over the batch, dimension 0",
    ),
    Wrong(
        "the global generator seeded",
        f"""
        class Seeding(PositionEncoding):
            def encode(self, a):
                torch.manual_seed(0)
                {ALIBI}
        """,
        "a call changes the state of torch's global generator",
    ),
    Wrong(
        "another encoding in training",
        """
        class Switching(PositionEncoding):
            def encode(self, a):
                steep = 0.2 if self.training else 0.1
                return a.plus(
                    lambda rows: -steep * a.distance(rows)[:, None].to(a.q.dtype).clamp(min=0)
                )
        """,
        "in training outputs are others than in a test",
    ),
    Wrong(
        "a spread over all places of the layer input",
        """
        class Spread(PositionEncoding):
            def encode(self, a):
                spread = a.x.std((1, 2))[:, None, None, None]
                return a.plus(
                    lambda rows: -spread * a.distance(rows)[:, None].clamp(min=0).to(a.q.dtype)
                )
        """,
        "lets a query see later keys",
    ),
    Wrong(
        "embeddings in double precision",
        """
        class Double(PositionEncoding):
            relative = False

            def embed(self, x, pos):
                return x + (pos[..., None].double() * torch.arange(x.shape[-1])).sin()
        """,
        "in mixed precision embeddings are torch.float64",
    ),
    Wrong(
        "slopes on the CPU",
        """
        class Rooted(PositionEncoding):
            def __init__(self):
                super().__init__()
                self.slopes = torch.tensor([0.5, 0.25]).reshape(2, 1, 1)

            def encode(self, a):
                return a.plus(
                    lambda rows: -self.slopes * a.distance(rows)[:, None].clamp(min=0)
                )
        """,
        "make tensors with device=a.q.device",
    ),
    Wrong(
        "a cache by the id of positions",
        """
        class Known(PositionEncoding):
            def __init__(self):
                super().__init__()
                self.known = {}

            def encode(self, a):
                if id(a.q_pos) not in self.known:
                    whole = a.distance(slice(0, a.num_queries))[:, None].clamp(min=0)
                    self.known[id(a.q_pos)] = a.q_pos, whole
                _, whole = self.known[id(a.q_pos)]
                return a.plus(lambda rows: -0.1 * whole[..., rows, :].to(a.q.dtype))
        """,
        "or the id of a tensor",
    ),
    Wrong(
        "the layer input of the call before",
        """
        class Remembering(PositionEncoding):
            before = None

            def encode(self, a):
                now = a.x.detach().mean()
                before, self.before = self.before if self.before is not None else 0 * now, now
                return replace(a, q=a.q * (1 + before).to(a.q.dtype))
        """,
        "two equal calls give different results",
    ),
    Wrong(
        "a cache of what has a gradient",
        """
        class Saving(PositionEncoding):
            def __init__(self):
                super().__init__()
                self.slope, self.saved = nn.Parameter(torch.ones(2, 1, 1)), {}

            def encode(self, a):
                n = a.num_queries
                if n not in self.saved:
                    self.saved[n] = self.slope.exp() * a.distance(slice(0, n))[:, None].clamp(min=0)
                return a.plus(lambda rows: -self.saved[n][..., rows, :])
        """,
        "is kept from an earlier call",
    ),
    Wrong(
        "rows that are counted from the first of a block",
        """
        class RowsForgotten(PositionEncoding):
            def encode(self, a):
                return a.plus(
                    lambda rows: a.distance(slice(0, rows.stop - rows.start))[:, None].double() ** 2
                )
        """,
        "block of rows",
    ),
    Wrong(
        "a bias whose angles have the precision of the queries",
        """
        class Rounded(PositionEncoding):
            def encode(self, a):
                return a.plus(
                    lambda rows: 4 * (a.distance(rows)[:, None].to(a.q.dtype) * 0.7).sin()
                )
        """,
        "form angles, cumulative sums and biases in float32",
    ),
    Wrong(
        "rotations whose angles have the precision of the queries",
        """
        class Hasty(PositionEncoding):
            def encode(self, a):
                from posbench.encodings.rotation import halves, rotate

                theta = 10_000 ** (-torch.arange(8) / 8).to(a.q.dtype)
                angles = a.q_pos.to(a.q.dtype)[..., None] * theta
                tables = angles.double().cos().to(a.q), angles.double().sin().to(a.q)
                turned = {
                    name: rotate(*halves(getattr(a, name)), *(table.float() for table in tables))
                    for name in ("q", "k")
                }
                return replace(a, **{name: t.to(a.q.dtype) for name, t in turned.items()})
        """,
        "what rounding the inputs alone does",
    ),
    Wrong(
        "a bias by the size of a block",
        """
        class BlockCounted(PositionEncoding):
            def encode(self, a):
                return a.plus(
                    lambda rows: a.distance(rows)[:, None].double() * (rows.stop - rows.start) / 29
                )
        """,
        "use `rows` to index queries",
    ),
    Wrong(
        "fractional positions cut to integers",
        """
        class Truncating(PositionEncoding):
            relative = float_positions = False

            def __init__(self):
                super().__init__()
                self.table = nn.Parameter(torch.randn(512, 64))

            def embed(self, x, pos):
                return x + self.table[pos.long() % 512, : x.shape[-1]]
        """,
        "casting to integers hides a mistake",
    ),
    Wrong(
        "a table that clamps positions",
        """
        class Clamping(PositionEncoding):
            relative = float_positions = False
            max_positions = 512

            def __init__(self):
                super().__init__()
                self.table = nn.Parameter(torch.randn(512, 64))

            def embed(self, x, pos):
                return x + self.table[pos.clamp(max=511), : x.shape[-1]]
        """,
        "position 512 gave no IndexError",
    ),
    Wrong(
        "slopes that are no buffer",
        """
        class Forgetful(PositionEncoding):
            def __init__(self, num_heads):
                super().__init__()
                self.slopes = torch.rand(num_heads, 1, 1)

            def encode(self, a):
                return a.plus(
                    lambda rows: -self.slopes.to(a.q) * a.distance(rows)[:, None].clamp(min=0)
                )
        """,
        "neither a parameter nor a buffer",
        "num_heads: ${model.num_heads}",
    ),
    Wrong(
        "embeddings normalised by what they are",
        """
        class Normalising(PositionEncoding):
            def embed(self, x, pos):
                return x / x.std(-1, keepdim=True)
        """,
        "model.embedding_std=0.5 changes no logit",
    ),
]

EXTENSIONS = [
    Wrong(
        "an extension that changes nothing",
        """
        class Resting(Extension):
            def apply(self, encoding, train_positions, test_positions):
                return encoding
        """,
        "this extension changed nothing",
        kind="extension",
    ),
    Wrong(
        "apply returns nothing",
        """
        class Mute(Extension):
            def apply(self, encoding, train_positions, test_positions):
                encoding.variant()
        """,
        "apply returns None",
        kind="extension",
    ),
    Wrong(
        "the base is changed in place",
        """
        class Greedy(Extension):
            needs = "frequencies"

            def apply(self, encoding, train_positions, test_positions):
                stretch = [max(1.0, test_positions / train_positions)] * encoding.frequencies.count
                encoding.frequencies = encoding.frequencies.stretched(tuple(stretch), 1.0)
                return encoding
        """,
        "return encoding.variant(...) instead of setting its attributes",
        kind="extension",
    ),
    Wrong(
        "not the identity that it declares",
        """
        class Restless(FrequencyExtension):
            def stretch(self, frequencies, train_positions, scale):
                return (2.0 * scale,) * frequencies.count
        """,
        "`is_identity` is declared True",
        kind="extension",
    ),
    Wrong(
        "factors of frequencies instead of divisors",
        """
        class Inverse(FrequencyExtension):
            def stretch(self, frequencies, train_positions, scale):
                return (1 / scale,) * frequencies.count
        """,
        "is stretched less at a larger scale",
        kind="extension",
    ),
    Wrong(
        "a handle that nothing offers",
        """
        class Grasping(Extension):
            needs = "frequency"

            def apply(self, encoding, train_positions, test_positions):
                return encoding
        """,
        "did you mean 'frequencies'?",
        kind="extension",
    ),
    Wrong(
        "a policy that is none",
        """
        class Fickle(FrequencyExtension):
            scale_policy = "per length"

            def stretch(self, frequencies, train_positions, scale):
                return (scale,) * frequencies.count
        """,
        "scale_policy is declared 'per length'",
        kind="extension",
    ),
    Wrong(
        "weights of its own",
        """
        class Owning(Extension):
            def apply(self, encoding, train_positions, test_positions):
                return Louder(encoding)


        class Louder(PositionEncoding):
            def __init__(self, host):
                super().__init__()
                self.host, self.weight = host, nn.Parameter(torch.tensor(2.0))

            def encode(self, a):
                return self.host.encode(a.heated(self.weight.to(a.q).reshape(1, 1, 1, 1)))
        """,
        "has weights of its own",
        kind="extension",
    ),
]

BODY = """
    vocab_size = FIRST_SYMBOL + 8

    def sample(self, rng, n, batch_size):
        x = rng.integers(FIRST_SYMBOL, FIRST_SYMBOL + 8, (batch_size, n))
        return assemble(x, x, np.ones_like(x, bool), np.arange(n)[None].repeat(batch_size, 0))

    def total_length(self, n):
        return 2 * n + 3

    def answer_length(self, n):
        return n

    def chance(self, n):
        return 8.0**-n

    def max_distance(self, n):
        return n
"""
RULE = """    \"\"\"The answer is the prompt.

    Examples, n = 2 and n = 3:
        BOS a b SEP a b EOS
        BOS c a a SEP c a a EOS
    \"\"\"
"""


def _copy(what: str, name: str, said: str, old: str = "", new: str = "") -> Wrong:
    """The task of copying, with something in it replaced."""
    text = RULE + BODY
    assert old in text
    code = f"class {name}(Task):\n{text.replace(old, new) if old else text}"
    return Wrong(what, code, said, kind="task")


TASKS = [
    _copy("a total length without EOS", "Short", "expected integers", "2 * n + 3", "2 * n + 2"),
    _copy(
        "an answer length with EOS",
        "Ended",
        "answer_length(1) is 2",
        "return n\n",
        "return n + 1\n",
    ),
    _copy(
        "sources that count from BOS", "Shifted", "source", "np.arange(n)", "np.arange(1, n + 1)"
    ),
    _copy(
        "symbols beyond the vocabulary",
        "Small",
        "vocab_size is 12",
        "vocab_size = FIRST_SYMBOL + 8",
        "vocab_size = 12",
    ),
    _copy("a chance of half", "Lucky", "chance(1) is 0.5", "8.0**-n", "0.5"),
    _copy(
        "a distance that is too long",
        "Far",
        "no source lies farther",
        "distance(self, n):\n        return n",
        "distance(self, n):\n        return 3 * n + 9",
    ),
    _copy(
        "a generator of its own",
        "Private",
        "two batches of one stream differ",
        "x = rng.",
        "x = np.random.default_rng().",
    ),
    _copy(
        "examples of another rule",
        "Reversed",
        "is not what is generated",
        "SEP a b EOS",
        "SEP b a EOS",
    ),
    _copy(
        "a score that divides by zero",
        "Zero",
        "score is nan where all answers of n=1 are right",
        "    def max_distance",
        "    def score(self, batch, answers):\n        return float('nan')\n\n    def max_distance",
    ),
    _copy(
        "a score in percent",
        "Percent",
        "score is 100.0 where all answers of n=1 are right: return a share",
        "    def max_distance",
        "    def score(self, batch, answers):\n        return 100.0 * answers.sequences.mean()\n\n"
        "    def max_distance",
    ),
    _copy(
        "ids that no batch has",
        "Idless",
        "ids declares 'coupled', and a batch of n=1 has none",
        "    vocab_size",
        "    ids = frozenset({'coupled'})\n    vocab_size",
    ),
    _copy(
        "ids of no kind",
        "Cupled",
        "ids has 'cupled', which no encoding asks for",
        "    vocab_size",
        "    ids = frozenset({'cupled'})\n    vocab_size",
    ),
    _copy(
        "a vocabulary of a fractional size",
        "Floating",
        "vocab_size is 16.0",
        "FIRST_SYMBOL + 8\n",
        "FIRST_SYMBOL + 8.0\n",
    ),
    _copy(
        "symbols beyond the vocabulary in the longest test alone",
        "Late",
        "vocab_size is 16",
        "return assemble(x, x,",
        "x[:, :1] += 500 * (n > 50)\n        return assemble(x, x,",
    ),
    _copy("no worked example", "Terse", "two worked examples", "BOS", "so"),
    _copy(
        "an answer that is drawn",
        "Drawn",
        "source",
        "assemble(x, x,",
        "assemble(x, rng.permuted(x, axis=1),",
    ),
]
