"""`python -m posbench.dashboard` is `posbench records dashboard` now, for one release."""

import sys

from posbench.sharing.dashboard import main

if __name__ == "__main__":
    sys.exit(main())
