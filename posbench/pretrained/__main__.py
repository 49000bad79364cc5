import sys

from posbench.pretrained.command import main

if __name__ == "__main__":
    sys.exit(main())
