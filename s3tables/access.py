"""engine: the permissions that an operation needs, as far as its path and query determine them.

Each operation demands the action of its own name on the table or bucket it names. Permissions that
depend on the body (a new name, a target, tags) are demanded by the handler, before it changes
anything.
A missing table is answered 404 only to a caller who may list its bucket; for any other caller the
answer is the one for a table that they may not access.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from catalog import errors as catalog_errors
from catalog import rights
from s3tables import errors, names
from s3tables.resources import Resources, TableResource, subject_of
from server import calls
from server.access import decide, model

_ABSENT = (errors.NotFound, catalog_errors.CatalogError)


def demands(
    resources: Resources, call: calls.Call, *, actions: Sequence[str]
) -> tuple[model.Demand, ...]:
    """Return the demands for actions on the resource that a call's path and query name.

    actions: the first is the operation's own name. Members may still be malformed, and without the
    body's.
    """
    context = context_of(call.value.members)
    named = _named(resources, call.value.members, actions)
    return tuple([rights.in_request(demand, context) for demand in named])


def context_of(members: Mapping[str, Any]) -> model.Context:
    """Return the condition keys of a request's tags and encryption."""
    context = decide.request_tags(members.get("tags") or {})
    if members.get("tagKeys"):
        context["aws:TagKeys"] = tuple(members["tagKeys"])
    encryption = members.get("encryptionConfiguration") or {}
    for member, key in (("sseAlgorithm", "SSEAlgorithm"), ("kmsKeyArn", "KMSKeyArn")):
        if member in encryption:
            context[f"s3tables:{key}"] = encryption[member]
    return context


def _named(
    resources: Resources, members: Mapping[str, Any], actions: Sequence[str]
) -> tuple[model.Demand, ...]:
    operation = actions[0]
    resource_arn = members.get("tableArn") or members.get("tableARN") or members.get("resourceArn")
    if resource_arn is not None:
        return _on_arn(resources, actions, str(resource_arn))
    bucket_arn = members.get("tableBucketARN")
    if bucket_arn is None:
        return (rights.demand(operation, rights.of_bucket(rights.EVERYTHING)),)
    namespace, name = members.get("namespace"), members.get("name")
    if namespace is None:
        return (rights.demand(operation, rights.of_bucket(bucket_arn)),)
    within = rights.of_namespace(bucket_arn, (namespace,))
    if name is None:
        return (rights.demand(operation, within),)
    table: TableResource | None
    try:
        table = resources.table(bucket_arn, namespace, name)
    except _ABSENT:
        table = None
    shown = f"{bucket_arn}, table {namespace}.{name}"
    if table is None:
        return (_listing(within, operation, shown),)
    return _on_table(resources, actions, table, shown)


def _on_arn(resources: Resources, actions: Sequence[str], arn: str) -> tuple[model.Demand, ...]:
    name = names.parse_arn(arn)
    if name is None or name.object_uuid is None:
        return (rights.demand(actions[0], rights.of_bucket(arn)),)
    try:
        table = resources.table_by_arn(arn)
    except _ABSENT:
        return (_listing(rights.of_bucket(arn.partition("/table/")[0]), actions[0], arn),)
    return _on_table(resources, actions, table, arn)


def _on_table(
    resources: Resources, actions: Sequence[str], table: TableResource, shown: str
) -> tuple[model.Demand, ...]:
    subject = subject_of(resources.table_arn(table), table.ident)
    return rights.demands(actions, subject, resource=shown)


def _listing(subject: rights.Subject, action: str, shown: str) -> model.Demand:
    """Return the demand for permission to learn that a table does not exist.

    Its refusal names the requested action, as for a table that exists.
    """
    return rights.demand("ListTables", subject, shown=rights.show(action, shown))
