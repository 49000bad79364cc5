"""Results for others: a data set, a static site, W&B runs."""
