"""What a run is called: names, and the hashes that decide whether two runs may share a table.

A name promises the content of its YAML. If you override a setting, the name says so.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.global_hydra import GlobalHydra

from posbench.composing.compose import Composition, compose
from posbench.composing.methods import chosen_of_model, methods, turned_on
from posbench.config import OF_METHODS, ModelConfig
from posbench.errors import ConfigError
from posbench.provenance import content_hash, without_places
from posbench.records.record import MethodName, Name, as_file_name

HOST, PART = "encoding@encoding.", "extension@extension."
"""How Hydra's choices of a host (`encoding@encoding.host=alibi`) and of a sequence's part begin."""
OFF = {f"model.{name}": getattr(ModelConfig(), name) for name in OF_METHODS}
"""The values of settings that are left out where they are off."""
LENGTHS = ("min_length", "max_length", "steps")
"""The training settings that belong to the task, not to the protocol."""


@dataclass(frozen=True)
class Identity:
    protocol: Name
    task: Name
    method: MethodName
    command: str

    def title(self, seed: int) -> str:
        return f"{self.method.label} on {self.task.label}, {self.protocol.label}, seed {seed}"


def identify(composed: Composition) -> Identity:
    """Name a run by comparing its composed configuration with what its names stand for.

    ConfigError if a group has no choice. This needs an initialised Hydra.
    """
    choices = composed.choices
    group: dict[str, Any] = {
        name: choices.get(name) for name in ("protocol", "task", "method", "encoding", "extension")
    }
    if missing := [name for name, choice in group.items() if choice is None]:
        raise ConfigError(f"{missing[0]} is missing: choose one with {missing[0]}=NAME, see --help")
    experiment = choices.get("experiment")
    if experiment is not None:
        _refuse_others(experiment, group)
    task = [f"protocol={group['protocol']}", f"task={group['task']}"]
    parts, canonical = _parts(composed), _parts(compose(*task, f"method={group['method']}"))

    label, words = group["method"], [f"method={group['method']}"]
    pair = {name: group[name] for name in ("encoding", "extension")}
    hosts = _hosts(pair, choices)
    if parts["method"] != canonical["method"]:
        asked, usual = parts["method"]["model"], canonical["method"]["model"]
        plain = compose(*_overrides(pair | hosts))
        # The pair differs from the one in the method's YAML.
        other = _parts(plain)["method"] | {"model": usual} != canonical["method"]
        found = _method_of(pair | hosts, asked) if other or asked != usual else None
        if found or other:
            found = found or _method_of(pair | hosts, {})
            base = "-".join(filter(None, (group["encoding"], _host(hosts))))
            label = found or _joined(base, _parted(group["extension"], choices, hosts), plain)
            words = [f"method={found}"] if found else _overrides(pair | hosts)
            canonical["method"] = _parts(compose(*task, *words))["method"]

    chosen, written = [*task, *words], canonical
    if experiment is not None:  # the names stay those of protocol and task
        chosen = [f"experiment={experiment}", *words]
        written = _parts(compose(*chosen))
    method = _name(label, parts["method"], canonical["method"])
    return Identity(
        _name(group["protocol"], parts["protocol"], canonical["protocol"]),
        _name(group["task"], parts["task"], canonical["task"]),
        MethodName(
            **dict(method),
            encoding=group["encoding"],
            host=_host(hosts),
            extension=_parted(group["extension"], choices, hosts),
            encoding_changed=tuple(
                change for change in method.changed if change.startswith(("encoding.", "model."))
            ),
            model=tuple(turned_on(composed.content["model"])),
        ),
        _command(chosen, parts, written, composed.content["seed"]),
    )


def _refuse_others(experiment: str, group: Mapping[str, str]) -> None:
    """ConfigError if another task or protocol was chosen than the experiment's own."""
    own = compose(f"experiment={experiment}").choices
    for name in ("protocol", "task"):
        if group[name] != own[name]:
            raise ConfigError(
                f"experiment={experiment} chooses {name}={own[name]}, with settings for it: leave "
                f"out {name}={group[name]}, or the experiment"
            )


def _overrides(chosen: Mapping[str, str]) -> list[str]:
    return [f"{group}={option}" for group, option in chosen.items()]


def _hosts(pair: dict[str, str], choices: Mapping[str, Any]) -> dict[str, str]:
    """The chosen inner hosts and parts that differ from the ones in the outer YAML."""
    inside = {key: choice for key, choice in choices.items() if key.startswith((HOST, PART))}
    if not inside:  # nothing to compare: composing costs a tenth of a second
        return {}
    usual = compose(*_overrides(pair)).choices
    return {key: choice for key, choice in inside.items() if usual.get(key) != choice}


def _host(chosen: Mapping[str, str]) -> str | None:
    """The host that was chosen for a wrapper, with the host inside that; None for its own."""
    return "-".join(choice for key, choice in chosen.items() if key.startswith(HOST)) or None


def _parted(extension: str, choices: Mapping[str, Any], chosen: Mapping[str, str]) -> str:
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
        # Files are read, not composed: composing takes a tenth of a second.
        found = GlobalHydra.instance().config_loader().repository.load_config(f"method/{name}")  # type: ignore[attr-defined]
        defaults = [default for default in found.defaults_list if default.override]
        asked = chosen_of_model(found.config.get("model") or {})
        if asked == model and chosen == {_key(each): each.value for each in defaults}:
            return name
    return None


def _own_methods() -> list[str]:
    """Names of methods in folders given with --config-dir."""
    searched = GlobalHydra.instance().config_loader().get_search_path().get_path()
    own = [each.path for each in searched if each.provider == "command-line" and each.path]
    folders = [Path(path.removeprefix("file://")) for path in own]
    return sorted(path.stem for folder in folders for path in (folder / "method").glob("*.yaml"))


def _key(default: Any) -> str:
    """What a defaults list entry chooses: "encoding", or "encoding@encoding.host"."""
    return default.group.strip("/") + (f"@{default.package}" if default.package else "")


def _joined(encoding: str, extension: str, composed: Composition) -> str:
    """A name for a pair without a YAML; it leaves out the default method's extension."""
    usual = compose().content["extension"]
    return encoding if composed.content["extension"] == usual else f"{encoding}+{extension}"


def _parts(composed: Composition) -> dict[str, dict[str, Any]]:
    """The content behind each name, with interpolations unresolved.

    So `num_heads: ${model.num_heads}` is one method at every model size, and a default that scales
    with the training length is one method on every task. Settings of the model that methods choose
    are a method's own, so that its row stands beside those without them; what is off is left out.
    """
    plain = composed.content
    training, model = plain["training"], plain["model"]
    return {
        "protocol": {
            "model": {key: value for key, value in model.items() if key not in OF_METHODS},
            "training": {key: value for key, value in training.items() if key not in LENGTHS},
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
    changed = tuple(_changes(content, canonical))
    told = {key: value for key, value in content.items() if value != {}}  # as before there was one
    return Name(name=as_file_name(name), changed=changed, hash=content_hash(without_places(told)))


def _changes(content: dict[str, Any], canonical: dict[str, Any]) -> list[str]:
    new, old = _flat(content), _flat(canonical)
    keys = sorted(key for key in new.keys() | old.keys() if new.get(key) != old.get(key))
    values = {key: new.get(key, OFF.get(key)) for key in keys}
    return [f"{key}={_written(value)}" for key, value in values.items()]


def _written(value: Any) -> str:
    """As it stands on a command line."""
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def _flat(content: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(content, dict):
        return {prefix: content}
    found: dict[str, Any] = {}
    for key, value in content.items():
        found |= _flat(value, f"{prefix}.{key}" if prefix else str(key))
    return found


def _command(
    chosen: list[str],
    parts: dict[str, dict[str, Any]],
    composed: dict[str, dict[str, Any]],
    seed: int,
) -> str:
    """The command that repeats the run: choices, and what differs from what they compose."""
    words = list(chosen)
    for part in parts:
        words += [_quoted(change) for change in _changes(parts[part], composed[part])]
    return " ".join(["python -m posbench", *words, f"seed={seed}"])


def _quoted(change: str) -> str:
    """For a shell; a list without spaces is quoted as well, as Hydra's pages have it."""
    return f"'{change}'" if "," in change and "'" not in change else shlex.quote(change)
