"""Panels decided the settings of the board before it ran, by rules written down first."""
