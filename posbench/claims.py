"""`python -m posbench.claims` is `posbench board claims` now, for one release."""

from posbench.cli import renamed

if __name__ == "__main__":
    renamed("claims", "board claims")
