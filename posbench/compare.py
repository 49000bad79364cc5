"""`python -m posbench.compare` is `posbench compare` now, for one release."""

from posbench.cli import renamed

if __name__ == "__main__":
    renamed("compare", "compare")
