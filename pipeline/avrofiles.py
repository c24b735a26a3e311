"""engine: groups Avro files by the schema that each begins with.

Avro Specification 1.12, "Object Container Files": a file holds its writer's schema.
"""

from __future__ import annotations

import concurrent.futures
import json
from collections.abc import Sequence
from typing import Any

from pipeline import errors, sources

AT_ONCE = 8
FORMAT = "avro"


def grouped(s3: Any, listing: Sequence[sources.Source]) -> list[list[sources.Source]]:
    """Return sources by their schema, in the order of the listing, without empty ones.

    Raises BadSource for a file that does not begin as an Avro file, SourceChanged.
    """
    present = [source for source in listing if source.size_bytes]
    if not present:
        raise errors.every_file_empty(FORMAT)
    groups: dict[str, list[sources.Source]] = {}
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        schemas = pool.map(lambda source: _schema(s3, source), present)
        for source, schema in zip(present, schemas, strict=True):
            groups.setdefault(schema, []).append(source)
    return list(groups.values())


def _schema(s3: Any, source: sources.Source) -> str:
    """Return the schema of an Avro file as canonical JSON."""
    # Imported here: other formats need it not.
    import fastavro
    from fastavro.schema import SchemaParseException

    unreadable = (
        ValueError, EOFError, KeyError, IndexError, TypeError, RecursionError, SchemaParseException,
    )  # fmt: skip
    with sources.opened(s3, source) as stream:
        try:
            schema = fastavro.reader(stream).writer_schema
            return json.dumps(schema, sort_keys=True, default=str)
        except unreadable as error:
            raise errors.BadSource(f"{source.place} is not an Avro file: {error}") from error
