"""engine: tables: one function per operation.

The catalog owns tables; this module only translates AWS's names for them. A version token changes
with every change of the pointer, through whichever API.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from catalog import errors as catalog_errors
from catalog import idents, records, rights
from s3tables import (
    access,
    errors,
    labels,
    listings,
    names,
    namespaces,
    schemas,
    settings,
    tokens,
)
from s3tables.resources import (
    Resources,
    TableResource,
    format_bucket_id,
    subject_of,
)
from server import calls
from server.access import model
from storage import batch
from storage import model as storage_model

Members = Mapping[str, Any]


async def create_table(resources: Resources, call: calls.Call) -> Members:
    """CreateTable: with metadata a whole table; without it a name and a location."""
    members, principal = call.value.members, call.principal
    arn = members["tableBucketARN"]
    wanted = members.get("tags", {})
    demands = _creation_demands(members)
    resources.access.check(principal, demands)
    bucket = resources.bucket(arn)
    ident = idents.TableIdent(
        table_bucket=bucket.name, namespace=(members["namespace"],), name=members["name"]
    )
    names.check_table_name(ident.name)
    names.check_tags(wanted)
    settings.check_storage(members, encrypted_disk=resources.encrypted_disk)

    def tag(object_uuid: str) -> batch.Batch:
        key = labels.TableKey(bucket_id=bucket.bucket_id, object_uuid=object_uuid)
        return resources.labels.plan_table(key, lambda old: {**old, **wanted})

    def judge(
        place: records.Place, ident: idents.TableIdent, pointer: records.Pointer | None
    ) -> None:
        resources.access.recheck(principal, demands)

    if "metadata" in members:
        definition = schemas.define(members["metadata"]["iceberg"])
        loaded = await resources.tables.create(
            ident,
            schema=definition.schema,
            partition_spec=definition.partition_spec,
            sort_order=definition.sort_order,
            properties=definition.properties,
            by=principal.arn,
            via="s3tables",
            judge=judge,
            also=tag if wanted else None,
        )
        pointer = loaded.pointer
    else:
        pointer = await resources.tables.create_empty(
            ident, by=principal.arn, judge=judge, also=tag if wanted else None
        )
    table = TableResource(bucket=bucket, ident=ident, pointer=pointer)
    return {
        "tableARN": resources.table_arn(table),
        "versionToken": records.version_token(pointer),
    }


async def list_tables(resources: Resources, call: calls.Call) -> Members:
    """ListTables: the tables of one namespace, or of all."""
    members, principal = call.value.members, call.principal
    bucket = resources.bucket(members["tableBucketARN"])
    only = members.get("namespace")
    prefix = members.get("prefix", "")
    namespaces_to_list: Iterator[idents.Namespace]
    listing = f"tables {bucket.bucket_id} {only} {prefix}"
    token = members.get("continuationToken")
    after: tokens.SortKey = () if token is None else tokens.parse_token(token, listing=listing)
    if only is None:
        within = idents.parse_namespace(after[0]) if after else ()
        namespaces_to_list = namespaces.walk(resources, bucket, after=within)
    else:
        resources.namespaces.load(bucket.name, (only,))
        namespaces_to_list = iter([(only,)])

    def show(ident: idents.TableIdent) -> Members | None:
        if not ident.name.startswith(prefix):
            return None
        try:
            table = TableResource(
                bucket=bucket, ident=ident, pointer=resources.tables.pointer(ident)
            )
        except catalog_errors.NoSuchTable:
            return None
        arn = resources.table_arn(table)
        if not resources.permits(principal, "GetTable", subject_of(arn, ident)):
            return None
        return _summarise(resources, table)

    page = await listings.paginate(
        _idents(resources, bucket, namespaces_to_list, after),
        show,
        listing=listing,
        token=token,
        items_max=members.get("maxTables"),
    )
    return page.members("tables")


async def get_table(resources: Resources, call: calls.Call) -> Members:
    """GetTable: by its ARN alone, or by bucket, namespace and name."""
    members = call.value.members
    by_name = [key for key in ("tableBucketARN", "namespace", "name") if key in members]
    if "tableArn" in members and not by_name:
        table = resources.table_by_arn(members["tableArn"])
    elif len(by_name) == 3 and "tableArn" not in members:
        table = _table(resources, members)
    else:
        raise errors.BadRequest(
            "Specify either tableArn, or all of tableBucketARN, namespace and name."
        )
    pointer = table.pointer
    description = {
        **_summarise(resources, table),
        "versionToken": records.version_token(pointer),
        "warehouseLocation": pointer.location,
        "createdBy": resources.account_of_principal(pointer.created_by),
        "modifiedBy": resources.account_of_principal(pointer.modified_by),
        "ownerAccountId": resources.account_of(table.bucket),
        "format": "ICEBERG",
    }
    if pointer.metadata_location is not None:
        description["metadataLocation"] = pointer.metadata_location
    return description


async def delete_table(resources: Resources, call: calls.Call) -> Members:
    """DeleteTable: deletes the table with its files, which the sweep frees.

    For a caller that may not purge, the files are kept as after a drop by another API.
    """
    members = call.value.members
    table = _table(resources, members)
    subject = subject_of(resources.table_arn(table), table.ident)
    purge = resources.permits(call.principal, rights.PURGE, subject)
    actions = rights.PURGE_ACTIONS if purge else rights.DROP_ACTIONS
    await resources.tables.drop(
        table.ident,
        purge=purge,
        version_token=members.get("versionToken"),
        by=call.principal.arn,
        via="s3tables",
        judge=resources.judge(call.principal, *actions),
    )
    return {}


async def rename_table(resources: Resources, call: calls.Call) -> Members:
    """RenameTable: within its bucket; the ARN and the location stay."""
    members, principal = call.value.members, call.principal
    if "newNamespaceName" not in members and "newName" not in members:
        raise errors.NothingToRename
    table = _table(resources, members)
    target = idents.TableIdent(
        table_bucket=table.bucket.name,
        namespace=(members.get("newNamespaceName", members["namespace"]),),
        name=members.get("newName", members["name"]),
    )
    bucket_arn = resources.bucket_arn(table.bucket)
    naming = subject_of(bucket_arn, target)
    resources.check(principal, "CreateTable", naming)
    names.check_table_name(target.name)
    if not resources.namespaces.exists(table.bucket.name, target.namespace):
        raise errors.NoSuchDestinationNamespace
    judge_source = resources.judge(principal, "RenameTable")

    def judge(
        place: records.Place, ident: idents.TableIdent, pointer: records.Pointer | None
    ) -> None:
        judge_source(place, ident, pointer)
        resources.recheck(principal, "CreateTable", naming)

    await resources.tables.rename(
        table.ident,
        target,
        version_token=members.get("versionToken"),
        by=principal.arn,
        via="s3tables",
        judge=judge,
    )
    return {}


async def get_table_metadata_location(resources: Resources, call: calls.Call) -> Members:
    """GetTableMetadataLocation: a table without metadata has a version token but no location."""
    members = call.value.members
    pointer = _table(resources, members).pointer
    description = {
        "versionToken": records.version_token(pointer),
        "warehouseLocation": pointer.location,
    }
    if pointer.metadata_location is not None:
        description["metadataLocation"] = pointer.metadata_location
    return description


async def update_table_metadata_location(resources: Resources, call: calls.Call) -> Members:
    """UpdateTableMetadataLocation: compare the version token and swap the pointer atomically."""
    members = call.value.members
    table = _table(resources, members)
    pointer = await resources.tables.set_metadata_location(
        table.ident,
        members["metadataLocation"],
        version_token=members["versionToken"],
        by=call.principal.arn,
        judge=resources.judge(call.principal, *rights.COMMIT_ACTIONS),
        check_file=resources.access.file_check(call.principal, table.ident),
    )
    return {
        "name": table.ident.name,
        "tableARN": resources.table_arn(table),
        "namespace": list(table.ident.namespace),
        "versionToken": records.version_token(pointer),
        "metadataLocation": members["metadataLocation"],
    }


def _table(resources: Resources, members: Members) -> TableResource:
    return resources.table(members["tableBucketARN"], members["namespace"], members["name"])


def _creation_demands(members: Members) -> tuple[model.Demand, ...]:
    """Return the demands of CreateTable. A table to be created has no ARN but `*`."""
    bucket_arn = members["tableBucketARN"]
    namespace, name = (members["namespace"],), members["name"]
    demands = [rights.demand("CreateTable", rights.of_table(bucket_arn, namespace, name))]
    any_table = rights.of_any_table(bucket_arn, namespace, name)
    if "metadata" in members:
        demands.append(rights.demand(rights.WRITE_DATA, any_table))
    if members.get("tags"):
        demands.append(rights.demand("TagResource", any_table))
    context = access.context_of(members)
    return tuple([rights.in_request(demand, context) for demand in demands])


def _idents(
    resources: Resources,
    bucket: storage_model.BucketInfo,
    namespaces_to_list: Iterator[idents.Namespace],
    after: tokens.SortKey,
) -> Iterator[tuple[tokens.SortKey, idents.TableIdent]]:
    """Yield the tables of namespaces with their keys, starting at the key `after`."""
    for namespace in namespaces_to_list:
        key = idents.format_namespace(namespace)
        if after and key < after[0]:
            continue
        start = after[1] if after and key == after[0] else ""
        try:
            for name in resources.tables.names(bucket.name, namespace, after=start):
                yield (
                    (key, name),
                    idents.TableIdent(table_bucket=bucket.name, namespace=namespace, name=name),
                )
        except catalog_errors.NoSuchNamespace:
            continue  # dropped while it was listed


def _summarise(resources: Resources, table: TableResource) -> dict[str, Any]:
    namespace = resources.namespaces.load(table.bucket.name, table.ident.namespace)
    return {
        "namespace": list(table.ident.namespace),
        "name": table.ident.name,
        "type": "customer",
        "tableARN": resources.table_arn(table),
        "createdAt": table.pointer.created_at_ms,
        "modifiedAt": table.pointer.modified_at_ms,
        "namespaceId": namespace.object_uuid,
        "tableBucketId": format_bucket_id(table.bucket),
    }
