from posbench.cli import renamed

renamed("tasks", "tasks")
