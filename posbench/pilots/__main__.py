"""`python -m posbench.pilots`: see `posbench.pilots.command`."""

import sys

from posbench.pilots.command import main

if __name__ == "__main__":
    sys.exit(main())
