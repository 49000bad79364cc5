import sys

from posbench.leaderboard.board import main

sys.exit(main())
