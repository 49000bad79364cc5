"""`python -m posbench.claims`: see `posbench.leaderboard.claims`."""

import sys

from posbench.leaderboard.claims import main

if __name__ == "__main__":
    sys.exit(main())
