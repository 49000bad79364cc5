r"""Extensions, one a file, which has the name of its YAML in conf/extension.

The other files are what several share. Of frequencies: `unscaled`, `turns`, `share_of_pairs`,
`mrrope`. Of distances: `regions`, `distances`. `temperature`, `mask` and `combined_rows` (of
tables) are the base of theirs. `finetuned` and `tuned` go around another extension, further
training and settings from a search, and make many YAMLs.

Formulas say m = 0..K-1 for the frequencies, the fastest first, $\theta'_m = \theta_m/\lambda_m$ for
what becomes of each, s for the factor of extension, L for the positions seen in training and L' for
those of the test.
"""
