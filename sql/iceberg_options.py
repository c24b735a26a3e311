"""rule: what the options of CREATE ICEBERG TABLE say of the place of a table's files.

EXTERNAL_VOLUME names the bucket of the database, and BASE_LOCATION the table's folder in it.
"""

from __future__ import annotations

from catalog import idents, locations
from sql import errors
from sql.dialect import operations


def base_path(statement: operations.CreateTable) -> str | None:
    """Return the path of BASE_LOCATION in the bucket; None if the catalog chooses the location."""
    location = statement.base_location
    return None if location is None else location.removesuffix("/")


def check(statement: operations.CreateTable, ident: idents.TableIdent, *, kept: str | None) -> None:
    """Raise SqlError unless the options are true of the table.

    kept: the location of the table of that name, which the statement does not change.
    """
    volume, path = statement.external_volume, base_path(statement)
    if volume is not None and volume.lower() != ident.table_bucket:
        raise errors.invalid_option(
            f"EXTERNAL_VOLUME '{volume}': the files of this database lie in its own bucket, which"
            f" is the volume '{ident.table_bucket}'"
        )
    if path is None or kept is None:
        return
    current_path = locations.path_in(kept, table_bucket=ident.table_bucket)
    if current_path is None or not locations.is_based(current_path, path):
        raise errors.invalid_option(
            f"BASE_LOCATION '{statement.base_location}': OR REPLACE keeps the location of a table,"
            f" which is {kept}. Drop the table first to have it elsewhere"
        )
