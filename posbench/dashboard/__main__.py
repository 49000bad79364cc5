"""`python -m posbench.dashboard`: see `posbench.dashboard.command`."""

import sys

from posbench.dashboard.command import main

if __name__ == "__main__":
    sys.exit(main())
