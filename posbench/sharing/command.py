"""`posbench records`: publish records, and verify that published ones can be made again.

posbench records publish --to results/mine  your own records, as lines of a folder
posbench records unpack results/main        published ones among your own: go on there
posbench records verify results/main --sample 12
posbench records bundle mine.tar.gz --config-dir mine    your own, and their code
posbench records accept mine.tar.gz         look at a bundle that was sent to you
posbench records columns                    what each column of `load` means
posbench records upload results/main        past records to W&B, without a training
posbench records export results/main --to out    a data set and a site, to be pushed as they are
"""

from __future__ import annotations

import argparse
import fnmatch
import secrets
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

from posbench.base.disk import writing_to
from posbench.base.errors import PosbenchError
from posbench.base.wording import MANY, agreeing, closest, counted, known_names, printable
from posbench.config.building import OF_A_RUN
from posbench.config.command_lines import Parser, add_config_dir
from posbench.config.exit_status import exit_status
from posbench.config.provenance import targets
from posbench.records import files, published, tables
from posbench.records.files import LOCAL, leaderboard_command, without_records
from posbench.records.record import MEANINGLESS, Record
from posbench.sharing import bundle
from posbench.showing.table import Column, Line, Table
from posbench.statistics.aggregates import is_pretrained

CONTRIBUTED = Path("results/contributed")
"""Where records that others have sent go."""
DEFAULT = "default: %(default)s"
OF_VERIFY = "what was repeated is kept with --in FOLDER, where the same command goes on"


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(
        prog="posbench records",
        description="Keep records, and check them.",
        epilog="Each has its own --help.",
    )
    parser.set_defaults(left="what was complete is kept")
    commands = parser.add_subparsers(dest="command", required=True)
    _add_publish(commands.add_parser("publish", help="put records of your own into a folder"))
    _add_unpack(commands.add_parser("unpack", help="copy published records to your own"))
    _add_verify(commands.add_parser("verify", help="repeat some records and compare all they say"))
    _add_bundle(commands.add_parser("bundle", help="one file of your records and their code"))
    _add_accept(commands.add_parser("accept", help="check a bundle, and say what it would add"))
    _add_upload(commands.add_parser("upload", help="send past records to W&B"))
    _add_export(commands.add_parser("export", help="write a data set and a site"))
    columns = commands.add_parser("columns", help="say what the columns of the long table mean")
    columns.set_defaults(carry_out=_show_columns)
    # Here for help and mistakes: `posbench.cli` calls their modules.
    commands.add_parser("zoo", help="keep trained weights, which runs need not train again")
    commands.add_parser("dashboard", help="make the pages of a W&B project")
    chosen = parser.parse_args(arguments)
    own = getattr(chosen, "config_dir", ())  # most commands have none
    return exit_status(lambda: chosen.carry_out(chosen), own=own, left=chosen.left)


def _show_columns(_: argparse.Namespace) -> int:
    """The documentation of the long table, a line a column; pandas would align to the right."""
    said = tables.documentation()
    columns = [Column(name, text=True) for name in said.columns]
    rows = [Line(name, rest) for name, *rest in said.itertuples(index=False, name=None)]
    print("\n".join(Table(columns, rows).aligned()))
    return 0


def _add_publish(command: argparse.ArgumentParser) -> None:
    command.set_defaults(carry_out=_publish)
    command.add_argument("--from", dest="source", type=Path, default=LOCAL, help=DEFAULT)
    command.add_argument("--to", dest="target", type=Path, help="a folder; needed")
    _add_patterns(command)


def _add_patterns(command: argparse.ArgumentParser) -> None:
    """What chooses among records, see `published.matching`."""
    for name in ("protocol", "task", "method"):
        command.add_argument(f"--{name}", default="*", help="name or pattern, default: %(default)s")


def _pattern(chosen: argparse.Namespace) -> str:
    return f"protocol {chosen.protocol}, task {chosen.task}, method {chosen.method}"


def _no_record(chosen: argparse.Namespace, folder: Path, held: Sequence[Record]) -> PosbenchError:
    if not held:
        return PosbenchError(without_records(folder))
    for kind in ("protocol", "task", "method"):
        names = sorted({getattr(record, kind).slug for record in held})
        pattern = getattr(chosen, kind)
        if not fnmatch.filter(names, pattern):
            there = known_names(names, "posbench board", closest(pattern, names))
            return PosbenchError(f"no record in {folder} has {kind} {pattern}: {there}")
    return PosbenchError(
        f"no record of {_pattern(chosen)} in {folder}, which has each of them with others"
    )


def _publish(chosen: argparse.Namespace) -> int:
    if chosen.target is None:
        raise PosbenchError("--to is missing: name the folder to put records into, --to FOLDER")
    count = published.publish_matching(
        chosen.source, chosen.target, chosen.protocol, chosen.task, chosen.method
    )
    if not count:
        raise _no_record(chosen, chosen.source, files.records(chosen.source))
    print(f"Copied {count} records ({_pattern(chosen)}) to {chosen.target}.")
    print(f"Bring its board up to date: {leaderboard_command(chosen.target)}")
    return 0


def _add_unpack(command: argparse.ArgumentParser) -> None:
    command.set_defaults(carry_out=_unpack)
    command.add_argument("source", type=Path, help="a published folder, as results/main")
    command.add_argument("--to", dest="target", type=Path, default=LOCAL, help=DEFAULT)


def _unpack(chosen: argparse.Namespace) -> int:
    """A sweep that was published half way goes on from there: what is complete is not run again."""
    held = files.read_folder(chosen.source).whole()
    if not held.records:
        raise PosbenchError(without_records(chosen.source))
    count = published.unpublish(held.records, held.audits, chosen.target)
    of = len(held.records)
    others = agreeing(of - count, "the other was", "the others were")
    there = f", of {of}; {others} there" if count < of else ""
    print(f"Copied {counted(count, 'record')} to {chosen.target}{there}.")
    return 0


def _add_bundle(command: argparse.ArgumentParser) -> None:
    command.set_defaults(carry_out=_bundle)
    command.add_argument("target", type=Path, help="the file to write, as mine.tar.gz")
    command.add_argument("--from", dest="source", type=Path, default=LOCAL, help=DEFAULT)
    add_config_dir(command, "your own YAML and code")
    _add_patterns(command)


def _bundle(chosen: argparse.Namespace) -> int:
    held = files.read_folder(chosen.source).whole()
    found = published.matching(held.records, chosen.protocol, chosen.task, chosen.method)
    if not found:
        raise _no_record(chosen, chosen.source, held.records)
    if chosen.protocol == "*":
        found = _with_meaning(found)
    _refuse_pretrained(found)
    if chosen.target.is_dir():
        raise PosbenchError(f"{chosen.target} is a folder: name a file, as mine.tar.gz")
    made = bundle.write(found, held.audits, _own_folder(chosen.config_dir), chosen.target)
    records = counted(made["records"], "record")
    print(f"Written: {chosen.target}, {records} of {', '.join(made['methods'])}.")
    accept = f"posbench records accept {shlex.quote(str(chosen.target))}"
    if made["code"]:
        print(
            f"Your files in it: {', '.join(made['code'])}. They are those that these records name, "
            "and what these files import."
        )
    sent = {bundle.module_of(each) for each in made["code"]}
    elsewhere = (each for each in _of_others(found) if each.rpartition(".")[0] not in sent)
    if missing := sorted(map(printable, elsewhere)):
        print(
            f"The code of {', '.join(missing)} is not in it, and nobody else can repeat these "
            "records: if it is in a folder of yours, add --config-dir FOLDER."
        )
    print(f"Whoever has it looks at it with: {accept}")
    return 0


def _of_others(found: Sequence[Record]) -> set[str]:
    """The classes that these records name and posbench has not."""
    named = (targets(record.config[node]) for record in found for node in OF_A_RUN)
    return {name for each in named for name in each if not name.startswith("posbench.")}


def _with_meaning(found: list[Record]) -> list[Record]:
    """Without records of protocols whose numbers mean nothing, which a first try leaves behind."""
    names = " and ".join(MEANINGLESS)
    kept = [record for record in found if record.protocol.name not in MEANINGLESS]
    if not kept:
        raise PosbenchError(
            f"all that is there is of protocol {names}, whose numbers mean nothing: run another "
            f"protocol, or name it with --protocol"
        )
    if left_out := len(found) - len(kept):
        print(f"Left out: {counted(left_out, 'record')} of {names}, whose numbers mean nothing.")
    return kept


def _refuse_pretrained(found: Sequence[Record]) -> None:
    """PosbenchError for records that nobody can repeat from a bundle, and so nobody can accept."""
    if models := sorted({r.method.encoding for r in found if is_pretrained(r.method_class)}):
        raise PosbenchError(
            f"a bundle has no weights, so nobody could repeat its records of {' and '.join(models)}"
            ": a folder made by `posbench records publish --to FOLDER` can be sent in its place"
        )


def _own_folder(given: Sequence[Path]) -> Path | None:
    """The one folder that a bundle can hold, if there is one; PosbenchError for more."""
    if len(given) > 1:
        raise PosbenchError(
            f"--config-dir is given {len(given)} times, and a bundle holds one folder: put what is "
            f"in {' and '.join(map(str, given))} into one"
        )
    for folder in given:
        if not folder.is_dir():
            raise PosbenchError(f"{folder} is not a folder: give that of your own YAML")
    return next(iter(given), None)


def _add_accept(command: argparse.ArgumentParser) -> None:
    command.set_defaults(carry_out=_accept, left="nothing was written")
    command.add_argument("bundle", type=Path)
    command.add_argument("--to", dest="target", type=Path, default=CONTRIBUTED, help=DEFAULT)
    command.add_argument(
        "--sample", type=int, help="how many to repeat, default: one of each method and task"
    )
    command.add_argument(
        "--show", action="store_true", help="print the code in it, as it would be run"
    )
    command.add_argument(
        "--seed", type=int, help="of the choice, default: another each time, which it prints"
    )
    command.add_argument(
        "--run-code", action="store_true", help="you have read what is in it, and will run it"
    )
    command.add_argument(
        "--write", action="store_true", help="add the records, if all that was repeated is the same"
    )


def _accept(chosen: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as temporary:
        found = bundle.unpack(chosen.bundle, Path(temporary))
        _refuse_pretrained(found.records)
        for line in bundle.added(found.records, chosen.target):
            print(line)
        own = [found.own] if found.own else []
        if not chosen.run_code:
            if found.code:
                print(f"{chosen.bundle} holds code of others, and nothing of it was run:")
                print(found.shown if chosen.show else "\n".join(f"  {each}" for each in found.code))
                if not chosen.show:
                    print("Read it: the same command with --show prints what would be run.")
                print("Then give the same command with --run-code, which repeats records.")
            else:
                print("To repeat a record runs what others wrote, and nothing of it was run.")
                print("The same command with --run-code repeats records.")
            if chosen.write:
                print("Nothing was written: no record was repeated.")
            return int(chosen.write)
        from posbench.sharing.verify import of_method_and_task, verify  # and with it torch

        # Whoever sends records must not know beforehand which of them are repeated.
        seed = secrets.randbelow(2**32) if chosen.seed is None else chosen.seed
        print(f"Drawn with --seed {seed}, which repeats this choice.")
        seen = verify(
            found.published,
            chosen.sample,
            seed,
            own=own,
            alike=of_method_and_task,
            shown=lambda folder: folder.name,
        )
        if found.own:
            there = shlex.join(["tar", "-xzf", str(chosen.bundle), found.own.name])
            print(f"These commands find their files after: {there}")
        if seen.without:
            print(f"None was repeated of {_listed(seen.without)}.")
        of = f"{seen.drawn} of {counted(seen.of, 'record')} repeated"
        if not seen.agreed:
            print(f"Nothing was written: {seen}, and all that are drawn must be exact.")
        elif chosen.write:
            # Audits are left out: verifying repeats none, so that they would be the sender's word.
            published.publish(map(seen.accepted, found.records), [], chosen.target)
            print(f"Added to {chosen.target}, with {of}: {leaderboard_command(chosen.target)}")
        else:
            missing = f"--write is missing, which adds all to {chosen.target}"
            print(f"Nothing was written: {missing} ({of}).")
    return 0 if seen.agreed else 1


def _listed(strata: Sequence[Sequence[str]]) -> str:
    """Methods and tasks in a sentence, the first of many."""
    named = [f"{method} on {task}" for method, task, *_ in strata[:MANY]]
    return ", ".join([*named, *([f"{len(strata) - MANY} more"] if strata[MANY:] else [])])


def _add_verify(command: argparse.ArgumentParser) -> None:
    command.set_defaults(carry_out=_verify, left=OF_VERIFY)
    command.add_argument("folder", type=Path, help="with published records")
    command.add_argument(
        "--sample", type=int, default=12, help="how many to repeat, default: %(default)s"
    )
    command.add_argument("--seed", type=int, default=0, help="of the choice, default: %(default)s")
    command.add_argument(
        "--restamp",
        action="store_true",
        help="carry records of earlier code over where the sample of their stratum agrees",
    )
    command.add_argument(
        "--in", dest="scratch", type=Path, help="a folder to repeat them in, so that it can go on"
    )
    add_config_dir(command, "your own YAML and code, if records need them")


def _verify(chosen: argparse.Namespace) -> int:
    from posbench.sharing.verify import restamp, verify  # and with it torch

    repeat = restamp if chosen.restamp else verify
    seen = repeat(
        chosen.folder, chosen.sample, chosen.seed, scratch=chosen.scratch, own=chosen.config_dir
    )
    return 1 if seen.disagreed else 0


def _add_upload(command: argparse.ArgumentParser) -> None:
    command.set_defaults(carry_out=_upload)
    help = f"with records, {DEFAULT}"
    command.add_argument("folder", type=Path, nargs="?", default=LOCAL, help=help)
    command.add_argument("--project", default="posbench", help=DEFAULT)
    command.add_argument("--entity", help="user or team, default: your own")
    command.add_argument("--online", action="store_true", help="send them now; needs a key")
    command.add_argument(
        "--in", dest="scratch", type=Path, help="where the runs are kept, default: FOLDER/uploads"
    )
    _add_patterns(command)


def _upload(chosen: argparse.Namespace) -> int:
    held = files.records(chosen.folder)
    found = published.matching(held, chosen.protocol, chosen.task, chosen.method)
    if not found:
        raise _no_record(chosen, chosen.folder, held)
    from posbench.sharing.upload import upload  # and with it torch and wandb

    scratch = chosen.scratch or chosen.folder / "uploads"
    with writing_to(scratch):
        done = upload(found, scratch, chosen.project, chosen.entity, chosen.online)
    all_of_them = counted(len(found), "record")
    print(f"W&B runs made of {done.now} of {all_of_them}; {done.before} were there already.")
    if not chosen.online:
        there = shlex.quote(str(scratch))
        print(f"Send them with --online, or: wandb sync {there}/wandb/offline-run-*")
    if done.failed:
        raise PosbenchError(
            f"{done.failed} of {all_of_them} did not reach W&B: run the same command again"
        )
    return 0


def _add_export(command: argparse.ArgumentParser) -> None:
    command.set_defaults(carry_out=_export)
    help = f"with records, {DEFAULT}"
    command.add_argument("source", type=Path, nargs="?", default=LOCAL, metavar="folder", help=help)
    command.add_argument("--to", dest="target", type=Path, help="gets dataset/ and site/; needed")


def _export(chosen: argparse.Namespace) -> int:
    if chosen.target is None:
        raise PosbenchError("--to is missing: name the folder to write into, --to FOLDER")
    from posbench.sharing import dataset

    held = files.read_folder(chosen.source).whole()
    if not held.records:
        raise PosbenchError(without_records(chosen.source))
    with writing_to(chosen.target):
        dataset.write(held.records, chosen.target / "dataset")
        dataset.write_site(held, chosen.source, chosen.target / "site")
    print(f"Written: {chosen.target}/dataset, for a dataset hub or Zenodo: push it as it is.")
    print(f"Written: {chosen.target}/site, for any static host: its page is index.html.")
    return 0
