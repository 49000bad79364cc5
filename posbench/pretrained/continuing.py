"""Pieces of a text as the whole text has them.

A tokenizer made with SentencePiece puts a space in front of whatever it is given. A piece that is
tokenized apart then gets one that no text has: an answer is wanted behind two spaces, and each line
begins with one. Such a tokenizer is given a piece with a word or a line before it, whose tokens are
cut off again. Under any tokenizer, a question and its answer must be the tokens of both together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from posbench.base.errors import ConfigError
from posbench.pretrained.text_tasks import Asked, Pieces

WORD, LINE = "x", "x\n"
"""What comes before a piece that begins with a space, and before any other: a line of its own."""
PROBES = ("The road", "N1", "VAR", " 7", " window")
"""The kinds of beginnings that pieces have."""


class Checked(Pieces):
    """Pieces of which questions and answers are shown to be what a whole text has."""

    def question(self, asked: Asked) -> list[int]:
        """The tokens before an answer.

        Raises `ConfigError` if those of the answer do not simply follow, or if all of them together
        no longer say what was asked and answered.
        """
        tokens = super().question(asked)
        # In a chat the question ends the message, and the lead alone comes before the answer.
        lead = asked.lead if self.reply is not None else f"{asked.question} {asked.lead}".strip()
        whole = self(lead + asked.answer)
        if whole != self(lead) + self(asked.answer):
            raise ConfigError(
                f"the tokenizer joins the answer {asked.answer!r} with what is before it, "
                f"{lead!r}, so no token begins it: choose another task, or a model with another "
                "tokenizer"
            )
        said = self.tokenizer.decode(whole, clean_up_tokenization_spaces=False)
        if said != lead + asked.answer:
            raise ConfigError(
                f"the tokenizer makes {said!r} of {lead + asked.answer!r}, so its tokens are not "
                "those of the text: choose a model whose tokenizer keeps every character"
            )
        return tokens


class Continuing(Checked):
    """Pieces without what the tokenizer puts in front of every text.

    The first line of a text has none of it either.
    """

    def __init__(self, tokenizer: Any, chat: bool = False) -> None:
        apart = Pieces(tokenizer)
        self.known = {before: apart(before) for before in (WORD, LINE)}
        super().__init__(tokenizer, chat)

    def __call__(self, text: str) -> list[int]:
        before = WORD if text[:1].isspace() else LINE
        tokens, known = super().__call__(before + text), self.known[before]
        if tokens[: len(known)] != known:
            raise ConfigError(
                f"the tokenizer joins {text!r} with the line before it, so its tokens cannot be "
                "counted: choose a model with another tokenizer"
            )
        return tokens[len(known) :]


def pieces(tokenizer: Any, chat: bool = False) -> Checked:
    """Pieces as they are, unless the tokenizer gives them other tokens than a text would."""
    return (Continuing if _puts_in_front(tokenizer, PROBES) else Checked)(tokenizer, chat)


def _puts_in_front(tokenizer: Any, texts: Sequence[str]) -> bool:
    apart, inside = Pieces(tokenizer), Continuing(tokenizer)
    try:
        return any(apart(text) != inside(text) for text in texts)
    except ConfigError:  # a line end is lost or joined, so there is nothing to cut off
        return False
