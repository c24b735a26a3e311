"""Each error that AWS's model lists for an operation is answered by it, or has a reason not to be.

The other direction of test_errors.py. BadRequestException and NotFoundException of every operation
are there and in test_constraints.py, ForbiddenException in test_access.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import botocore.session
import pytest
from botocore import xform_name
from botocore.exceptions import ClientError

from s3tables import face, wire_errors
from server import asgi
from server import errors as kit_errors
from server.access import decide
from storage import batch, index
from storage import settings as storage_settings
from tests.s3tables import test_errors
from tests.s3tables.tables_service import TablesService, bucket_arn, opened

MODEL = botocore.session.get_session().get_service_model("s3tables")
BUCKET: Final = bucket_arn("checked")
IN_BUCKET: Final = {"tableBucketARN": BUCKET}
TABLE: Final = {**IN_BUCKET, "namespace": "x", "name": "x"}
STALE: Final = "stale"
REPLICATION: Final = {
    "role": test_errors.ROLE,
    "rules": [{"destinations": [{"destinationTableBucketARN": bucket_arn("target")}]}],
}
Members = Mapping[str, Any]


def listing(code: str) -> set[str]:
    """The operations for which the model lists an error."""
    return {
        name
        for name in MODEL.operation_names
        if code in {shape.name for shape in MODEL.operation_model(name).error_shapes}
    }


def replicated(client: Any, arn: str, *, of: str) -> dict[str, Any]:
    """Store a replication configuration; return members that name it with a stale token."""
    client.create_table_bucket(name="target")
    where = {"tableArn": arn} if of == "table" else IN_BUCKET
    name = "table" if of == "table" else "table_bucket"
    getattr(client, f"put_{name}_replication")(**where, configuration=REPLICATION)
    return {**where, "versionToken": STALE}


def migration(name: str) -> dict[str, Any]:
    """Members that start the migration of a table to a name."""
    members = list(test_errors.variations("StartTableMigration", ""))[1]
    return {**members, "destinationTable": {**members["destinationTable"], **TABLE, "name": name}}


def migrated(client: Any, _: str) -> Members:
    started = client.start_table_migration(**migration("moved"))
    return {"migrationId": started["migrationId"], "requestedState": "cancelled"}


CONFLICTS: Final[Mapping[str, Callable[[Any, str], Members]]] = {
    "CreateTableBucket": lambda client, arn: {"name": "checked"},
    "CreateNamespace": lambda client, arn: {**IN_BUCKET, "namespace": ["x"]},
    "CreateTable": lambda client, arn: {**TABLE, "format": "ICEBERG"},
    "DeleteTableBucket": lambda client, arn: IN_BUCKET,
    "DeleteNamespace": lambda client, arn: {**IN_BUCKET, "namespace": "x"},
    "DeleteTable": lambda client, arn: {**TABLE, "versionToken": STALE},
    "RenameTable": lambda client, arn: {**TABLE, "newName": "y", "versionToken": STALE},
    "UpdateTableMetadataLocation": lambda client, arn: {
        **TABLE,
        "versionToken": STALE,
        "metadataLocation": f"{client.get_table(**TABLE)['warehouseLocation']}/metadata/"
        "00000-a.metadata.json",
    },
    "PutTableBucketReplication": lambda client, arn: {
        **replicated(client, arn, of="bucket"),
        "configuration": REPLICATION,
    },
    "DeleteTableBucketReplication": lambda client, arn: replicated(client, arn, of="bucket"),
    "PutTableReplication": lambda client, arn: {
        **replicated(client, arn, of="table"),
        "configuration": REPLICATION,
    },
    "DeleteTableReplication": lambda client, arn: replicated(client, arn, of="table"),
    "StartTableMigration": lambda client, arn: migration("x"),
    "UpdateTableMigration": migrated,
}
"""Operations that conflict with the state of what they name: a name that is taken, a container that
is not empty, a version token of before, a migration that has ended."""

CONTENDED: Final = {
    "DeleteTableBucketEncryption",
    "DeleteTableBucketMetricsConfiguration",
    "DeleteTableBucketPolicy",
    "DeleteTablePolicy",
    "PutTableBucketEncryption",
    "PutTableBucketLogging",
    "PutTableBucketMaintenanceConfiguration",
    "PutTableBucketMetricsConfiguration",
    "PutTableBucketPolicy",
    "PutTableMaintenanceConfiguration",
    "PutTablePolicy",
    "TagResource",
    "UntagResource",
}
"""Changes that conflict with other changes alone: policies change during each of their attempts."""

_READ: Final = "it reads one state, and waits for no other request"
_STORES_NOTHING: Final = "it stores nothing: one value is possible"
_NO_MIGRATION: Final = "it is about a table that a migration has made, and none makes one"
UNREACHABLE: Final[Mapping[str, str]] = {
    **{
        name: _READ
        for name in sorted(listing("ConflictException"))
        if name.startswith(("Get", "List"))
    },
    "PutTableBucketStorageClass": _STORES_NOTHING,
    "CompleteTableMigration": _NO_MIGRATION,
    "SyncTableMigration": _NO_MIGRATION,
}
"""Operations whose list has ConflictException, which none of their requests meets; and why."""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[TablesService]:
    path: Path = tmp_path / "data"
    with opened(path, encrypted_disk=True) as opened_service:
        yield opened_service


def answer(client: Any, operation: str, members: Members) -> tuple[int, str] | None:
    try:
        getattr(client, xform_name(operation))(**members)
    except ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        return status, error.response["Error"]["Code"]
    return None


def contend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every change find that the policies of its bucket changed after it looked."""

    def expect(reading: Any, bucket_id: int) -> batch.Expect:
        current = real(reading, bucket_id)
        return batch.Expect(store=current.store, key=current.key, value=b"of before")

    real = storage_settings.expect_policies
    monkeypatch.setattr(storage_settings, "expect_policies", expect)
    # Each look finds that settings changed, so that none is answered from a cache.
    changes = itertools.count()
    monkeypatch.setattr(index.Index, "settings_changes", lambda _: next(changes))


def valid(operation: str, arn: str) -> Members:
    """Members with which an operation succeeds on what exists."""
    members = next(test_errors.variations(operation, arn))
    if operation.startswith("Put") and operation.endswith("Policy"):
        resource = arn if "Bucket" not in operation else BUCKET
        document = (
            '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":'
            '"arn:aws:iam::000000000000:user/absent"},"Action":"s3tables:GetTable","Resource":"'
            f'{resource}"'
            "}]}"
        )
        return {**members, "resourcePolicy": document}
    return members


def test_every_conflict_of_the_model_is_produced_or_explained() -> None:
    tables = (set(CONFLICTS), CONTENDED, set(UNREACHABLE))
    assert set.union(*tables) == listing("ConflictException")
    assert sum(map(len, tables)) == len(listing("ConflictException"))


@pytest.mark.parametrize("operation", CONFLICTS)
def test_an_operation_that_meets_another_state_is_a_conflict_and_changes_nothing(
    service: TablesService, operation: str
) -> None:
    client = service.client()
    members = CONFLICTS[operation](client, test_errors.create_what_is_named(client))
    before = service.lake.log()
    assert answer(client, operation, members) == (409, "ConflictException")
    assert service.lake.log() == before
    assert client.get_table(**TABLE)["name"] == "x"


@pytest.mark.parametrize("operation", sorted(CONTENDED))
def test_a_change_that_other_changes_keep_overtaking_is_a_conflict(
    service: TablesService, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = service.client()
    arn = test_errors.create_what_is_named(client)
    members = valid(operation, arn)
    if operation == "DeleteTableBucketMetricsConfiguration":
        client.put_table_bucket_metrics_configuration(**IN_BUCKET)
    with monkeypatch.context() as patch:
        contend(patch)
        assert answer(client, operation, members) == (409, "ConflictException")
    assert answer(client, operation, members) is None


@pytest.mark.parametrize("operation", sorted(UNREACHABLE))
def test_an_operation_whose_conflict_is_explained_has_none(
    service: TablesService, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = service.client()
    arn = test_errors.create_what_is_named(client)
    contend(monkeypatch)
    for members in test_errors.variations(operation, arn):
        for _ in range(2):
            assert answer(client, operation, members) != (409, "ConflictException")


@pytest.mark.parametrize("operation", sorted(listing("MethodNotAllowedException")))
def test_an_operation_of_tables_of_aws_services_is_not_allowed(
    service: TablesService, operation: str
) -> None:
    client = service.client()
    members = valid(operation, test_errors.create_what_is_named(client))
    assert answer(client, operation, members) == (405, "MethodNotAllowedException")


def test_a_fault_of_the_server_is_an_internal_error_of_every_operation(
    service: TablesService, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = service.client()
    arn = test_errors.create_what_is_named(client)

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("a fault that no code foresees")

    assert set(MODEL.operation_names) == set(face.ROWS) == listing("InternalServerErrorException")
    with monkeypatch.context() as patch:
        patch.setattr(decide.Authoriser, "check", fail)
        for operation in sorted(face.ROWS):
            expected = (500, "InternalServerErrorException")
            assert answer(client, operation, valid(operation, arn)) == expected, operation


def test_a_body_that_finds_no_memory_is_one_request_too_many_for_every_operation(
    service: TablesService, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = service.client()
    arn = test_errors.create_what_is_named(client)

    async def refuse(*_: Any, **__: Any) -> None:
        raise kit_errors.ServerBusy("other requests' bodies fill the memory for them")

    assert listing("TooManyRequestsException") == set(face.ROWS)
    with monkeypatch.context() as patch:
        patch.setattr(asgi.Request, "read", refuse)
        patch.setattr(asgi.Request, "read_now", lambda *_, **__: None)
        for operation in sorted(face.ROWS):
            expected = (429, "TooManyRequestsException")
            assert answer(client, operation, valid(operation, arn)) == expected, operation


def test_every_error_of_the_model_has_a_condition() -> None:
    names = {shape.name for shape in MODEL.error_shapes}
    wired = {row.code for row in wire_errors.WIRE_ERRORS.values()}
    assert names - wired == {"InternalServerErrorException", "AccessDeniedException"}
