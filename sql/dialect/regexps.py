"""rule: what the binder reads of a constant regular expression. Nothing is compiled.

Compiling a pattern of 1,000 characters may take a second (`(?i)[a-\\uffff]` two hundred times), and
statements are bound on the event loop. A pattern that is none is refused when the query runs.
"""

from __future__ import annotations

import re
from typing import Final

_TOKENS: Final = re.compile(
    r"""
      \\Q.*?(?:\\E|\Z)  # quoted text
    | \\.               # an escaped character
    | \[:\^?[a-z]+:\]   # a named class within a class
    | \[\^?\]?          # a class begins; a bracket that comes first is a character of it
    | \]
    | \((?!\?)          # a group without a name
    | \(\?P?<(?![=!])   # a group with a name
    """,
    re.VERBOSE | re.DOTALL,
)
_CLASS_ENDS: Final = frozenset({"]", "[]", "[^]"})


def group_count(pattern: str) -> int:
    """Return the number of groups that a pattern captures, in time in proportion to its length."""
    groups = 0
    in_class = False
    for token in _TOKENS.findall(pattern):
        if in_class:
            in_class = token not in _CLASS_ENDS
        elif token.startswith("("):
            groups += 1
        else:
            in_class = token.startswith("[") and not token.endswith(":]")
    return groups
