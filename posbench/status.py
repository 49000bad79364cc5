"""`python -m posbench.status` is `posbench status` now, for one release."""

import sys

from posbench.sweeping.status import main

if __name__ == "__main__":
    sys.exit(main())
