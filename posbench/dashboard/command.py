"""`python -m posbench.dashboard`: the W&B Workspace and Report of a project, as code.

    python -m posbench.dashboard                        both as JSON, in results/dashboard
    python -m posbench.dashboard --entity ME --save     both at the server, for which you have a key
    python -m posbench.dashboard --preview results/main --task copy    and a picture of the first

They show what `posbench.loggers.wandb` tells W&B of a run. Needs posbench[dashboard].
"""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

from posbench import commands
from posbench.composing.exit_status import exit_status
from posbench.dashboard.report import report
from posbench.dashboard.snapshot import as_json
from posbench.dashboard.workspace import workspace
from posbench.disk import write_whole, writing_to
from posbench.errors import PosbenchError
from posbench.records import files
from posbench.records.record import Record

FOLDER = Path("results/dashboard")


def main(arguments: list[str] | None = None) -> int:
    parser = commands.parser("python -m posbench.dashboard", "The W&B pages of a project, as code.")
    help = "default: %(default)s"
    parser.add_argument("--project", default="posbench", help=help)
    parser.add_argument("--entity", default="", help="user or team whose project it is")
    parser.add_argument("--to", dest="folder", type=Path, default=FOLDER, help=help)
    parser.add_argument("--save", action="store_true", help="at the server; needs a key")
    parser.add_argument(
        "--preview", type=Path, metavar="RESULTS", help="also draw the Workspace of these records"
    )
    parser.add_argument("--task", default="passkey", help=f"of the preview; {help}")
    parser.add_argument(
        "--protocol", help="of the preview; default: the one with most records of the task"
    )
    chosen = parser.parse_args(arguments)

    def written() -> int:
        if chosen.save and not chosen.entity:
            raise PosbenchError("--save needs --entity: the user or team whose project it is")
        results = chosen.preview
        shown = _to_preview(results, chosen.task, chosen.protocol) if results else []
        pages = {
            "workspace": workspace(chosen.project, chosen.entity),
            "report": report(chosen.project, chosen.entity),
        }
        with writing_to(chosen.folder):
            chosen.folder.mkdir(parents=True, exist_ok=True)
            for name, made in pages.items():
                path = chosen.folder / f"{name}.json"
                write_whole(path, as_json(made))
                print(f"Written: {path}")
            if shown:
                print(f"Written: {_preview(shown, pages, chosen.folder)}")
        if chosen.save:
            for name, made in pages.items():
                print(f"Saved: the {name}, {_saved(made).url}")
        return 0

    return exit_status(written)


def _to_preview(results: Path, task: str, protocol: str | None) -> list[Record]:
    """The records of a task under one protocol: the one named, or the one with most of them."""
    records = files.records(results)
    if not records:
        raise PosbenchError(f"no records in {results}: name a folder of results")
    found = [record for record in records if record.task.label == task]
    if not found:
        raise PosbenchError(f"{results} has no records of task={task}: name another with --task")
    counts = Counter(record.protocol.label for record in found)
    if protocol is None:
        (protocol, _), *others = counts.most_common()
        if others:
            names = " or ".join(name for name, _ in others)
            print(f"Drawn: {protocol}, which has most records of {task}; --protocol draws {names}.")
    elif protocol not in counts:
        raise PosbenchError(
            f"{results} has no records of task={task} under {protocol}: choose one of "
            f"{', '.join(sorted(counts))} with --protocol"
        )
    return [record for record in found if record.protocol.label == protocol]


def _preview(shown: list[Record], pages: dict[str, Any], folder: Path) -> Path:
    """Draw the Workspace as it would show these records."""
    from posbench.dashboard.preview import preview  # and with it matplotlib: a second

    path, out = folder / "workspace.png", io.BytesIO()
    preview(json.loads(as_json(pages["workspace"])), shown).savefig(out, dpi=110)
    write_whole(path, out.getvalue())
    return path


def _saved(made: Any) -> Any:
    try:
        return made.save()
    except Exception as error:  # the library passes on whatever its transport raises
        reason = " ".join(str(error).split())
        raise PosbenchError(
            f"W&B did not take it ({reason}): look at the key (`wandb login`), the entity and the "
            "network; the JSON is written"
        ) from None
