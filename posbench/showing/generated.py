"""The command line of a page, by the names that `posbench.claims` knows."""

from __future__ import annotations

import functools

from posbench import commands
from posbench.commands import written as written

parser = functools.partial(commands.parser, check=True)
