"""rule: the closed set of statements: every text becomes one of these, or is refused.

Trees are sqlglot's. Only `sql.dialect` reads them; other modules pass them on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from sql.dialect import names, sqltypes

Tree: TypeAlias = Any
"""A sqlglot expression; opaque outside `sql.dialect`."""

ELSEWHERE: Final = "elsewhere"
"""Stands for a tree in another process."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """SELECT, WITH, VALUES and their set operations."""

    tree: Tree


@dataclass(frozen=True, kw_only=True, slots=True)
class Explain:
    """EXPLAIN [USING TEXT | TABULAR] of a query."""

    tree: Tree


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnDefinition:
    """One column of CREATE TABLE. type None: a CTAS column list with names only.

    declared: the type as it is declared, when the stored type does not say it.
    """

    name: names.Ident
    type: sqltypes.SqlType | None
    required: bool = False
    comment: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateTable:
    """CREATE [OR REPLACE] [TRANSIENT] [ICEBERG] TABLE, with or without AS query.

    partition_by: (transform, column) pairs; cluster_by: columns the files are sorted by.
    """

    name: names.Name
    columns: tuple[ColumnDefinition, ...]
    query: Tree | None = None
    replace: bool = False
    if_not_exists: bool = False
    comment: str | None = None
    partition_by: tuple[tuple[str, names.Ident], ...] = ()
    cluster_by: tuple[names.Ident, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateSchema:
    name: names.Name
    if_not_exists: bool = False
    comment: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class DropTable:
    name: names.Name
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class DropSchema:
    name: names.Name
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Insert:
    """INSERT [OVERWRITE] INTO. columns empty: all, in order. source: a query, or VALUES rows."""

    name: names.Name
    columns: tuple[names.Ident, ...]
    source: Tree
    overwrite: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Truncate:
    """TRUNCATE [TABLE] [IF EXISTS] of a table."""

    name: names.Name
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    object_type: Literal["database", "schema", "warehouse", "role", "secondary roles", ""]
    name: names.Name


@dataclass(frozen=True, kw_only=True, slots=True)
class SetVariables:
    """SET. values: a SELECT of them, in the order of names."""

    names: tuple[names.Ident, ...]
    values: Tree


@dataclass(frozen=True, kw_only=True, slots=True)
class UnsetVariables:
    names: tuple[names.Ident, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class AlterSession:
    """ALTER SESSION SET name = value ..., or UNSET name, ..."""

    set: tuple[tuple[str, str | int | bool], ...] = ()
    unset: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class BeginTransaction:
    """BEGIN. name: "" for none."""

    name: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitTransaction:
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class RollbackTransaction:
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class Show:
    """SHOW. listing: its name in upper case, such as "TABLES" or "USER FUNCTIONS".

    scope_type: the type of the object that IN names; "" means no IN clause. scope: the object's
    name, if IN has one.
    """

    listing: str
    terse: bool = False
    history: bool = False
    like: str | None = None
    scope_type: Literal["", "account", "database", "schema", "table", "session", "name"] = ""
    scope: names.Name = ()
    starts_with: str | None = None
    limit: int | None = None
    limit_from: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Describe:
    object_type: Literal["table", "view", "schema", "database"]
    name: names.Name


Operation: TypeAlias = (
    Query
    | Explain
    | CreateTable
    | CreateSchema
    | DropTable
    | DropSchema
    | Insert
    | Truncate
    | Use
    | SetVariables
    | UnsetVariables
    | AlterSession
    | BeginTransaction
    | CommitTransaction
    | RollbackTransaction
    | Show
    | Describe
)
