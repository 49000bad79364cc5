"""What the process from which commands are forked knows before: modules, and sources as parsed."""

import lightning.pytorch.loggers  # noqa: F401

import posbench.application
import posbench.running.run  # noqa: F401
from posbench.config.compose import compose, composing
from posbench.config.provenance import known_hash
from posbench.running.run_spec import RunSpec

with composing():
    RunSpec.of(compose("protocol=smoke"))
known_hash.cache_clear()  # a test may change a file; what is kept goes by the text
