"""DuckDB with the server's catalog attached as `lake`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import duckdb_extensions

from tests.kit.server import Running


def attached(server: Running, folder: Path) -> Any:
    """Return a connection. folder: where it keeps its extensions, which come with the tests."""
    connection = duckdb.connect()
    connection.execute(f"set extension_directory = '{folder}'")
    connection.execute("set autoinstall_known_extensions = false")
    for name in ("httpfs", "avro", "iceberg"):
        duckdb_extensions.import_extension(name, con=connection)
        connection.execute(f"load {name}")
    connection.execute(
        f"""create secret lake_secret (type iceberg, client_id '{server.access_key}',
        client_secret '{server.secret_key}',
        oauth2_server_uri '{server.iceberg}/v1/oauth/tokens')"""
    )
    connection.execute(
        f"attach 'lake' as lake (type iceberg, secret lake_secret, endpoint '{server.iceberg}')"
    )
    return connection
