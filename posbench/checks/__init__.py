"""Whether encodings, extensions and tasks keep their promises."""
