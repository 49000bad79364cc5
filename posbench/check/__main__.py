import sys

from posbench.check.command import main

sys.exit(main())
