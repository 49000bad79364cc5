"""Extensions of trained encodings, a family a file: `direct`, `frequency`."""
