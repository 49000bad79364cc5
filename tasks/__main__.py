"""`python -m posbench.tasks`: the command is in a room above, so it is found by its name alone."""

import sys
from importlib import import_module

sys.exit(import_module("posbench.explain.samples").main())
