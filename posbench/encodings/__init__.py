"""Position encodings, a family a file: `nope`, `absolute`, `bias`, `rotary`."""
