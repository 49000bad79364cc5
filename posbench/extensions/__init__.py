"""Extensions, a family a file.

Frequencies: `frequency` (PI, NTK, YaRN), `ntk`, `by_parts`, `mixed_radix`, `longrope`, `base_change`, `giraffe`,
`resonance`, `low_frequencies`; `scaled` and `unscaled` are what others share. Distances: `regions` (what they share),
`distances`. `temperature`, `mask`, `table` (learned rows). `sequence` puts two together; `direct` changes nothing.
"""
