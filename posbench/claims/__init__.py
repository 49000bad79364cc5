"""What papers say, stated before the runs and held against records. No torch here."""
