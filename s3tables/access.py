"""engine: what must be allowed before an operation begins, as far as path and query tell.

Each operation asks for the action of its own name, on the table or bucket it names. What only the
body tells (a new name, a target) the handler asks for, before it changes anything. A table that
does not exist is answered with 404 only to those who may list its bucket: to everybody else it
looks like one they may not touch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from catalog import errors as catalog_errors
from s3tables import errors, names
from s3tables.resources import Resources, Table, demand, namespace_context, table_context
from server.access import model

IN_HANDLER: Final = frozenset({"CreateTableBucket", "CreateNamespace", "CreateTable"})
"""Operations whose resource stands in the body."""

FURTHER_ACTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "GetTableMetadataLocation": ("GetTable",),
    "UpdateTableMetadataLocation": ("GetTableData", "PutTableData"),
}
"""Actions on the table that an operation needs beside the one of its own name."""

_ABSENT = (errors.NotFound, catalog_errors.CatalogError)


def demands(
    resources: Resources, operation: str, members: Mapping[str, Any]
) -> tuple[model.Demand, ...]:
    """Return what an operation with these members asks for. Members may still be malformed."""
    if operation in IN_HANDLER:
        return ()
    resource_arn = members.get("tableArn") or members.get("tableARN") or members.get("resourceArn")
    if resource_arn is not None:
        return _on_arn(resources, operation, str(resource_arn))
    bucket_arn = members.get("tableBucketARN")
    if bucket_arn is None:
        return (demand(operation, "*"),)
    namespace, name = members.get("namespace"), members.get("name")
    if namespace is None:
        return (demand(operation, bucket_arn),)
    if name is None:
        return (demand(operation, bucket_arn, context=namespace_context((namespace,))),)
    table: Table | None
    try:
        table = resources.table(bucket_arn, namespace, name)
    except _ABSENT:
        table = None
    shown = f"{bucket_arn}, table {namespace}.{name}"
    if table is None:
        context = namespace_context((namespace,))
        return (_show(demand("ListTables", bucket_arn, context=context), operation, shown),)
    return _on_table(resources, operation, table, shown)


def _on_arn(resources: Resources, operation: str, arn: str) -> tuple[model.Demand, ...]:
    name = names.parse_arn(arn)
    if name is None or name.object_uuid is None:
        return (demand(operation, arn),)
    try:
        table = resources.table_by_arn(arn)
    except _ABSENT:
        listing = demand("ListTables", arn.partition("/table/")[0])
        return (_show(listing, operation, arn),)
    return _on_table(resources, operation, table, arn)


def _on_table(
    resources: Resources, operation: str, table: Table, shown: str
) -> tuple[model.Demand, ...]:
    arn = resources.table_arn(table)
    context = table_context(table.ident)
    actions = (operation, *FURTHER_ACTIONS.get(operation, ()))
    return tuple(_show(demand(action, arn, context=context), action, shown) for action in actions)


def _show(asked: model.Demand, action: str, resource: str) -> model.Demand:
    """Return a demand whose refusal shows the same whether the table exists or not."""
    return dataclasses.replace(asked, shown=f"s3tables:{action} on resource {resource}")
