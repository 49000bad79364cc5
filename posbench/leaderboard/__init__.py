"""What the records say: tables, pages and verdicts. Nothing here imports torch."""
