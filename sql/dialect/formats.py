"""rule: Snowflake's date and time format models as the engine's (strftime-like) patterns.

A model is read greedily, longest element first, case-insensitively. Other characters than letters
stand for themselves, and so does text in double quotes. A letter that belongs to no element is
refused, so that no format silently means something else.
"""

from __future__ import annotations

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


ELEMENTS = {
    "TZHTZM": "%z",
    "TZH:TZM": "%:z",
    "YYYY": "%Y",
    "MMMM": "%B",
    "HH24": "%H",
    "HH12": "%I",
    "MON": "%b",
    "FF0": "",
    "FF3": "%3f",
    "FF6": "%6f",
    "FF9": "%9f",
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
PARSED = {**ELEMENTS, "FF": "%f", "FF0": "", "FF3": "%f", "FF6": "%f", "FF9": "%f", "TZH:TZM": "%z"}
ZONE = "UTC"
"""Stands for itself, as in Snowflake: the name of a zone after a moment."""
LONGEST_FIRST = sorted(ELEMENTS, key=len, reverse=True)


def engine_pattern(model: str) -> str:
    """Return the engine's pattern for model; raises SqlError 000002 for an unknown element."""
    return _pattern(model, ELEMENTS)


def strptime_pattern(model: str) -> str:
    """Return the pattern for reading text by model, as a Python pattern."""
    return _pattern(model, PARSED)


def _pattern(model: str, elements: dict[str, str]) -> str:
    parts, index = [], 0
    upper = model.upper()
    while index < len(model):
        element = next((item for item in LONGEST_FIRST if upper.startswith(item, index)), None)
        if element is not None:
            parts.append(elements[element])
            index += len(element)
        elif model[index] == '"' and '"' in model[index + 1 :]:
            end = model.index('"', index + 1)
            parts.append(model[index + 1 : end].replace("%", "%%"))
            index = end + 1
        elif upper.startswith(ZONE, index):
            parts.append(model[index : index + len(ZONE)])
            index += len(ZONE)
        elif model[index].isalpha() and model[index] not in "Tt":
            raise errors.unsupported(f"format element '{model[index:]}'")
        else:
            parts.append("%%" if model[index] == "%" else model[index])
            index += 1
    return "".join(parts)
