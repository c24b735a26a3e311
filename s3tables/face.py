"""face: the s3tables service: which function does which operation.

All routes, members and shapes come from AWS's model of the service. Operations that have no row
here are answered 501 by their names.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from s3tables import access, buckets, namespaces, tables, tags, wire_errors
from s3tables.resources import Resources
from server.access import model as access_model
from server.aws import face, model

Members: TypeAlias = Mapping[str, Any]
Function: TypeAlias = Callable[[Resources, Members, access_model.Principal], Awaitable[Members]]

NAME: Final = "s3tables"

HANDLERS: Final[Mapping[str, Function]] = {
    "CreateTableBucket": buckets.create_table_bucket,
    "ListTableBuckets": buckets.list_table_buckets,
    "GetTableBucket": buckets.get_table_bucket,
    "DeleteTableBucket": buckets.delete_table_bucket,
    "CreateNamespace": namespaces.create_namespace,
    "ListNamespaces": namespaces.list_namespaces,
    "GetNamespace": namespaces.get_namespace,
    "DeleteNamespace": namespaces.delete_namespace,
    "CreateTable": tables.create_table,
    "ListTables": tables.list_tables,
    "GetTable": tables.get_table,
    "DeleteTable": tables.delete_table,
    "RenameTable": tables.rename_table,
    "GetTableMetadataLocation": tables.get_table_metadata_location,
    "UpdateTableMetadataLocation": tables.update_table_metadata_location,
    "TagResource": tags.tag_resource,
    "UntagResource": tags.untag_resource,
    "ListTagsForResource": tags.list_tags_for_resource,
}


def make_face(resources: Resources) -> face.AwsFace:
    """Return the face of the s3tables API over these resources."""
    return face.AwsFace(
        name=NAME,
        load=functools.partial(model.load, NAME),
        handlers={
            operation: functools.partial(function, resources)
            for operation, function in HANDLERS.items()
        },
        demanding=functools.partial(access.demands, resources),
        wire_errors=wire_errors.WIRE_ERRORS,
    )
