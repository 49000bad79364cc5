"""Boards: what is compared, on what and with which seeds, written down before anything runs."""
