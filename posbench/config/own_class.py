"""A class of the user that a Python call is given, as commands find it: in a file, with a YAML."""

from __future__ import annotations

import importlib
import inspect
import operator
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import yaml  # type: ignore[import-untyped]

from posbench.base.disk import write_whole
from posbench.base.errors import PosbenchError
from posbench.base.wording import closest, known_names
from posbench.config import constructors
from posbench.config.folders import check_file


class OwnClass:
    """A class of the user, in a file that commands can import as well, and its YAML."""

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.group = _group_of_class(cls)
        module = sys.modules.get(cls.__module__)
        file = getattr(module, "__file__", None)
        if cls.__module__ == "__main__" or file is None:
            name = _snake(cls.__name__)
            raise PosbenchError(
                f"{cls.__name__} is in no file, and a record has the hash of its source: write it "
                f"into one, as {name}.py, and import it from there (in a notebook, %%writefile "
                f"{name}.py as the first line of a cell does that)"
            )
        if "." in cls.__qualname__:
            raise PosbenchError(
                f"{cls.__name__} is made inside {cls.__qualname__.split('.')[0]}, and a YAML names "
                f"classes of a file alone: write it at the left margin of {Path(file).name}"
            )
        parts = cls.__module__.split(".")
        levels = len(parts) - (Path(file).name != "__init__.py")
        self.folder = Path(file).resolve().parents[levels]

    def loaded_again(self) -> Self:
        """The class of that name in its module as it is loaded now."""
        module = importlib.import_module(self.cls.__module__)
        return type(self)(operator.attrgetter(self.cls.__qualname__)(module))

    @property
    def target(self) -> str:
        return f"{self.cls.__module__}.{self.cls.__qualname__}"

    def folder_with_yaml(self) -> Path | None:
        """Its folder, if a YAML there names the class."""
        return self.folder if self._yamls(self.folder) else None

    def name_in(self, folder: Path) -> str:
        """What the class is called by its YAML in a folder."""
        return self._yamls(folder)[0].stem

    def word_in(self, folder: Path) -> str:
        return f"{self.group}={self.name_in(folder)}"

    def _yamls(self, folder: Path) -> list[Path]:
        line = re.compile(rf"^_target_:\s*[\"']?{re.escape(self.target)}[\"']?\s*$", re.M)
        paths = sorted((folder / self.group).glob("*.yaml"))
        return [path for path in paths if line.search(path.read_text(encoding="utf-8"))]

    def write(self, folder: Path, settings: Mapping[str, Any]) -> Path:
        """Write its YAML into a folder: sizes come from the model, all else is a default."""
        if self.group == "task":
            raise PosbenchError(
                f"{self.cls.__name__} is a task, whose YAML says how long it is trained: write "
                f"{self.folder}/task/{_snake(self.cls.__name__)}.yaml, and give its path"
            )
        content: dict[str, Any] = {"_target_": self.target}
        parameters = inspect.signature(self.cls).parameters
        for name, parameter in parameters.items():
            size = constructors.source_of_size(name)
            if name in settings:
                content[name] = plain(settings[name])
            elif size is not None:
                content[name] = f"${{{size}}}"
            elif parameter.default is not parameter.empty:
                content[name] = plain(parameter.default)
        for unknown in sorted(settings.keys() - parameters.keys()):
            meant = known_names(parameters, "help", closest(unknown, parameters))
            raise PosbenchError(f"{self.cls.__name__} has no setting {unknown}: {meant}")
        path = folder / self.group / f"{_snake(self.cls.__name__)}.yaml"
        check_file(path, self.group)
        if path.exists():
            raise PosbenchError(
                f"{path} is there, and its _target_ is not {self.target}: correct it, or rename it"
            )
        try:
            text = yaml.safe_dump(content, sort_keys=False)
        except yaml.representer.RepresenterError as error:
            raise PosbenchError(
                f"{self.cls.__name__} has a setting that no YAML can hold, {error.args[-1]!r}: "
                "take numbers, texts and lists"
            ) from None
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
        return path


def _group_of_class(cls: type) -> str:
    from posbench.core.encoding import PositionEncoding
    from posbench.core.extension import Extension
    from posbench.core.task import Task

    kinds = {"encoding": PositionEncoding, "extension": Extension, "task": Task}
    found = [group for group, base in kinds.items() if issubclass(cls, base)]
    if not found:
        raise PosbenchError(
            f"{cls.__name__} is no class that can be checked: derive it from PositionEncoding, "
            "Extension or Task"
        )
    return found[0]


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def plain(value: Any) -> Any:
    """Numbers of numpy, pandas and torch as those of Python, and what is drawn from as a list."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, Iterator) else value
