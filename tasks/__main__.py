import sys

from posbench.catalogue.samples import main

sys.exit(main())
