"""What a run is called: names, and the hashes that decide whether two runs may share a table.

A name promises the content of its YAML. If you override a setting, the name says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from posbench.base.content_hash import content_hash
from posbench.base.errors import ConfigError, TaskLacks
from posbench.config import folders
from posbench.config.compose import Composition, compose, option_file
from posbench.config.methods import chosen_of_model, methods, turned_on
from posbench.config.names import MethodName, Name, as_file_name, as_text
from posbench.config.numbers import in_one_form
from posbench.config.option_files import Default, NotOurs
from posbench.config.provenance import without_places
from posbench.config.record_command import Command
from posbench.config.words import quoted
from posbench.core.settings import INTEGERS, LENGTHS, OF_METHODS, without_until

NAMED = ("protocol", "task", "method", "encoding", "extension")
"""Groups whose options names are made of."""
HOST, PART = "encoding@encoding.", "extension@extension."
"""How Hydra's choices of a host (`encoding@encoding.host=alibi`) and of a sequence's part begin."""
SECTIONS = ("task", "encoding", "extension", "model", "training", "evaluation")
"""What names are made of."""


@dataclass(frozen=True)
class Identity:
    protocol: Name
    task: Name
    method: MethodName
    words: tuple[str, ...]  # of the command that repeats the run, but for its seed

    def command(self, seed: int) -> Command:
        """The command that repeats the run."""
        return Command("posbench", (*self.words, f"seed={seed}"))

    def title(self, seed: int) -> str:
        return title(self.method, self.task, self.protocol, seed)


def title(method: MethodName, task: Name, protocol: Name, seed: int) -> str:
    """A run's title, on the terminal and in trackers."""
    return f"{method.label} on {task.label}, {protocol.label}, seed {seed}"


def identify(composed: Composition) -> Identity:
    """The names of a run, see `named`."""
    return named(composed)[1]


def named(composed: Composition) -> tuple[Composition, Identity]:
    """Name a run by comparing its composed configuration with what its names mean.

    With the names comes the configuration itself, each of its numbers in one form: what is hashed
    of it does not depend on how somebody has written it. ConfigError if a group has no choice, or
    an experiment another one. This needs an initialised Hydra.
    """
    group = _chosen(composed.choices)
    if (experiment := composed.choices.get("experiment")) is not None:
        _refuse_others(experiment, group)
    test = [f"protocol={group['protocol']}", f"task={group['task']}"]
    parts, canonical = _parts(composed), _parts(compose(*test, f"method={group['method']}"))
    _refuse_until(group["protocol"], parts["protocol"], canonical["protocol"])
    called = _called(composed, group, parts["method"], canonical["method"])
    usual = compose(*test, *called.words)
    canonical["method"] = _parts(usual)["method"]
    composed = _in_one_form(composed, usual)
    parts = _parts(composed)
    found = Identity(
        _name(group["protocol"], parts["protocol"], canonical["protocol"]),
        _name(group["task"], parts["task"], canonical["task"]),
        _method_name(composed, group, _name(called.label, parts["method"], canonical["method"])),
        _repeating(composed, test, called.words, parts, canonical),
    )
    Command.parse(str(found.command(0)))  # what no record can hold is refused before the run
    return composed, found


def _in_one_form(composed: Composition, usual: Composition) -> Composition:
    """The configuration with each number as the YAML of its choices has it, or else as an integer
    where it is one. Settings that take integers alone stay: a fraction is refused there.
    """
    sections = {name: composed.content[name] for name in SECTIONS}
    written = {
        name: in_one_form(content, usual.content[name], name) for name, content in sections.items()
    }
    for name, keys in INTEGERS.items():
        written[name] |= {key: sections[name][key] for key in keys & sections[name].keys()}
    return composed.but(**written)


def _chosen(choices: Mapping[str, Any]) -> dict[str, str]:
    """The option of each group that names are made of; ConfigError if one has none."""
    group = {name: choices.get(name) for name in NAMED}
    if missing := [name for name, choice in group.items() if choice is None]:
        raise ConfigError(f"{missing[0]} is missing: choose one with {missing[0]}=NAME, see --help")
    return {name: str(choice) for name, choice in group.items()}


def _refuse_others(experiment: str, group: Mapping[str, str]) -> None:
    """ConfigError if another task or protocol was chosen than the experiment's own."""
    own = compose(f"experiment={experiment}").choices
    for name in ("protocol", "task"):
        if group[name] != own[name]:
            raise ConfigError(
                f"experiment={experiment} chooses {name}={own[name]}, with settings for it: leave "
                f"out {name}={group[name]}, or the experiment"
            )


def _refuse_until(protocol: str, content: Mapping[str, Any], canonical: Mapping[str, Any]) -> None:
    """ConfigError if `training.until` was added to a protocol without it, or taken out of one: the
    command that repeats the run could say neither.
    """
    said, usual = ("until" in each["training"] for each in (content, canonical))
    if said != usual:
        raise ConfigError(
            f"training.until is {'no' if said else 'a'} part of protocol={protocol}, which alone "
            f"decides that: choose protocol={'learned' if said else 'cpu'}, and set what it sets"
        )


class NamedChoice(NamedTuple):
    """What a method is called, and the words that choose what the name means."""

    label: str
    words: tuple[str, ...]


def _called(
    composed: Composition,
    group: Mapping[str, str],
    content: dict[str, Any],
    usual: dict[str, Any],
) -> NamedChoice:
    """What the method with this content is called.

    `usual` is the content of the method that was chosen. Its name stays where settings alone are
    changed, unless these make another method.
    """
    chosen = NamedChoice(group["method"], (f"method={group['method']}",))
    if content == usual:
        return chosen
    hosts = _hosts(group, composed.choices)
    pair = _pair(group) | hosts
    plain = compose(*_overrides(pair))
    # The pair differs from the one in the method's YAML.
    other = _parts(plain)["method"] | {"model": usual["model"]} != usual
    if not other and content["model"] == usual["model"]:
        return chosen
    found = _method_of(pair, content["model"])
    if not found and other:
        found = _method_of(pair, {})
    if found:
        return NamedChoice(found, (f"method={found}",))
    if not other:
        return chosen
    base = "-".join(filter(None, (group["encoding"], _host(hosts))))
    label = _joined(base, parted(group["extension"], composed.choices, hosts), plain)
    return NamedChoice(label, tuple(_overrides(pair)))


def _method_name(composed: Composition, group: Mapping[str, str], name: Name) -> MethodName:
    """The name of a method with those of what is in it."""
    hosts = _hosts(group, composed.choices)
    return MethodName(
        **dict(name),
        encoding=group["encoding"],
        host=_host(hosts),
        extension=parted(group["extension"], composed.choices, hosts),
        encoding_changed=tuple(
            change for change in name.changed if change.startswith(("encoding.", "model."))
        ),
        model=tuple(turned_on(composed.content["model"])),
    )


def _pair(group: Mapping[str, str]) -> dict[str, str]:
    return {name: group[name] for name in ("encoding", "extension")}


def _overrides(chosen: Mapping[str, str]) -> list[str]:
    return [f"{group}={option}" for group, option in chosen.items()]


def _hosts(group: Mapping[str, str], choices: Mapping[str, Any]) -> dict[str, str]:
    """The chosen inner hosts and parts that differ from the ones in the outer YAML."""
    inside = {key: choice for key, choice in choices.items() if key.startswith((HOST, PART))}
    if not inside:  # nothing to compare: composing costs a tenth of a second
        return {}
    usual = compose(*_overrides(_pair(group))).choices
    return {key: choice for key, choice in inside.items() if usual.get(key) != choice}


def _host(chosen: Mapping[str, str]) -> str | None:
    """The host that was chosen for a wrapper, with the host inside that; None for its own."""
    return "-".join(choice for key, choice in chosen.items() if key.startswith(HOST)) or None


def parted(extension: str, choices: Mapping[str, Any], chosen: Mapping[str, str]) -> str:
    """The name of an extension with what is inside it.

    A sequence is named by its parts in order, "yarn+sliding_window". Any other extension has its
    own name, followed by the one inside it if that is not the usual one, "yarn_tuned-by_parts".
    """
    parts = {key: choice for key, choice in choices.items() if key.startswith(PART)}
    leaves = [
        key for key in sorted(parts) if not any(other.startswith(f"{key}.") for other in parts)
    ]
    if len(leaves) > 1:
        return "+".join(parts[key] for key in leaves)
    return "-".join((extension, *(chosen[key] for key in leaves if key in chosen)))


def _method_of(chosen: Mapping[str, str], model: Mapping[str, Any]) -> str | None:
    """The method whose YAML makes these choices and asks this of the model, None if there is none.

    So `method=rope extension=yarn` is the row rope_yarn, and `method=rope model.qk_norm=true` the
    row rope_qk_norm.
    """
    for name, row in sorted(methods().items()):
        pair = {"encoding": row.encoding, "extension": row.extension}
        if (pair, dict(row.model)) == (chosen, model):
            return name
    for name in _own_methods():
        try:
            found = option_file("method", name)
        except NotOurs:  # Hydra alone reads it, so no run is called by it
            continue
        if found is None:
            continue
        asked = chosen_of_model(found.content.get("model") or {})
        pairs = {_key(each): each.name for each in found.defaults if each.override}
        if (asked, pairs) == (model, chosen):
            return name
    return None


def _own_methods() -> list[str]:
    """Names of methods in folders given with --config-dir."""
    found = (folder / "method" for folder in folders.searched())
    return sorted(path.stem for folder in found for path in folder.glob("*.yaml"))


def _key(entry: Default) -> str:
    """What it chooses: "encoding", or "encoding@encoding.host"."""
    return (entry.group or "").strip("/") + (f"@{entry.package}" if entry.package else "")


def _joined(encoding: str, extension: str, composed: Composition) -> str:
    """A name for a pair without a YAML; it leaves out the default method's extension, unless that
    would be the name of a method: an encoding of the user may be called rope_yarn.
    """
    usual = composed.content["extension"] == compose().content["extension"]
    taken = encoding in {*methods(), *_own_methods()}
    return encoding if usual and not taken else f"{encoding}+{extension}"


def _parts(composed: Composition) -> dict[str, dict[str, Any]]:
    """The content behind each name, with interpolations unresolved.

    So `num_heads: ${model.num_heads}` is one method at every model size, and a default that scales
    with the training length is one method on every task. Settings of the model that methods choose
    are a method's own, so that its row is beside those without them; what is off is left out.
    """
    plain = composed.content
    training, model = plain["training"], plain["model"]
    if missing := [key for key in LENGTHS if key not in training]:
        raise TaskLacks(*missing)
    return {
        "protocol": {
            "model": {key: value for key, value in model.items() if key not in OF_METHODS},
            "training": without_until(
                {key: value for key, value in training.items() if key not in LENGTHS}
            ),
            "evaluation": plain["evaluation"],
        },
        "task": {"task": plain["task"], "training": {key: training[key] for key in LENGTHS}},
        "method": {
            "encoding": plain["encoding"],
            "extension": plain["extension"],
            "model": chosen_of_model(model),
        },
    }


def _name(name: str, content: dict[str, Any], canonical: dict[str, Any]) -> Name:
    changed = tuple(map(as_text, _changes(content, canonical)))
    # Parts that are empty are left out, so that a new part changes no hash of names without it.
    told = {key: value for key, value in content.items() if value != {}}
    return Name(name=as_file_name(name), changed=changed, hash=content_hash(without_places(told)))


def _changes(content: dict[str, Any], canonical: dict[str, Any]) -> list[str]:
    new, old = _flat(content), _flat(canonical)
    keys = sorted(key for key in new.keys() | old.keys() if new.get(key) != old.get(key))
    off = _flat({"model": OF_METHODS})  # is left out of a content, and said where it is a change
    return [f"{key}={_written(new.get(key, off.get(key)))}" for key in keys]


def _written(value: Any) -> str:
    """As a command line has it."""
    if isinstance(value, str):
        return quoted(value)
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def _flat(content: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(content, dict):
        return {prefix: content}
    found: dict[str, Any] = {}
    for key, value in content.items():
        found |= _flat(value, f"{prefix}.{key}" if prefix else str(key))
    return found


def _repeating(
    composed: Composition,
    test: Sequence[str],
    method: Sequence[str],
    parts: dict[str, dict[str, Any]],
    canonical: dict[str, dict[str, Any]],
) -> tuple[str, ...]:
    """The words that repeat a run: choices, and what differs from what they compose."""
    experiment = composed.choices.get("experiment")
    if experiment is None:
        words, written = [*test, *method], canonical
    else:  # the names stay those of protocol and task
        words = [f"experiment={experiment}", *method]
        written = _parts(compose(*words))
    for part in parts:
        words += _changes(parts[part], written[part])
    return tuple(words)
