"""Mistakes on the command line, one sentence each: the value, what was expected, what to do.

Hydra and OmegaConf answer in terms of their own, over several lines.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.types import Glob, Override
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import GrammarParseError, InterpolationKeyError
from yaml import MarkedYAMLError  # type: ignore[import-untyped]

from posbench.base.errors import OF_A_RESOLVER, ConfigError, PosbenchError, TaskLacks
from posbench.base.wording import SETTINGS, closest, known_names, no_setting
from posbench.config import blame, folders
from posbench.config.building import OF_A_RUN
from posbench.config.compose import compose, composing
from posbench.config.composition_rules import NoSetting
from posbench.config.methods import AS_TRAINED, of_method
from posbench.config.options import BROKEN, HELP, unknown
from posbench.config.words import Word

OPTIONAL = ("experiment", "board")
"""Groups of which nothing is chosen unless it is asked for."""

EXTRAS = {
    "hydra/launcher/joblib": ("hydra-joblib-launcher", "joblib"),
    "hydra/launcher/submitit_local": ("hydra-submitit-launcher", "slurm"),
    "hydra/launcher/submitit_slurm": ("hydra-submitit-launcher", "slurm"),
}
"""Configurations of packages that may not be there: the name of each, and the extra with it."""


def check(words: Sequence[str], own: Sequence[Path] = ()) -> None:
    """Refuse choices that Hydra takes for something else, or answers without naming them."""
    _refuse_spaces(words)
    read = [Word.of(word) for word in words]
    _refuse_second(read)
    for word, override in zip(words, (each.override for each in read), strict=True):
        group = override.key_or_group
        if not group:
            raise ConfigError(f"{word} has no key: write key=value")
        if group == "seed":
            _refuse_seeds(override)
        if group == "results_dir" and not override.is_sweep_override():
            _refuse_no_folder(word, override)
        if group not in folders.GROUPS:
            continue
        if override.is_delete() and group in OPTIONAL:
            raise ConfigError(
                f"{word} deletes nothing, because no {group} is selected: leave it out"
            )
        if override.is_delete():
            raise ConfigError(
                f"a run cannot do without {group}: remove {word}, or choose another with "
                f"{group}=NAME"
            )
        if override.is_add() and not override.package:
            raise ConfigError(f"{word} adds a second {group}: write {word.lstrip('+')}")
        value, known = override.value(), folders.names(group, own)
        if isinstance(value, Glob):
            if not value.filter(known):
                raise ConfigError(f"{word} matches no {group}: `{HELP}` lists all of them")
        elif isinstance(value, list):
            swept = f"-m {override.get_key_element()}={','.join(map(str, value))}"
            raise ConfigError(
                f"{word} is a list, and a run has one {group}: {swept} runs one after the other"
            )
        elif not override.is_sweep_override() and not isinstance(value, str):
            raise ConfigError(f"{word} names no {group}: {known_names(known, HELP)}")
        elif str(value).endswith((".yaml", ".yml")):
            raise ConfigError(
                f"{word} names a file, and would be another name for what is in it: write "
                f"{group}={Path(str(value)).stem}"
            )
        else:
            for folder in own:
                check_settings(folder / group / f"{value}.yaml", group)
    _refuse_both(read, own)


def _refuse_seeds(override: Override) -> None:
    """ConfigError where one word names several seeds in a way that Hydra reads as one value."""
    if override.is_delete() or override.is_sweep_override():
        return
    value = override.value()
    if isinstance(value, list) or (isinstance(value, str) and "${" not in value):
        raise ConfigError(
            f"seed must be a valid integer, got {value!r}: posbench sweep takes several, as "
            "seed=1,2 or 'seed=range(3)'"
        )


def _refuse_spaces(words: Sequence[str]) -> None:
    """ConfigError where a shell has cut key=value at spaces: `method = rope`, `method= rope`."""
    for place, word in enumerate(words):
        after = words[place + 1 : place + 3]
        if word.endswith("=") and _is_value(after[:1]):
            parts = [word, after[0]]
        elif "=" not in word and after[:1] == ["="]:
            parts = [word, *after]
        elif "=" not in word and after and after[0].startswith("="):
            parts = [word, after[0]]
        else:
            continue
        raise ConfigError(f"no spaces around =, as in {' '.join(parts)}: write {''.join(parts)}")


def _is_value(after: Sequence[str]) -> bool:
    return bool(after) and "=" not in after[0] and not after[0].startswith("~")


def _refuse_second(words: Sequence[Word]) -> None:
    """ConfigError where two words set the same, of which Hydra silently takes the second."""
    seen: dict[str, Word] = {}
    for word in words:
        first = seen.setdefault(word.key, word)
        if word.key and first.text != word.text:
            raise ConfigError(f"{first.text} and {word.text} set the same: leave one out")


def _refuse_both(words: Sequence[Word], own: Sequence[Path]) -> None:
    """ConfigError where the words choose a method and another encoding than the method's, or
    another extension than the one that it has. A board has its own rows, of which words choose.
    """
    chosen = {word.key: word for word in words if not word.override.is_delete()}
    if "method" not in chosen or "board" in chosen:
        return
    for name in chosen["method"].values(own):
        has = of_method(name, own)
        for group in ("encoding", "extension"):
            if group not in chosen or has.get(group) in (None, AS_TRAINED):
                continue
            others = [value for value in chosen[group].values(own) if value != has[group]]
            if others and group == "encoding":
                raise ConfigError(
                    f"method={name} is a row of encoding {has[group]}, and "
                    f"encoding={others[0]} chooses another: leave one of the two out"
                )
            if others:
                raise ConfigError(
                    f"method={name} has the extension {has[group]}, and extension={others[0]} "
                    f"chooses another: leave one of the two out, or write encoding="
                    f"{has.get('encoding', 'NAME')} extension={others[0]}"
                )


def _refuse_no_folder(word: str, override: Override) -> None:
    """Its name is taken as it is written, before Hydra resolves anything."""
    folder = override.value()
    if not isinstance(folder, str):
        raise ConfigError(
            f"{word}: Hydra reads this as no text, and a folder is one: write ./ before a name, as "
            "results_dir=./2024, or leave it out"
        )
    if "${" in folder:
        raise ConfigError(
            f"{word}: the name of a folder is taken as it is, and ${{...}} in it is not replaced: "
            "write the name itself"
        )


def check_settings(path: Path, group: str) -> None:
    """ConfigError if a file of the user is not the mapping that every choice has to be, or, where
    it has to name a class, has no setting at all.
    """
    if not path.exists():
        if (other := path.with_suffix(".yml")).exists():
            raise ConfigError(
                f"{path} is not there, and {other} is not found, because Hydra reads *.yaml "
                f"alone: rename it to {path.name}"
            )
        return
    lines = path.read_text("utf-8", "replace").splitlines()
    content = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if content and content[0].startswith(("- ", "[")):
        held = "a list"
    elif group in OF_A_RUN and not any(":" in line for line in content):
        held = "no setting"
    else:
        return
    raise ConfigError(
        f"{path} holds {held}: write settings, `_target_: MODULE.CLASS` the first of them"
    )


def check_choice(group: str, option: str, known: Sequence[str]) -> None:
    """Refuse a name that is none of the options of a group."""
    if option not in known:
        raise ConfigError(unknown(f"{group}={option}", group, option, sorted(known)))


def sentence(error: BaseException, words: Sequence[str] = (), own: Sequence[Path] = ()) -> str:
    """What went wrong with these words, and with these folders of the user."""
    text = str(error)
    if isinstance(error, TaskLacks):
        return _of_task(error, words, own)
    if isinstance(error, NoSetting):
        return _no_setting(error.key, error.words, _own(own))
    if isinstance(error, PosbenchError):
        return text
    if isinstance(error, MarkedYAMLError) and (mark := error.problem_mark):
        return f"{mark.name} cannot be read: {error.problem} in line {mark.line + 1}"
    if isinstance(error, MissingConfigException) and error.missing_cfg_file in EXTRAS:
        package, extra = EXTRAS[error.missing_cfg_file]
        asking = [word for word in words if word.startswith("hydra/launcher=")]
        needed = f"{asking[-1] if asking else 'this launcher'} needs {package}"
        return f"{needed}, which is not installed: pip install 'posbench[{extra}]'"
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options:
        group, _, option = error.missing_cfg_file.rpartition("/")
        return unknown(f"{group}={option}", group, option, sorted(error.options), own)
    if isinstance(error, OverrideParseException):
        return _unreadable(error.override, own)
    if isinstance(error, InterpolationKeyError):
        return f"{error.full_key}: {text.splitlines()[0]}: `{SETTINGS}` lists all settings"
    if (ours := text.partition(OF_A_RESOLVER))[1]:
        place = getattr(error, "full_key", None)
        return f"{place}: {ours[2].splitlines()[0]}" if place else ours[2].splitlines()[0]
    if isinstance(reason := error.__cause__ or error, GrammarParseError):
        said = str(reason).splitlines()[0]
        return f"an interpolation cannot be read, {said}: write ${{section.setting}} in whole"
    if found := re.match(r"Could not override '(hydra\.launcher\.[\w.]+)'", text):
        return (
            f"{found[1]} is no setting of the launcher that is chosen: choose one that has it, as "
            "hydra/launcher=cores"
        )
    refused = _of_ours(words, own) if isinstance(error, HydraException) else None
    if isinstance(refused, NoSetting):
        return _no_setting(refused.key, words, _own(own))
    if refused is not None:
        return sentence(refused, words, own)
    return _joined(text)


RING = (
    "the command line cannot be composed, because files choose each other in a ring: look at the "
    "defaults lists of your own files"
)


def is_ring(error: BaseException) -> bool:
    """Whether Hydra came to no end with the defaults lists of files."""
    frames = traceback.walk_tb(error.__traceback__)
    return isinstance(error, RecursionError) and any(
        Path(frame.f_code.co_filename).name == "defaults_list.py" for frame, _ in frames
    )


def _of_task(error: TaskLacks, words: Sequence[str], own: Sequence[Path]) -> str:
    """What to add to the YAML of a task of the user, or which word to leave out."""
    taken = [
        word for word in words if word.startswith("~") and word.rpartition(".")[2] in error.keys
    ]
    if taken:
        first = taken[0].lstrip("~")
        return (
            f"{first} is missing, and every run needs it: leave out {taken[0]} or give it a value"
        )
    names = [word.partition("=")[2] for word in words if word.startswith("task=")]
    paths = (folder / "task" / f"{name}.yaml" for folder in _own(own) for name in names)
    found = next((path for path in paths if path.exists()), None)
    return str(error) if found is None else error.told(blame.shown(found))


def _of_ours(words: Sequence[str], own: Sequence[Path]) -> PosbenchError | None:
    """What is wrong with the words where posbench composes them itself, without those of which a
    sweep makes runs; None if Hydra alone knows.
    """
    with composing(*_own(own)):
        try:
            compose(*(word for word in words if not Word.of(word).several))
        except PosbenchError as error:
            return error
        except BROKEN:
            return None
    return None


def _own(given: Sequence[Path]) -> Sequence[Path]:
    """The folders of the user, which an initialised Hydra knows as well."""
    if not given and GlobalHydra.instance().is_initialized():
        return folders.searched()
    return given


def _joined(text: str) -> str:
    lines = (line.strip() for line in text.splitlines() if "HYDRA_FULL_ERROR" not in line)
    return " ".join(line for line in lines if line)


def _unreadable(word: str, own: Sequence[Path]) -> str:
    key, _, value = word.partition("=")
    values = value.split(",")
    if "" in values[1:] and not set(value) & set("[](){}'\""):
        return f"{word} lists an empty value: write {key}={','.join(filter(None, values))}"
    if key in folders.GROUPS and value:
        return unknown(word, key, value, folders.names(key, own), own)
    if word.endswith((".yaml", ".yml")):
        chosen_by_name = f"--config-dir FOLDER encoding={Path(word).stem}"
        return f"{word} is a file, which is chosen by its name: write {chosen_by_name}"
    if word in ("help", "version"):
        return f"{word} is no key=value: write --{word}"
    chosen = [f"{group}={word}" for group in folders.GROUPS if word in folders.names(group, own)]
    if chosen:
        return f"{word} is no key=value: write {' or '.join(chosen)}"
    return (
        f"cannot read {word!r}: write key=value, and quote what the shell or Hydra would interpret"
    )


def _no_setting(key: str, words: Sequence[str], own: Sequence[Path]) -> str:
    """About a key that is none: the setting that was meant, and those of its section."""
    sound = [word for word in map(Word.of, words) if word.key != key]
    root, choices = _chosen(sound, own)
    if "@" in key:  # a choice inside another
        inside = [choice for choice in choices if "@" in choice]
        if not inside:
            return f"{key} is no choice, because nothing here has a part to choose: leave it out"
        return f"{key} is no choice: {known_names(inside, SETTINGS, closest(key, inside))}"
    section, _, last = key.rpartition(".")
    node = OmegaConf.select(root, section) if section else None
    if not isinstance(node, DictConfig):
        return f"{key} is not a setting: {known_names([], SETTINGS, _meant(key, root))}"
    if settings := _settings(node):
        return no_setting(f"{section}.", last, settings)
    if section not in folders.GROUPS:
        return f"{key} is not a setting: {section} has none"
    name = f"{section} {choices[section]}" if choices else f"one {section} of the sweep"
    return f"{key} is not a setting: {name} has none, so choose another with {section}=NAME"


def _settings(node: DictConfig) -> list[str]:
    return [str(key) for key in node if not str(key).startswith("_") and key != "hydra"]


def _meant(key: str, root: DictConfig) -> str | None:
    """The setting that was meant, one part of the key after the other: trainng.stpes is
    training.steps, and steps is as well.
    """
    plain: Any = OmegaConf.to_container(root, resolve=False)
    sections = {name: root[name] for name in _settings(root) if isinstance(plain[name], dict)}
    if "." not in key:
        inner = [f"{name}.{key}" for name, node in sections.items() if key in _settings(node)]
        return closest(key, [*_settings(root), *folders.GROUPS]) or next(iter(inner), None)
    first, _, rest = key.partition(".")
    near = closest(first, sections)
    if near is None:
        return None
    last = closest(rest, _settings(sections[near]))
    return f"{near}.{last}" if last else near


def _chosen(words: Sequence[Word], own: Sequence[Path]) -> tuple[DictConfig, Mapping[str, Any]]:
    """The configuration that the choices among the words compose without any setting, and all
    choices in it; none where a sweep makes them differ from run to run.
    """
    choices = [word for word in words if word.group in folders.GROUPS]
    swept = any(word.several for word in choices)
    with composing(*own):
        try:
            found = compose(*(word.text for word in choices if not word.several))
        except BROKEN:  # the choices are what is wrong
            found = compose()
    return found.cfg(), {} if swept else found.choices
