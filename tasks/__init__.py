"""Synthetic tasks, one a file; installed as `posbench.tasks`. A task is chosen by its YAML in
conf/task.
"""
