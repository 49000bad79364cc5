"""`python -m posbench.dashboard` is `posbench records dashboard` now, for one release."""

from posbench.cli import renamed

if __name__ == "__main__":
    renamed("dashboard", "records dashboard")
