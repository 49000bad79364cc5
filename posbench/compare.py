"""`python -m posbench.compare`: see `posbench.comparing.command`."""

import sys

from posbench.comparing.command import main

if __name__ == "__main__":
    sys.exit(main())
