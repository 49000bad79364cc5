from posbench.cli import renamed

renamed("check", "check")
