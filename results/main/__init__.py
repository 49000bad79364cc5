"""The records of the main board, which an installation holds as posbench.published."""
