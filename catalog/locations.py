"""rule: locations of tables and views in their table bucket, and which are free.

A location is `s3://{table_bucket}/{path}`; its path has two to seventeen segments. A table or view
has its location alone: no other may be at, inside, or around it. The index keeps a row for every
location ever assigned and, for paths deeper than two segments, a row for each ancestor, so that
point reads find every overlap, whatever the number of siblings.
Never opens anything, and never checks access.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Final

from catalog import errors, idents, layout, properties
from server.s3 import guard

PATH_BYTES_MAX: Final = 400
SUFFIX_CHARACTERS: Final = 8
PATHS_REMEMBERED: Final = 1024
SUFFIX: Final = re.compile(f"[0-9a-f]{{{SUFFIX_CHARACTERS}}}")

_ESCAPED_IN_LEVEL = frozenset("./%?#*\\")
_ESCAPED_IN_NAME = frozenset("/%?#*\\")


@functools.lru_cache(PATHS_REMEMBERED)
def namespace_path(namespace: idents.Namespace) -> str:
    """Return the one segment for a namespace's tables: its levels joined by dots.

    Dots inside a level are escaped, so that two namespaces never share a segment.
    """
    return ".".join(_escape(level, _ESCAPED_IN_LEVEL) for level in namespace)


def tables_path(
    namespace: idents.Namespace, namespace_properties: Mapping[str, str], *, table_bucket: str
) -> str:
    """Return the path for new tables of a namespace."""
    location = namespace_properties.get(properties.NAMESPACE_LOCATION)
    if location is None:
        return namespace_path(namespace)
    return check_namespace_location(location, table_bucket=table_bucket)


def default_path(*, parent_path: str, name: str, suffix: str = "") -> str:
    """Return the path of a new table below parent_path if its creator names no location."""
    segment = _escape(name, _ESCAPED_IN_NAME)
    if segment.startswith("."):
        segment = "%2E" + segment[1:]
    path = f"{parent_path}/{segment}" + (f"-{suffix}" if suffix else "")
    check_path(path)
    return path


def is_based(path: str, base_path: str) -> bool:
    """Return whether path is base_path, or base_path with the suffix of one that was used."""
    stem, separator, suffix = path.rpartition("-")
    has_suffix = separator == "-" and SUFFIX.fullmatch(suffix) is not None
    return path == base_path or (has_suffix and stem == base_path)


def format_uri(table_bucket: str, path: str) -> str:
    """Return the location of a path, as in metadata."""
    return f"s3://{table_bucket}/{path}"


def parse_location(location: str, *, table_bucket: str) -> str:
    """Return the path of a location in this table bucket. Raises InvalidLocation."""
    path = path_in(location, table_bucket=table_bucket)
    if path is None:
        raise errors.InvalidLocation(
            f"Invalid location {location}: it must lie in s3://{table_bucket}/"
        )
    check_path(path)
    return path


def path_in(uri: str, *, table_bucket: str) -> str | None:
    """Return the path of uri below the table bucket, or None if it is elsewhere."""
    plain = properties.plain_uri(uri)
    prefix = f"s3://{table_bucket}/"
    if not plain.startswith(prefix):
        return None
    return plain[len(prefix) :]


def check_path(path: str) -> None:
    """Raise InvalidLocation unless files below path pass the layout rules."""
    if len(path.encode("utf-8", "surrogatepass")) > PATH_BYTES_MAX:
        raise errors.InvalidLocation(
            f"Invalid location: its path is longer than {PATH_BYTES_MAX} bytes"
        )
    try:
        layout.check_location(path)
    except guard.LayoutRefused as refused:
        raise errors.InvalidLocation(f"Invalid location: {refused}") from refused
    if any(character in path for character in "?#*"):
        raise errors.InvalidLocation(
            f"Invalid location: {path} holds one of ? # *, which have a meaning in clients' URIs"
        )


def check_namespace_location(location: str, *, table_bucket: str) -> str:
    """Return the path that a namespace's location sets for its tables. Raises InvalidLocation."""
    path = path_in(location, table_bucket=table_bucket)
    if not path:
        raise errors.InvalidLocation(
            f"Invalid namespace location {location}: it must lie below s3://{table_bucket}/"
        )
    check_path(f"{path}/x")
    return path


def ancestors(path: str) -> tuple[str, ...]:
    """Return the paths above path that could be locations, longest first."""
    segments = path.split("/")
    return tuple(
        "/".join(segments[:depth])
        for depth in range(len(segments) - 1, layout.LOCATION_SEGMENTS_MIN - 1, -1)
    )


def _escape(text: str, characters: frozenset[str]) -> str:
    if not characters.intersection(text):
        return text
    return "".join(f"%{ord(char):02X}" if char in characters else char for char in text)
