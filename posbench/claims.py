"""`python -m posbench.claims`: see `posbench.leaderboard.claims_page`."""

import sys

from posbench.leaderboard.claims_page import main

if __name__ == "__main__":
    sys.exit(main())
