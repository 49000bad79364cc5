"""Position encodings, a family a file.

`nope`; `absolute` (learned, sinusoidal); `bias` (ALiBi, T5); `kerple`, `fire`, `dynamic_bias`, `sandwich` (other
functions of the distance); `rotary` (RoPE).
"""
