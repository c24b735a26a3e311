"""engine: loads a small data set through the public APIs, without Spark and Java.

The penguins of Palmer Station: 344 birds of three species, measured 2007 to 2009 by Dr. Kristen
Gorman and the Palmer Station LTER, released under CC0 (Horst, Hill and Gorman 2020).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline import errors, settings

FILE = Path(__file__).with_name("data") / "penguins.csv"
NAMESPACE = "samples"
NAME = "penguins"
TABLE = f"{NAMESPACE}.{NAME}"


def load(server: settings.ServerEndpoint, warehouse: str) -> int:
    """Create and fill the table in one commit; return the row count. A second call has no effect.

    Raises PipelineError.
    """
    # Imported here: Spark's jobs need none of them.
    import requests
    from pyiceberg.exceptions import RESTError

    try:
        return _load(server, warehouse)
    except requests.RequestException as error:
        raise errors.NoServer(f"the server does not answer: {error}") from error
    except RESTError as error:
        raise errors.PipelineError(f"the server refused: {error}") from error


def _load(server: settings.ServerEndpoint, warehouse: str) -> int:
    # Imported here: Spark's jobs need none of them.
    import pyarrow.csv
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError

    catalog = load_catalog(
        warehouse,
        type="rest",
        uri=server.iceberg,
        warehouse=warehouse,
        credential=f"{server.access_key}:{server.secret_key}",
        **{"oauth2-server-uri": f"{server.iceberg}/v1/oauth/tokens"},
    )
    rows: Any = pyarrow.csv.read_csv(
        FILE,
        convert_options=pyarrow.csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True),
    )
    catalog.create_namespace_if_not_exists(NAMESPACE)
    try:
        with catalog.create_table_transaction(TABLE, schema=rows.schema) as transaction:
            transaction.append(rows)
    except (TableAlreadyExistsError, CommitFailedException) as error:
        if not catalog.table_exists(TABLE):
            raise errors.PipelineError(f"the sample data could not be loaded: {error}") from error
    return int(rows.num_rows)
