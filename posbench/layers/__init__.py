"""What a layer of the transformer may have beside its encoding; a method may choose it."""
