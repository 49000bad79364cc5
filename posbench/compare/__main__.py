import sys

from posbench.compare.command import main

sys.exit(main())
