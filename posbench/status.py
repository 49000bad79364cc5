"""`python -m posbench.status` is `posbench status` now, for one release."""

from posbench.cli import renamed

if __name__ == "__main__":
    renamed("status", "status")
