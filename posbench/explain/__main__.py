import sys

from posbench.explain.command import main

sys.exit(main())
