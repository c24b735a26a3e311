"""Every operation answers only the errors that AWS's model lists for it.

The lists are botocore's. Each operation is called on what exists, twice, on what does not exist,
and by a user without rights. `tables_service` holds every call of the other tests of this folder
against the same lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore import xform_name
from botocore.exceptions import ClientError

from s3tables import face
from tests.s3tables import test_constraints
from tests.s3tables.tables_service import NOT_LISTED, TablesService, bucket_arn, opened

MODEL = botocore.session.get_session().get_service_model("s3tables")
BUCKET = bucket_arn("checked")
TABLE = {"tableBucketARN": BUCKET, "namespace": "x", "name": "x"}
NO_TABLE = "6fd43b20-0000-4000-8000-000000000000"
ROLE = "arn:aws:iam::000000000000:role/moves"
OUTPUT = {"bucket": "arn:aws:s3:::reports"}
NAMES_NOTHING = {"CreateTableBucket", "ListTableBuckets"}
"""Operations on nothing that has to exist."""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TablesService]:
    path: Path = tmp_path_factory.mktemp("errors") / "data"
    with opened(path, users={"stranger": []}) as opened_service:
        yield opened_service


def attempt(client: Any, operation: str, members: Mapping[str, Any]) -> str | None:
    """The code of the error that a call is answered, if any."""
    try:
        getattr(client, xform_name(operation))(**members)
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return None


def create_what_is_named(client: Any) -> str:
    """Create the table bucket, namespace and table of the samples; return the table's ARN."""
    attempt(client, "CreateTableBucket", {"name": "checked"})
    attempt(client, "CreateNamespace", {"tableBucketARN": BUCKET, "namespace": ["x"]})
    attempt(client, "CreateTable", {**TABLE, "format": "ICEBERG"})
    return str(client.get_table(**TABLE)["tableARN"])


def variations(operation: str, table_arn: str) -> Iterator[dict[str, Any]]:
    """Valid members: of what exists, and with each name replaced by one of nothing."""
    shape = MODEL.operation_model(operation).input_shape
    members = dict(test_constraints.sample(shape))
    for name in ("tableArn", "tableARN"):
        if name in shape.members:
            members[name] = table_arn
    if "roleARN" in members:
        members |= {"roleARN": ROLE, "migrationOutput": OUTPUT}
    if operation in ("PutTableReplication", "PutTableBucketReplication"):
        members["configuration"] = {**members["configuration"], "role": ROLE}
    if "destinationTable" in members:
        absent = {**members["destinationTable"], "tableBucketARN": bucket_arn("nowhere")}
        yield {**members, "destinationTable": absent}
    if operation == "GetTable":
        members = dict(TABLE)
    if operation == "RenameTable":
        yield {**members, "newName": "x"}
        yield {**members, "newNamespaceName": "absent"}
        members["newName"] = "y"
    yield members
    for name, value in members.items():
        if name in ("tableBucketARN", "resourceArn"):
            yield {**members, name: bucket_arn("nowhere")}
        if name in ("tableArn", "tableARN", "resourceArn"):
            yield {**members, name: f"{bucket_arn('nowhere')}/table/{NO_TABLE}"}
            yield {**members, name: f"{BUCKET}/table/{NO_TABLE}"}
        if name in ("namespace", "name") and "tableBucketARN" in members:
            yield {**members, name: ["absent"] if isinstance(value, list) else "absent"}


@pytest.mark.parametrize("operation", sorted(face.ROWS))
def test_an_operation_answers_only_errors_of_its_own_list(
    service: TablesService, operation: str
) -> None:
    root, stranger = service.client(), service.client("stranger")
    listed = {shape.name for shape in MODEL.operation_model(operation).error_shapes}
    codes = {
        attempt(client, operation, members)
        for members in variations(operation, create_what_is_named(root))
        if create_what_is_named(root)
        for client in (stranger, root, root)
    } - {None}
    assert codes <= listed | {"AccessDeniedException"}
    assert ("NotFoundException" in codes) is (operation not in NAMES_NOTHING)


def test_the_common_errors_of_aws_are_no_errors_of_the_service() -> None:
    names = {shape.name for shape in MODEL.error_shapes}
    assert NOT_LISTED & names == {"AccessDeniedException"}
