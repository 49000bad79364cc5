"""Dashboards: what is told of a run, and the libraries that it is told to."""
