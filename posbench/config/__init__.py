"""From a command line to names, hashes and objects: through Hydra, without torch."""
