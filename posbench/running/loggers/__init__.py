"""What a run tells W&B or TensorBoard."""
