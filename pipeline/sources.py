"""engine: the raw objects a load reads, as the S3 API lists them.

An object is named by its place and its ETag; that pair is what "already loaded" means. Directory
markers, hidden files and files whose name starts with `_` are no data, as Spark and Hive hold.
"""

from __future__ import annotations

import codecs
import concurrent.futures
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline import errors, settings

SOURCES_MAX = 100_000
HEADER_BYTES_MAX = 64 * 1024
HEADERS_AT_ONCE = 16


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Source:
    """One raw object. etag is bare."""

    place: str
    etag: str
    size_bytes: int

    @property
    def path(self) -> str:
        """The name by which Spark's S3A reads it."""
        return "s3a" + self.place.removeprefix("s3")


def client(server: settings.Server) -> Any:
    """Return a boto3 S3 client for the server."""
    # Imported here: a job's `--help` need not load an AWS SDK.
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3",
        endpoint_url=server.url,
        region_name=server.region,
        aws_access_key_id=server.access_key,
        aws_secret_access_key=server.secret_key,
        config=Config(s3={"addressing_style": "path"}),
    )


def listed(s3: Any, place: settings.Place) -> tuple[Source, ...]:
    """Return every data object at place, in order of keys. Raises BadArgument."""
    found: list[Source] = []
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=place.bucket, Prefix=place.prefix)
    try:
        for page in pages:
            found.extend(_data_objects(place.bucket, page.get("Contents", ())))
            if len(found) > SOURCES_MAX:
                raise errors.BadArgument(
                    f"more than {SOURCES_MAX:,} objects below s3://{place.bucket}/{place.prefix}; "
                    "load a narrower prefix"
                )
    except s3.exceptions.NoSuchBucket as error:
        raise errors.BadArgument(f"there is no bucket {place.bucket!r}") from error
    return tuple(found)


def changed(s3: Any, place: settings.Place, read: Iterable[Source]) -> tuple[Source, ...]:
    """Return those of `read` that are gone or have another ETag by now."""
    present = set(listed(s3, place))
    return tuple(source for source in read if source not in present)


def by_header(s3: Any, found: Sequence[Source]) -> list[list[Source]]:
    """Return the CSV sources in groups of the same first line, empty files left out."""

    def header(source: Source) -> bytes:
        bucket, _, key = source.place.removeprefix("s3://").partition("/")
        if not source.size_bytes:
            return b""
        body = s3.get_object(Bucket=bucket, Key=key, Range=f"bytes=0-{HEADER_BYTES_MAX - 1}")[
            "Body"
        ]
        line: bytes = body.read().split(b"\n", 1)[0]
        return line.removeprefix(codecs.BOM_UTF8).rstrip(b"\r")

    groups: dict[bytes, list[Source]] = {}
    with concurrent.futures.ThreadPoolExecutor(HEADERS_AT_ONCE) as pool:
        for source, line in zip(found, pool.map(header, found), strict=True):
            if line:
                groups.setdefault(line, []).append(source)
    if not groups:
        raise errors.BadArgument("every CSV file is empty: there is no header to name columns")
    return list(groups.values())


def _data_objects(bucket: str, contents: Iterable[Mapping[str, Any]]) -> Iterable[Source]:
    for entry in contents:
        name = entry["Key"].rsplit("/", 1)[-1]
        if name and not name.startswith((".", "_")):
            yield Source(
                place=f"s3://{bucket}/{entry['Key']}",
                etag=entry["ETag"].strip('"'),
                size_bytes=entry["Size"],
            )
