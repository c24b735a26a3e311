"""face: the s3tables service: the row of each operation.

All routes, members and shapes come from AWS's model of the service. An operation of the model
without a row is answered 501 with its name.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Final

from catalog import rights
from s3tables import (
    access,
    buckets,
    configurations,
    logging,
    maintenance,
    migrations,
    namespaces,
    policies,
    replication,
    tables,
    tags,
    wire_errors,
)
from s3tables.resources import Resources
from server import calls
from server.aws import face, model

NAME: Final = "s3tables"


def _row(name: str, function: face.Function | None, *further: str) -> face.ServiceRow:
    """Return the row of an operation that demands its own action, and further ones, on the resource
    that its path and query name."""
    return face.ServiceRow(
        name=name,
        function=function,
        demands=functools.partial(access.demands, actions=(name, *further)),
    )


def _row_of_body(name: str, function: face.Function) -> face.ServiceRow:
    """Return the row of an operation whose resource is in its body: its function checks access."""
    return face.ServiceRow(name=name, function=function, demands=calls.demand_nothing)


ROWS: Final[Mapping[str, face.ServiceRow]] = {
    row.name: row
    for row in (
        _row_of_body("CreateTableBucket", buckets.create_table_bucket),
        _row("ListTableBuckets", buckets.list_table_buckets),
        _row("GetTableBucket", buckets.get_table_bucket),
        _row("GetTableBucketEncryption", configurations.get_bucket_encryption),
        _row_of_body("PutTableBucketEncryption", configurations.put_bucket_encryption),
        _row("DeleteTableBucketEncryption", configurations.delete_bucket_encryption),
        _row("GetTableBucketStorageClass", configurations.get_bucket_storage_class),
        _row("PutTableBucketStorageClass", configurations.put_bucket_storage_class),
        _row("PutTableBucketLogging", logging.put_logging),
        _row("GetTableBucketLogging", logging.get_logging),
        _row("PutTableBucketMetricsConfiguration", replication.put_metrics),
        _row("GetTableBucketMetricsConfiguration", replication.get_metrics),
        _row("PutTableBucketReplication", replication.put_bucket_replication),
        _row("GetTableBucketReplication", replication.get_bucket_replication),
        _row("GetTableEncryption", configurations.get_table_encryption),
        _row("GetTableStorageClass", configurations.get_table_storage_class),
        _row("PutTableReplication", replication.put_table_replication),
        _row("GetTableReplication", replication.get_table_replication),
        _row("GetTableReplicationStatus", replication.get_replication_status),
        _row("PutTableRecordExpirationConfiguration", configurations.refuse_record_expiration),
        _row("GetTableRecordExpirationConfiguration", configurations.refuse_record_expiration),
        _row("GetTableRecordExpirationJobStatus", configurations.refuse_record_expiration),
        _row("PutTableBucketPolicy", policies.put_policy),
        _row("GetTableBucketPolicy", policies.get_policy),
        _row("DeleteTableBucketPolicy", policies.delete_policy),
        _row("PutTablePolicy", policies.put_policy),
        _row("GetTablePolicy", policies.get_policy),
        _row("DeleteTablePolicy", policies.delete_policy),
        _row("PutTableBucketMaintenanceConfiguration", maintenance.put_bucket_maintenance),
        _row("GetTableBucketMaintenanceConfiguration", maintenance.get_bucket_maintenance),
        _row("PutTableMaintenanceConfiguration", maintenance.put_table_maintenance),
        _row("GetTableMaintenanceConfiguration", maintenance.get_table_maintenance),
        _row("GetTableMaintenanceJobStatus", maintenance.get_job_status),
        _row("DeleteTableBucketMetricsConfiguration", replication.delete_metrics),
        _row("DeleteTableBucketReplication", replication.delete_bucket_replication),
        _row("DeleteTableReplication", replication.delete_table_replication),
        _row_of_body("StartTableMigration", migrations.start_migration),
        _row_of_body("SyncTableMigration", migrations.sync_migration),
        _row("GetTableMigration", migrations.get_migration),
        _row("ListTableMigrations", migrations.list_migrations),
        _row("UpdateTableMigration", migrations.update_migration),
        _row("CompleteTableMigration", migrations.complete_migration),
        _row("DeleteTableBucket", buckets.delete_table_bucket),
        _row_of_body("CreateNamespace", namespaces.create_namespace),
        _row("ListNamespaces", namespaces.list_namespaces),
        _row("GetNamespace", namespaces.get_namespace),
        _row("DeleteNamespace", namespaces.delete_namespace),
        _row_of_body("CreateTable", tables.create_table),
        _row("ListTables", tables.list_tables),
        _row("GetTable", tables.get_table),
        _row("DeleteTable", tables.delete_table),
        _row("RenameTable", tables.rename_table),
        _row("GetTableMetadataLocation", tables.get_table_metadata_location, "GetTable"),
        _row(
            "UpdateTableMetadataLocation",
            tables.update_table_metadata_location,
            *rights.FILE_ACTIONS,
        ),
        _row_of_body("TagResource", tags.tag_resource),
        _row("UntagResource", tags.untag_resource),
        _row("ListTagsForResource", tags.list_tags_for_resource),
    )
}
"""The operations that exist. The model's others demand the action of their name and answer 501."""


def make_face(resources: Resources) -> face.AwsFace:
    """Return the face of the s3tables API over these resources."""
    return face.AwsFace(
        name=NAME,
        load=functools.partial(model.load, NAME),
        services=resources,
        rows=ROWS,
        missing=lambda name: _row(name, None),
        wire_errors=wire_errors.WIRE_ERRORS,
    )
