"""`python -m posbench.explain`: see `posbench.explaining.command`."""

import sys

from posbench.explaining.command import main

if __name__ == "__main__":
    sys.exit(main())
