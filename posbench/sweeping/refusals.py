"""Which runs of a sweep cannot be, and why: said in the plan, not found out one by one."""

from __future__ import annotations

from typing import Any

from omegaconf import OmegaConf

from posbench.composing.building import build
from posbench.composing.compose import Composition
from posbench.composing.legality import TEST_POSITIONS, TRAIN_POSITIONS, built
from posbench.content_hash import content_hash
from posbench.errors import IllegalExtension


class Refusals:
    """Answers for each method and each task once. It builds encodings, so it imports torch."""

    def __init__(self) -> None:
        self.methods: dict[str, tuple[str, str]] = {}
        self.tasks: dict[str, frozenset[str]] = {}

    def refusal(self, composed: Composition) -> str:
        """Why the method cannot be tested on the task, in words that name no other; "" if it can.

        PosbenchError if one of them cannot be built.
        """
        content = composed.content
        sections = ("encoding", "extension", "model")
        key = content_hash([content[name] for name in sections])
        if key not in self.methods:
            self.methods[key] = self._of_method(composed)
        asked, illegal = self.methods[key]
        if illegal:
            return illegal
        task = content_hash(content["task"])
        if task not in self.tasks:
            node: Any = OmegaConf.to_container(composed.cfg().task, resolve=True)
            self.tasks[task] = frozenset(build(node, "task").ids) | {"index"}
        return "" if asked in self.tasks[task] else f"it asks the task for {asked!r} position ids"

    def _of_method(self, composed: Composition) -> tuple[str, str]:
        """The position ids that it asks for, and why the extension refuses the encoding."""
        extension, stack = built(composed.cfg())
        try:
            extension.extend(stack, TRAIN_POSITIONS, TEST_POSITIONS)
        except IllegalExtension as error:
            return stack.ids, f"the extension cannot extend it: {error}"
        return stack.ids, ""
