"""`python -m posbench.export` is `posbench pretrained export` now, for one release."""

import sys

from posbench.pretrained.export import main

if __name__ == "__main__":
    sys.exit(main())
