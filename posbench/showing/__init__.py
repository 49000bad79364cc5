"""What pages are made of: numbers, tables, figures, docstrings. No torch here."""
