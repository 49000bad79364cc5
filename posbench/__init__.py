"""posbench: benchmarks position encodings of transformers, and how far their extensions reach."""

__version__ = "0.1.0"
