"""What was decided before the board ran, by rules written down first."""
