"""A run is made unless it is complete: the same for one run and for those of a sweep.

Nothing here imports torch before there is something to make.
"""

from __future__ import annotations

from typing import IO

from posbench.running.run_spec import RunSpec, remark


def make(spec: RunSpec, file: IO[str] | None = None) -> None:
    """Make a run, or say that it is there; on the terminal, or in a file.

    PosbenchError, once all is recorded, if its audit disagrees with its scores.
    """
    record = spec.record()
    if record is not None and spec.is_complete:
        print(remark(record, spec.path), file=file)
        return
    from posbench.running import run
    from posbench.running.console import Console

    run.make(spec, Console(file))
