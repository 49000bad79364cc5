"""`python -m posbench.leaderboard` is `posbench board` now, for one release."""

import sys

from posbench.boards.command import main

if __name__ == "__main__":
    sys.exit(main())
