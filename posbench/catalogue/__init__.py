"""A catalogue of all encodings and extensions with their formulas, and the kit to check them."""
