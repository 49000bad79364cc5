"""A W&B workspace and report of runs, as code."""
