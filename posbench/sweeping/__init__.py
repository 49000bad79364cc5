"""Sweeps: many runs, planned before anything starts, made by any of Hydra's launchers, and seen."""
