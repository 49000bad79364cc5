"""Position encodings, one a file, which has the name of its YAML in conf/encoding.

The other files are what several share. Of drawn and supplied positions: `sampled`, `supplied_ids`.
Of rotations: `rotation`, `partial_rotation`. Of sinusoids of the distance: `relative_sinusoids`. Of
learned numbers: `kerple`, `bounded`.
"""
