"""`python -m posbench.catalogue` is `posbench explain` now, for one release."""

import sys

from posbench.explain.catalogue import main

if __name__ == "__main__":
    sys.exit(main())
