"""Turns records into tables, pages and verdicts. Nothing here imports torch."""
