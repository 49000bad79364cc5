"""An extension of some layers alone."""

from __future__ import annotations

from posbench.base.errors import ConfigError, IllegalExtension
from posbench.core.encoding import EncodingStack
from posbench.core.extension import Extension, ExtensionWrapper, Searched


class Only(ExtensionWrapper):
    r"""An extension applies to some layers, and all others stay as they were trained.

    What `extension` makes of the `layers`, with all others as they were trained.

    Layers are counted from 0 within the pattern that an encoding repeats over the depth, and from
    its end with -1, so that [-1] are the full layers where windows come first: the Gemma and OLMo
    models, Llama 4. It is what a dictionary of rotations by kind of layer says in transformers.
    OLMo 3 stretches full layers alone, Gemma 3 interpolates them alone, Llama 4 and SWAN-GPT
    sharpen the layers without rotation. An encoding that is the same in every layer has a pattern
    of one.
    """

    def __init__(self, extension: Extension, layers: list[int]) -> None:
        super().__init__(extension)
        if extension.trains or isinstance(extension, Searched):
            raise ConfigError(
                f"{type(extension).__name__} trains or searches for another extension and cannot "
                "be for some layers: give it the choice of layers as its extension"
            )
        if not layers or len(set(layers)) < len(layers):
            raise ConfigError(
                f"layers names places in the pattern of layers, each once and one at least, got "
                f"{list(layers)}"
            )
        self.layers = tuple(layers)

    def chosen(self, stack: EncodingStack) -> list[int]:
        """The indices of the layers that it changes."""
        period = len(stack.firsts)
        if absent := [place for place in self.layers if not -period <= place < period]:
            raise IllegalExtension(
                f"layers {absent} are not in the pattern of this encoding: it repeats after "
                f"{period}, counted from 0, or from -1 at its end"
            )
        places = {place % period for place in self.layers}
        return [index for index in range(len(stack)) if index % period in places]

    def part(self, stack: EncodingStack) -> EncodingStack:
        return stack.replaced([stack.layers[index] for index in self.chosen(stack)])  # type: ignore[misc]

    def extend(
        self, stack: EncodingStack, train_positions: int, test_positions: int
    ) -> EncodingStack:
        chosen = self.chosen(stack)
        try:
            part = self.extension.extend(self.part(stack), train_positions, test_positions)
        except IllegalExtension as refusal:
            raise IllegalExtension(
                f"layers {list(self.layers)} of the pattern cannot be extended: {refusal}"
            ) from None
        extended = dict(zip(chosen, part, strict=True))
        return stack.replaced([extended.get(index, layer) for index, layer in enumerate(stack)])
