"""One PyIceberg catalog and one SQL session on a running server, for tests that compare them."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog

from sql import shell
from tests.kit import server as server_kit

EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - TIMESTAMP_NTZ has no zone


def catalog(running: server_kit.Running) -> Catalog:
    return load_catalog(
        "boathouse",
        type="rest",
        uri=running.iceberg,
        warehouse="lake",
        credential=f"{running.access_key}:{running.secret_key}",
        **{
            "s3.endpoint": running.url,
            "s3.access-key-id": running.access_key,
            "s3.secret-access-key": running.secret_key,
            "s3.path-style-access": "true",
            "s3.region": "us-east-1",
        },
    )


class Session:
    """SQL over the wire, cells as Python values."""

    def __init__(self, client: shell.Client) -> None:
        self._client = client

    def answer(self, text: str) -> Any:
        (result,) = self._client.query(text)
        return result

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        return rows_of(self.answer(text))


def rows_of(result: Any) -> list[tuple[Any, ...]]:
    """Return the rows of an answer, cells as Python values."""
    return [
        tuple(_value(column, cell) for column, cell in zip(result["rowtype"], row, strict=True))
        for row in result["rowset"]
    ]


@contextmanager
def session(running: server_kit.Running, schema: str = "") -> Iterator[Session]:
    client = shell.Client(url=running.url)
    client.login(
        user=running.access_key, password=running.secret_key, database="lake", schema=schema
    )
    try:
        yield Session(client)
    finally:
        client.logout()


def _value(column: Any, cell: str | None) -> Any:
    if cell is None:
        return None
    match column["type"].lower():
        case "fixed":
            return decimal.Decimal(cell) if column["scale"] else int(cell)
        case "real":
            return float(cell)
        case "boolean":
            return cell == "1"
        case "date":
            return EPOCH.date() + datetime.timedelta(days=int(cell))
        case "timestamp_ntz":
            return EPOCH + datetime.timedelta(microseconds=_micros(cell))
        case "timestamp_ltz":
            moment = EPOCH + datetime.timedelta(microseconds=_micros(cell))
            return moment.replace(tzinfo=datetime.UTC)
        case "binary":
            return bytes.fromhex(cell)
    return cell


def _micros(cell: str) -> int:
    return int(decimal.Decimal(cell) * 1_000_000)
