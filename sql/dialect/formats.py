"""rule: Snowflake's date and time format models as the engine's (strftime-like) patterns.

A model is read greedily, longest element first, case-insensitively. Other characters than letters
stand for themselves, and so do text in double quotes and words without an element in them. Other
letters that belong to no element are refused, and so are words that other databases have as
elements, so that no format silently means something else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from sql import errors

AUTO: Final = "AUTO"
"""The input format that takes every usual form."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Forms:
    """The session's output formats, by which values become text."""

    date: str = "YYYY-MM-DD"
    time: str = "HH24:MI:SS"
    timestamp_ntz: str = "YYYY-MM-DD HH24:MI:SS.FF3"
    timestamp_ltz: str = "YYYY-MM-DD HH24:MI:SS.FF3 TZHTZM"
    timestamp_tz: str = "YYYY-MM-DD HH24:MI:SS.FF3 TZHTZM"
    binary: str = "HEX"


DEFAULT = Forms()


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """The session's input formats, by which texts become dates and times. AUTO: every usual form.

    century_start: the first year that two digits can mean.
    """

    date: str = AUTO
    time: str = AUTO
    timestamp: str = AUTO
    century_start: int = 1970

    def model(self, type_name: str) -> str | None:
        """Return the model for texts that become a type; None for AUTO and for other types."""
        name = "timestamp" if type_name.startswith("timestamp_") else type_name
        model = {"date": self.date, "time": self.time, "timestamp": self.timestamp}.get(name, AUTO)
        return None if model == AUTO else model


FRACTIONS = range(1, 10)
"""Digits of a second that an element may name."""

ELEMENTS = {
    "TZHTZM": "%z",
    "TZH:TZM": "%:z",
    "TZH": "%:::z",
    "YYYY": "%Y",
    "MMMM": "%B",
    "HH24": "%H",
    "HH12": "%I",
    "MON": "%b",
    "FF0": "",
    **{f"FF{digits}": f"%{digits}f" for digits in FRACTIONS},
    "FF": "%9f",
    "YY": "%y",
    "MM": "%m",
    "DD": "%d",
    "DY": "%a",
    "AM": "%p",
    "PM": "%p",
    "MI": "%M",
    "SS": "%S",
}
PARSED = {
    **{element: pattern for element, pattern in ELEMENTS.items() if element != "TZH"},
    "FF": "%f",
    **{f"FF{digits}": "%f" for digits in FRACTIONS},
    "TZH:TZM": "%z",
}
DIRECTIVE = re.compile("%(.)")
"""What reads a value in a Python pattern; `%%` stands for itself."""
SHOWN_MAX: Final = 100
"""Characters of a model that a message quotes."""
ZONE = "UTC"
"""Stands for itself, as in Snowflake: the name of a zone after a moment."""
WORD = re.compile("[A-Z]+[0-9]*")
FOREIGN = re.compile(r"(?!T$)([A-Z])\1*|I?[WY]+|DAY|WEEK|QUARTER|YEAR|AD|BC|US|TZ[A-Z]?")
"""Words that are elements of other databases' models."""


def engine_pattern(model: str) -> str:
    """Return the pattern for writing by model; raises SqlError 000002 for an unknown element.

    It is the engine's, but for `%:::z`, the hours of an offset, and for numbers of digits of a
    second from 1 to 9, of which the engine has 3, 6 and 9 (`sql.dialect.casts.moment_text`).
    """
    return _pattern(model, ELEMENTS)


def has_offset(model: str) -> bool:
    """Whether a model writes an offset from UTC: it has TZH or TZM outside of double quotes."""
    return re.search("TZ[HM]", re.sub('"[^"]*"', "", model.upper())) is not None


def strptime_pattern(model: str) -> str:
    """Return the pattern for reading text by model, as a Python pattern.

    Raises SqlError 000002 for an unknown element, and for one that stands twice: Python reads no
    such pattern.
    """
    pattern = _pattern(model, PARSED)
    directives = [letter for letter in DIRECTIVE.findall(pattern) if letter != "%"]
    if len(set(directives)) < len(directives):
        raise errors.unsupported(f"format model '{model[:SHOWN_MAX]}' with an element twice")
    return pattern


def _pattern(model: str, elements: dict[str, str]) -> str:
    parts, index = [], 0
    upper = model.upper()
    longest_first = sorted(elements, key=len, reverse=True)
    while index < len(model):
        element = next((item for item in longest_first if upper.startswith(item, index)), None)
        word = _literal_word(upper, index, elements)
        if word:
            parts.append(model[index : index + len(word)])
            index += len(word)
        elif element is not None:
            parts.append(elements[element])
            index += len(element)
        elif model[index] == '"' and '"' in model[index + 1 :]:
            end = model.index('"', index + 1)
            parts.append(model[index + 1 : end].replace("%", "%%"))
            index = end + 1
        elif upper.startswith(ZONE, index):
            parts.append(model[index : index + len(ZONE)])
            index += len(ZONE)
        elif model[index].isalpha() and upper[index] != "T" and not _is_utc(upper, index):
            raise errors.unsupported(f"format element '{model[index:]}'")
        else:
            parts.append("%%" if model[index] == "%" else model[index])
            index += 1
    return "".join(parts)


def _literal_word(upper: str, index: int, elements: dict[str, str]) -> str:
    """Return the word that begins at index if it stands for itself; "" if there is none."""
    match = WORD.match(upper, index)
    if match is None or (index and upper[index - 1].isalpha()) or FOREIGN.fullmatch(match[0]):
        return ""
    return "" if any(element in match[0] for element in elements) else match[0]


def _is_utc(upper: str, index: int) -> bool:
    """Whether the Z after a moment in UTC stands at index, which is its own text."""
    is_last = not upper[index + 1 : index + 2].isalpha()
    return upper[index] == "Z" and is_last and upper[:index][-1:] != "T"
