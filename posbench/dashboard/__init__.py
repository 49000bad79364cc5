"""The W&B pages of a project, as code."""
