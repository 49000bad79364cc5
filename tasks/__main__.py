import sys

from posbench.explain.samples import main

sys.exit(main())
