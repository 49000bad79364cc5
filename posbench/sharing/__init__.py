"""Records for others: publish, verify, bundle, accept, export, upload, dashboard, zoo."""
