"""`python -m posbench.check`: see `posbench.catalogue.check`."""

import sys

from posbench.catalogue.check import main

if __name__ == "__main__":
    sys.exit(main())
