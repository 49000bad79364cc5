"""`python -m posbench.claims` is `posbench board --claims` now, for one release."""

import sys

from posbench.boards.claims.page import main

if __name__ == "__main__":
    sys.exit(main())
