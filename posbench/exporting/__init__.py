"""Results for others: a data set and a static site."""
