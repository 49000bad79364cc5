"""Replicas: trainings that differ in their seed alone, made in step by one model.

A model of these sizes leaves most of a GPU idle, and a step of R of them costs little more than a
step of one. Each replica has the batches, the curve and the checkpoints of its `Training`. Their
weights lie in one tensor [R, ...] for each parameter, of which the models hold slices, so that
forward, backward, clipping and AdamW are as many kernels for all as for one. The forward pass goes
through `torch.vmap`, and so every encoding takes part as it is. The loss is the sum of theirs: its
gradient is to each what its own loss gives it. Clipping goes by a replica's own norm, and AdamW by
elements.

A replica agrees with its training alone but for rounding: batches are padded to the longest of
them, and sums are taken in another order. Nothing declares that an encoding can do so. It is
measured on the first batch, and `CannotReplicate` is raised where it does not hold: where code asks
a tensor for its value, where chance is drawn in the model, or where a token sees those after it.
"""
