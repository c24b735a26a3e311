"""engine: files of a connection's properties, in lines NAME=VALUE, whose values stay secret."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pipeline import errors

HIDDEN = "..."
SECRET_CHARACTERS_MIN = 3
"""A shorter value would take harmless words out of a message."""


def read(path: str | None) -> dict[str, str]:
    """Return the properties in a file; none without a file. Raises BadArgument."""
    if path is None:
        return {}
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise errors.BadArgument(
            f"the properties of the connection cannot be read: {path}"
        ) from error
    properties = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, separator, value = line.partition("=")
        if not separator or not name.strip():
            raise errors.BadArgument(f"{path}: line {number} is not NAME=VALUE")
        properties[name.strip()] = value.strip()
    return properties


@contextlib.contextmanager
def hidden(properties: Callable[[], Mapping[str, str]], *, shown: frozenset[str]) -> Iterator[None]:
    """Take the values of properties out of the block's errors. shown: names of harmless ones."""
    try:
        yield
    except errors.PipelineError as error:
        text = str(error)
        for name, value in properties().items():
            if name.lower() not in shown and len(value) >= SECRET_CHARACTERS_MIN:
                text = text.replace(value, HIDDEN)
        error.args = (text,)
        raise
