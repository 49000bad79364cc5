"""What papers claim, and what the records say of it."""
