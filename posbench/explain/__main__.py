from posbench.cli import renamed

renamed("explain", "explain")
