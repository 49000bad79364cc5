"""A run is made unless it is complete: the same for one run and for those of a sweep.

Nothing here imports torch before there is something to make.
"""

from __future__ import annotations

from typing import IO

from rich.console import Console as Terminal

from posbench.running.run_spec import RunSpec, remark
from posbench.running.scores import WithoutExtension, result


def make(spec: RunSpec, file: IO[str] | None = None) -> None:
    """Make a run, or show what its record says; on the terminal, or in a file.

    PosbenchError, once all is recorded, if its audit disagrees with its scores.
    """
    record = spec.record()
    if record is not None and spec.is_complete:
        print(remark(record, spec.path), file=file)
        if not record.diverged:
            base = None if record.plain else WithoutExtension(record, spec.results_dir).rows()
            terminal = Terminal(file=file, soft_wrap=True, highlight=False, force_jupyter=False)
            terminal.print(result(record, base))
        return
    from posbench.running import run
    from posbench.running.console import Console

    console = Console(file)
    if record is not None:
        console.say(f"{remark(record, spec.path)} Its audit is made now.")
    run.train_and_record(spec, console, only_audit=record is not None)
