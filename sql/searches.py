"""rule: the tokens of a text by SEARCH's analyzers, and whether a text has those of a query."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

DEFAULT = re.compile(r"[^\W_]+")
UNICODE = re.compile(r"\w+(?:['.\u2019]\w+)*")

ANALYZERS: Mapping[str, Callable[[str], set[str]]] = {
    "default_analyzer": lambda text: set(DEFAULT.findall(text.lower())),
    "unicode_analyzer": lambda text: set(UNICODE.findall(text.lower())),
    "no_op_analyzer": lambda text: {text},
}
"""Letters and digits between other characters; words, with what stands inside them; the whole."""


def matches(text: str, wanted: set[str], analyzer: str, *, every: bool) -> bool:
    """Return whether a text has one of the wanted tokens, or every one of them."""
    tokens = ANALYZERS[analyzer](text)
    return wanted <= tokens if every else not wanted.isdisjoint(tokens)
