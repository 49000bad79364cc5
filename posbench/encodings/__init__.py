"""Position encodings, a family a file.

None and absolute: `nope`, `absolute`. Functions of the distance: `bias` (ALiBi, T5),
`learned_alibi`, `kerple`, `fire`, `dynamic_bias`, `sandwich`, `tupe`. Relative vectors: `shaw`,
`transformer_xl` (XLNet, TENER), `deberta`, `relative_projection`. Rotary: `rotary`,
`partial_rotary`, `xpos`, `polar`, `learned_rotary`, `fourier_rotary`, `rotated_values`. Dependent
on content: `contextual` (CoPE), `forget` (FoX, CABLE, per-row), `grape`, `path`,
`selective_rotary`, `stick_breaking`, `dape`. Heads and windows: `hard_alibi`, `head_split` (NAPE),
`window`. Around a host: `temperature`, `scale_invariant`, `sink`, `sampled` (drawn positions),
`supplied` (ids of the task).
"""
