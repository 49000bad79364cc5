"""What a run tells W&B, or a logger of Lightning."""
