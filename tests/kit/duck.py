"""DuckDB with extensions that come with the tests, and with the server's catalog as `lake`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extensions

from tests.kit.server import Running

CATALOG = ("httpfs", "avro", "iceberg")
"""What a REST catalog's tables need."""


def opened(folder: Path, extensions: Sequence[str] = CATALOG) -> Any:
    """Return a connection with extensions, never from the network. folder: they lie there."""
    connection = duckdb.connect()
    connection.execute(f"set extension_directory = '{folder}'")
    connection.execute("set autoinstall_known_extensions = false")
    for name in extensions:
        duckdb_extensions.import_extension(name, con=connection)
        connection.execute(f"load {name}")
    return connection


def attached(server: Running, folder: Path) -> Any:
    """Return a connection with the catalog attached. folder: as in `opened`."""
    connection = opened(folder)
    connection.execute(
        f"""create secret lake_secret (type iceberg, client_id '{server.access_key}',
        client_secret '{server.secret_key}',
        oauth2_server_uri '{server.iceberg}/v1/oauth/tokens')"""
    )
    attach(connection, server)
    return connection


def attach(connection: Any, server: Running) -> None:
    """Attach the catalog again, once it is detached: DuckDB then reads each table anew."""
    connection.execute(
        f"attach 'lake' as lake (type iceberg, secret lake_secret, endpoint '{server.iceberg}')"
    )
