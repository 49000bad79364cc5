"""`python -m posbench.compare` is `posbench compare` now, for one release."""

import sys

from posbench.boards.compare.command import main

if __name__ == "__main__":
    sys.exit(main())
