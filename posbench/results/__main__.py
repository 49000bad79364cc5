import sys

from posbench.results.command import main

sys.exit(main())
