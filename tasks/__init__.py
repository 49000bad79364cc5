"""Synthetic tasks, one per file, installed as `posbench.tasks`. YAMLs in conf/task choose them."""
