"""How sentences put numbers, durations, values and names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Sequence

SETTINGS = "python -m posbench --cfg job"
"""The command that lists all settings."""
MANY = 15
"""More names than this are not listed in a sentence."""
LONG_WORD = re.compile(r"\S{401,}")
"""What nobody reads to its end: some paths are nearly as long."""
UNSEEN = re.compile(
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    r"\U000e0100-\U000e01ef]"
)
"""What counts as printable and has no ink, by Default_Ignorable_Code_Point of Unicode; and the
empty Braille cell.
"""


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` comes near, if there is one. Capitals do not count."""
    spelled = {each.lower(): each for each in sorted(known, reverse=True)}
    near = difflib.get_close_matches(name.lower(), sorted(spelled), n=1)
    return spelled[near[0]] if near else None


def known_names(known: Iterable[str], command: str | None, meant: str | None = None) -> str:
    """What to do about an unknown name: the one that was meant, then all, or the command that lists
    them where they are many. Without a command all are named.
    """
    names = list(known)
    if len(names) == 1:
        return f"did you mean {meant}?" if meant else f"the only one is {names[0]}"
    few = command is None or 0 < len(names) <= MANY
    others = f"choose one of {', '.join(names)}" if few else f"`{command}` lists all of them"
    return f"did you mean {meant}? {others[0].upper()}{others[1:]}" if meant else others


def no_setting(prefix: str, key: str, known: Collection[str]) -> str:
    """The sentence about a key that is none, in a section ("training.") or at the top ("")."""
    near = closest(key, known)
    meant = f"{prefix}{near}" if near else None
    return f"{prefix}{key} is not a setting: {known_names(known, SETTINGS, meant)}"


def printable(text: str) -> str:
    """The text with all that cannot be printed or seen, but for line breaks and tabs, as Python
    writes it in a string: what a terminal would obey it shows.
    """
    if text.isprintable() and not UNSEEN.search(text):
        return text
    return "".join(
        each
        if each in "\n\t" or (each.isprintable() and not UNSEEN.match(each))
        else each.encode("unicode_escape").decode()
        for each in text
    )


def reason(error: Exception) -> str:
    """Why something failed, in a line: of an error of the system without its number and file."""
    said = error.strerror if isinstance(error, OSError) else None
    return " ".join((said or str(error)).split())


def complaint(sentence: str) -> str:
    """What standard error says of a mistake: printable, and of a long word both ends alone."""
    short = LONG_WORD.sub(lambda word: f"{word[0][:100]}…{word[0][-100:]}", sentence)
    return printable(f"posbench: {short}")


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 run`, `2,000 runs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(words: Sequence[str], last: str = "and") -> str:
    """Words as a sentence lists them: "a", "a and b", "a, b and c"."""
    return f" {last} ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def agreeing(number: int, one: str, several: str) -> str:
    """The verb that agrees with a number of things: `agreeing(2, "lacks", "lack")`."""
    return one if number == 1 else several


def shown(value: object) -> str:
    """A value as it is written in YAML, strings in quotes."""
    written = {None: "null", True: "true", False: "false"}
    return written[value] if value is None or isinstance(value, bool) else repr(value)


def duration(seconds: float) -> str:
    """As people say it: "8 s", "3 min", "2.5 h", "3.1 days"."""
    for limit, unit, name in ((120, 1, "s"), (7200, 60, "min"), (48 * 3600, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.{int(name == 'h')}f} {name}"
    return f"{seconds / 86400:.1f} days"
