"""`python -m posbench.export`: see `posbench.pretrained.export`."""

import sys

from posbench.pretrained.export import main

if __name__ == "__main__":
    sys.exit(main())
