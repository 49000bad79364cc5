"""`python -m posbench.leaderboard` is `posbench board` now, for one release."""

from posbench.cli import renamed

if __name__ == "__main__":
    renamed("leaderboard", "board")
