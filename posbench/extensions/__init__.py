"""Extensions, a family a file.

Frequencies: `frequency` (PI, NTK, YaRN), `ntk`, `by_parts`, `mixed_radix`, `longrope`,
`base_change`, `giraffe`, `resonance`, `low_frequencies`; `unscaled` is what some share. Distances:
`regions` (what they share), `distances`. `temperature`, `mask`, `table` (learned rows). `sequence`
puts two together; `finetuned` and `tuned` go around another: further training, and settings from a
search. `direct` changes nothing.
"""
