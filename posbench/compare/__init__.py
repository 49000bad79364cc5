"""One method of one's own, held against all that a board has published."""
