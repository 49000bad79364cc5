"""What a run tells W&B, TensorBoard or trackio."""
