import sys

from posbench.leaderboard.command import main

sys.exit(main())
