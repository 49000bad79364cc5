import sys

from posbench.catalogue.page import main

sys.exit(main())
