import sys

from posbench.claims.page import main

sys.exit(main())
