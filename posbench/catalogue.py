"""`python -m posbench.catalogue` is `posbench explain catalogue` now, for one release."""

from posbench.cli import renamed

if __name__ == "__main__":
    renamed("catalogue", "explain catalogue")
