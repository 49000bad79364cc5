"""`python -m posbench.export` is `posbench pretrained export` now, for one release."""

from posbench.cli import renamed

if __name__ == "__main__":
    renamed("export", "pretrained export")
