"""rule: what listings say of a table, a view and their columns.

Values come from a table's metadata, in Snowflake's spelling. Never reads anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sql import column_defaults, keys, offsets, tabletypes
from sql.dialect import clustering, names, sqltypes

if TYPE_CHECKING:
    from catalog import idents, records, tables
    from sql import fileformats, stored_views


@dataclass(frozen=True, kw_only=True, slots=True)
class Description:
    """A table's or view's values in listings.

    rows and size_bytes are None, and columns are empty, for a table whose metadata cannot be read
    or that the caller may list but not load. rows and size_bytes are None for every view. view:
    its query and the like; None for a table, and for a view that is described no further.
    cluster_keys: transforms and columns of the clustering key, as reported. definition: the
    statement that creates a view. is_declared: a table that was created as an ICEBERG one, or by a
    client of another API.
    is_temporary: a table of the session alone. is_transient: a table that was created as such.
    retention_days: DATA_RETENTION_TIME_IN_DAYS, where it is set. dropped_at_ms: of a dropped table.
    stage_format: STAGE_FILE_FORMAT, where it is set.
    """

    ident: idents.TableIdent
    object_type: records.ObjectType
    created_at_ms: int
    altered_at_ms: int
    rows: int | None
    size_bytes: int | None
    comment: str
    owner: str
    cluster_keys: tuple[tuple[str, str], ...]
    columns: Sequence[ColumnDescription]
    keys: Sequence[keys.KeyDescription] = ()
    view: stored_views.View | None = None
    definition: str = ""
    is_declared: bool = True
    is_temporary: bool = False
    is_transient: bool = False
    retention_days: int | None = None
    dropped_at_ms: int | None = None
    stage_format: fileformats.FileFormat | None = None

    @property
    def cluster_by(self) -> str:
        """The clustering key as listings have it; "" without one."""
        written = [clustering.written(transform, name) for transform, name in self.cluster_keys]
        return f"LINEAR({', '.join(written)})" if written else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnDescription:
    """One column of a table. name: as reported. default: the expression's text; "" without."""

    name: str
    type: sqltypes.SqlType
    nullable: bool
    comment: str
    default: str = ""
    identity: tuple[int, int] | None = None

    @property
    def autoincrement(self) -> str:
        """The start and increment of AUTOINCREMENT as SHOW COLUMNS has them; "" without."""
        if self.identity is None:
            return ""
        start, increment = self.identity
        return f"IDENTITY START {start} INCREMENT {increment} ORDER"


def columns_of(loaded: tables.LoadedTable) -> list[ColumnDescription]:
    """Return a table's current columns."""
    fields = offsets.columns(loaded.metadata)
    shape = tabletypes.shape_columns(fields, loaded.metadata.properties)
    defaults = column_defaults.read(loaded.metadata.properties)
    return [
        ColumnDescription(
            name=column.shown,
            type=column.type,
            nullable=column.nullable,
            comment=str(field.get("doc", "")),
            default=_default_text(field, column.type, defaults.get(field["id"])),
            identity=defaults[field["id"]].identity if field["id"] in defaults else None,
        )
        for field, column in zip(fields, shape, strict=True)
    ]


def _default_text(
    field: Mapping[str, Any], sql_type: sqltypes.SqlType, default: column_defaults.Default | None
) -> str:
    """Return a default as Snowflake SQL; "" without one, and for AUTOINCREMENT."""
    if default is not None:
        if default.sequence:
            return ".".join((*map(names.written, default.sequence), "NEXTVAL"))
        return default.expression
    constant = field.get("write-default")
    if constant is None:
        return ""
    if isinstance(constant, bool):
        return str(constant).upper()
    if sql_type.name in ("fixed", "real"):
        return str(constant)
    text = "'" + str(constant).replace("\\", "\\\\").replace("'", "''") + "'"
    return text if sql_type.name == "text" else f"CAST({text} AS {sqltypes.shown(sql_type)})"


def view_columns(view: stored_views.View) -> list[ColumnDescription]:
    """Return a view's columns."""
    return [
        ColumnDescription(
            name=column.shown,
            type=column.type,
            nullable=column.nullable,
            comment=comment,
        )
        for column, comment in zip(view.columns, view.comments, strict=True)
    ]
