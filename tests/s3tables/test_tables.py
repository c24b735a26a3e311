"""Tables, by boto3's own client, over the real catalog."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from catalog import idents
from tests.s3tables.tables_service import ACCOUNT, TablesService, bucket_arn, refused

NO_TABLE = (404, "NotFoundException", "The specified table does not exist.")
STALE = (
    409,
    "ConflictException",
    "Provided version token does not match the table version token.",
)
BAD_NAME = (
    400,
    "BadRequestException",
    "The specified table name is not valid: it must begin with a letter or a digit",
)
FIELDS = [
    {"name": "id", "type": "long", "required": True},
    {"name": "day", "type": "date"},
]


def create(client: Any, bucket: str, name: str, **more: Any) -> Any:
    return client.create_table(
        tableBucketARN=bucket, namespace="sales", name=name, format="ICEBERG", **more
    )


def with_schema(client: Any, bucket: str, name: str, **iceberg: Any) -> Any:
    metadata = {"iceberg": {"schema": {"fields": FIELDS}, **iceberg}}
    return create(client, bucket, name, metadata=metadata)


def names(bucket: str, name: str) -> dict[str, str]:
    return {"tableBucketARN": bucket, "namespace": "sales", "name": name}


def metadata_of(service: TablesService, client: Any, bucket: str, name: str) -> Any:
    location = client.get_table(**names(bucket, name))["metadataLocation"]
    return json.loads(service.read_object(location))


def test_create_table_without_metadata_has_a_place_and_no_metadata(client: Any, sales: str) -> None:
    table = create(client, sales, "orders")
    answer = client.get_table(**names(sales, "orders"))
    assert answer["tableARN"] == table["tableARN"]
    assert answer["versionToken"] == table["versionToken"]
    assert "metadataLocation" not in answer
    bucket = sales.rpartition("/")[2]
    assert answer["warehouseLocation"] == f"s3://{bucket}/sales/orders"
    assert table["tableARN"].startswith(f"{sales}/table/")
    located = client.get_table_metadata_location(**names(sales, "orders"))
    assert located["versionToken"] == table["versionToken"]
    assert located["warehouseLocation"] == answer["warehouseLocation"]
    assert "metadataLocation" not in located


def test_create_table_with_a_schema_writes_real_metadata(
    service: TablesService, client: Any, sales: str
) -> None:
    table = with_schema(
        client,
        sales,
        "orders",
        partitionSpec={"fields": [{"sourceId": 2, "transform": "month", "name": "m"}]},
        writeOrder={
            "orderId": 1,
            "fields": [
                {
                    "sourceId": 1,
                    "transform": "identity",
                    "direction": "asc",
                    "nullOrder": "nulls-last",
                }
            ],
        },
        properties={"owner": "me"},
    )
    answer = client.get_table(**names(sales, "orders"))
    place = answer["warehouseLocation"] + "/metadata/00000-"
    assert answer["metadataLocation"].startswith(place)
    assert answer["metadataLocation"].endswith(".metadata.json")
    said = metadata_of(service, client, sales, "orders")
    assert said["location"] == answer["warehouseLocation"]
    assert said["schemas"][0]["fields"] == [
        {"id": 1, "name": "id", "required": True, "type": "long"},
        {"id": 2, "name": "day", "required": False, "type": "date"},
    ]
    assert said["partition-specs"][0]["fields"] == [
        {"source-id": 2, "field-id": 1000, "transform": "month", "name": "m"}
    ]
    assert said["sort-orders"][0]["fields"] == [
        {
            "source-id": 1,
            "transform": "identity",
            "direction": "asc",
            "null-order": "nulls-last",
        }
    ]
    assert said["properties"]["owner"] == "me"
    assert said["table-uuid"] != table["tableARN"].rpartition("/")[2]


def test_create_table_with_ids_of_its_own_keeps_what_refers_to_them(
    service: TablesService, client: Any, sales: str
) -> None:
    fields = [
        {"name": "a", "type": "string"},
        {"id": 1, "name": "b", "type": "int"},
        {"id": 7, "name": "c", "type": "date"},
    ]
    spec = {"fields": [{"sourceId": 7, "transform": "day", "name": "d"}]}
    metadata = {"iceberg": {"schema": {"fields": fields}, "partitionSpec": spec}}
    create(client, sales, "ids", metadata=metadata)
    said = metadata_of(service, client, sales, "ids")
    (schema,) = said["schemas"]
    by_id = {field["id"]: field["name"] for field in schema["fields"]}
    assert len(by_id) == 3
    (partition,) = said["partition-specs"][0]["fields"]
    assert by_id[partition["source-id"]] == "c"


def test_create_table_with_schema_v2_has_nested_types_and_identifiers(
    service: TablesService, client: Any, sales: str
) -> None:
    schema = {
        "type": "struct",
        "identifierFieldIds": [1],
        "fields": [
            {"id": 1, "name": "id", "type": "long", "required": True, "doc": "the key"},
            {
                "id": 2,
                "name": "tags",
                "required": False,
                "type": {
                    "type": "list",
                    "element-id": 3,
                    "element": "string",
                    "element-required": True,
                },
            },
        ],
    }
    create(client, sales, "nested", metadata={"iceberg": {"schemaV2": schema}})
    said = metadata_of(service, client, sales, "nested")
    assert said["schemas"][0]["fields"] == schema["fields"]
    assert said["schemas"][0]["identifier-field-ids"] == [1]


@pytest.mark.parametrize(
    "iceberg",
    [
        {"schema": {"fields": FIELDS}, "schemaV2": {"type": "struct", "fields": []}},
        {},
        {"properties": {"a": "b"}},
        {"schema": {"fields": [{"name": "a", "type": "no-such-type"}]}},
        {"schema": {"fields": [{"name": "a", "type": "int"}, {"name": "a", "type": "int"}]}},
        {"schema": {"fields": FIELDS},
         "partitionSpec": {"fields": [{"sourceId": 9, "transform": "day", "name": "d"}]}},
        {"schema": {"fields": FIELDS},
         "partitionSpec": {"fields": [{"sourceId": 1, "transform": "spin", "name": "d"}]}},
        {"schema": {"fields": FIELDS}, "properties": {"write.data.path": "s3://else/where"}},
    ],
    ids=["both", "none", "no-schema", "type", "duplicate", "source", "transform", "path"],
)  # fmt: skip
def test_create_table_with_metadata_that_cannot_be_is_refused_whole(
    client: Any, sales: str, iceberg: dict[str, Any]
) -> None:
    status, code, message = refused(
        client.create_table, **names(sales, "bad"), format="ICEBERG", metadata={"iceberg": iceberg}
    )
    assert (status, code) == (400, "BadRequestException")
    assert message
    assert refused(client.get_table, **names(sales, "bad")) == NO_TABLE


def test_create_table_twice_conflicts(client: Any, sales: str) -> None:
    create(client, sales, "orders")
    expected = (
        409,
        "ConflictException",
        "A table with an identical name already exists in the namespace.",
    )
    assert refused(client.create_table, **names(sales, "orders"), format="ICEBERG") == expected
    metadata = {"iceberg": {"schema": {"fields": FIELDS}}}
    assert (
        refused(client.create_table, **names(sales, "orders"), format="ICEBERG", metadata=metadata)
        == expected
    )


def test_create_table_names_what_is_missing(client: Any, bucket: str) -> None:
    assert refused(client.create_table, **names(bucket, "t"), format="ICEBERG") == (
        404,
        "NotFoundException",
        "The specified namespace does not exist.",
    )
    missing = names(bucket_arn("nowhere"), "t")
    assert refused(client.create_table, **missing, format="ICEBERG") == (
        404,
        "NotFoundException",
        "The specified bucket does not exist.",
    )


def test_create_table_name_begins_with_a_letter_or_digit(client: Any, sales: str) -> None:
    assert refused(client.create_table, **names(sales, "_t"), format="ICEBERG") == BAD_NAME


def test_get_table_takes_the_arn_alone_or_all_three_names(client: Any, sales: str) -> None:
    arn = with_schema(client, sales, "orders")["tableARN"]
    by_name = client.get_table(**names(sales, "orders"))
    by_arn = client.get_table(tableArn=arn)
    for answer in (by_name, by_arn):
        answer.pop("ResponseMetadata")
    assert by_arn == by_name
    assert by_name["namespace"] == ["sales"]
    assert by_name["name"] == "orders"
    assert by_name["type"] == "customer"
    assert by_name["format"] == "ICEBERG"
    for member in ("createdBy", "modifiedBy", "ownerAccountId"):
        assert by_name[member] == ACCOUNT
    namespace = client.get_namespace(tableBucketARN=sales, namespace="sales")
    assert by_name["namespaceId"] == namespace["namespaceId"]
    for members in (
        {},
        {"tableBucketARN": sales},
        {"tableBucketARN": sales, "namespace": "sales"},
        {"tableBucketARN": sales, "name": "orders"},
        {"tableArn": arn, "namespace": "sales"},
        {"tableArn": arn, **names(sales, "orders")},
    ):
        assert refused(client.get_table, **members) == (
            400,
            "BadRequestException",
            "Specify either tableArn, or all of tableBucketARN, namespace and name.",
        )


def test_get_table_by_an_arn_of_nothing_is_not_found(client: Any, sales: str) -> None:
    nothing = "/table/0b3e4f0c-8b1d-4a55-9d3e-6f1f2a7c9e10"
    assert refused(client.get_table, tableArn=sales + nothing) == NO_TABLE
    assert refused(client.get_table, tableArn=sales + "/table/not-a-uuid") == NO_TABLE
    assert refused(client.get_table, tableArn=bucket_arn("nowhere") + nothing) == (
        404,
        "NotFoundException",
        "The specified bucket does not exist.",
    )


def test_list_tables_pages_filters_and_summarises(client: Any, sales: str) -> None:
    client.create_namespace(tableBucketARN=sales, namespace=["other"])
    for name in ("b", "a", "ab"):
        create(client, sales, name)
    other = {"tableBucketARN": sales, "namespace": "other", "name": "a"}
    client.create_table(**other, format="ICEBERG")
    everything = [("other", "a"), ("sales", "a"), ("sales", "ab"), ("sales", "b")]

    def listed(**more: Any) -> list[list[tuple[str, str]]]:
        pages = client.get_paginator("list_tables").paginate(
            tableBucketARN=sales, PaginationConfig={"PageSize": 2}, **more
        )
        return [
            [(table["namespace"][0], table["name"]) for table in page["tables"]] for page in pages
        ]

    assert listed() == [everything[:2], everything[2:]]
    assert listed(namespace="sales") == [everything[1:3], everything[3:]]
    assert listed(prefix="a") == [everything[:2], everything[2:3]]
    assert listed(namespace="sales", prefix="ab") == [[("sales", "ab")]]
    summary = client.list_tables(tableBucketARN=sales, maxTables=1)["tables"][0]
    whole = client.get_table(**other)
    assert summary == {key: whole[key] for key in summary}
    assert summary.keys() == {
        "namespace", "name", "type", "tableARN", "createdAt", "modifiedAt", "namespaceId",
        "tableBucketId",
    }  # fmt: skip


def test_delete_table_checks_the_token_when_given_and_frees_the_name(
    client: Any, sales: str
) -> None:
    table = with_schema(client, sales, "orders")
    where = names(sales, "orders")
    assert refused(client.delete_table, **where, versionToken="stale") == STALE
    done = client.delete_table(**where, versionToken=table["versionToken"])
    assert done["ResponseMetadata"]["HTTPStatusCode"] == 204
    for call in (client.get_table, client.delete_table, client.get_table_metadata_location):
        assert refused(call, **where) == NO_TABLE
    assert refused(client.get_table, tableArn=table["tableARN"]) == NO_TABLE
    again = create(client, sales, "orders")
    assert again["tableARN"] != table["tableARN"]
    old = f"s3://{sales.rpartition('/')[2]}/sales/orders"
    place = client.get_table(**where)["warehouseLocation"]
    assert place.startswith(old + "-")


def test_rename_table_keeps_arn_and_location_and_changes_the_token(
    service: TablesService, client: Any, sales: str
) -> None:
    client.create_namespace(tableBucketARN=sales, namespace=["other"])
    table = with_schema(client, sales, "orders")
    before = client.get_table(tableArn=table["tableARN"])
    service.lake.clock.now_ms += 1
    done = client.rename_table(**names(sales, "orders"), newNamespaceName="other", newName="moved")
    assert done["ResponseMetadata"]["HTTPStatusCode"] == 204
    after = client.get_table(tableArn=table["tableARN"])
    assert (after["namespace"], after["name"]) == (["other"], "moved")
    assert after["versionToken"] != before["versionToken"]
    for member in ("tableARN", "warehouseLocation", "metadataLocation", "createdAt"):
        assert after[member] == before[member]
    assert refused(client.get_table, **names(sales, "orders")) == NO_TABLE


def test_rename_table_refuses_what_it_must(client: Any, sales: str) -> None:
    create(client, sales, "orders")
    create(client, sales, "taken")
    where = names(sales, "orders")
    before = client.get_table(**where)
    for members, expected in (
        (
            {},
            (
                400,
                "BadRequestException",
                "Neither a new namespace name nor a new table name is specified.",
            ),
        ),
        (
            {"newName": "taken"},
            (
                409,
                "ConflictException",
                "A table with an identical name already exists in the namespace.",
            ),
        ),
        (
            {"newNamespaceName": "nowhere"},
            (404, "NotFoundException", "The specified destination namespace does not exist."),
        ),
        ({"newName": "fresh", "versionToken": "stale"}, STALE),
        ({"newName": "_x"}, BAD_NAME),
    ):
        assert refused(client.rename_table, **where, **members) == expected
    after = client.get_table(**where)
    assert after["versionToken"] == before["versionToken"]
    client.rename_table(**where, newName="fresh", versionToken=before["versionToken"])


def test_update_metadata_location_swaps_the_pointer_once_per_token(
    service: TablesService, client: Any, sales: str
) -> None:
    table = with_schema(client, sales, "orders")
    where = names(sales, "orders")
    first = client.get_table_metadata_location(**where)
    next_file = service.next_metadata(
        first["metadataLocation"], "00001-next.metadata.json", properties={"step": "1"}
    )
    answer = client.update_table_metadata_location(
        **where, versionToken=table["versionToken"], metadataLocation=next_file
    )
    answer.pop("ResponseMetadata")
    token = answer.pop("versionToken")
    assert token != table["versionToken"]
    assert answer == {
        "name": "orders",
        "tableARN": table["tableARN"],
        "namespace": ["sales"],
        "metadataLocation": next_file,
    }
    assert client.get_table_metadata_location(**where)["versionToken"] == token
    other_file = service.next_metadata(next_file, "00001-other.metadata.json")
    assert (
        refused(
            client.update_table_metadata_location,
            **where,
            versionToken=table["versionToken"],
            metadataLocation=other_file,
        )
        == STALE
    )
    assert client.get_table(**where)["metadataLocation"] == next_file


def test_update_metadata_location_refuses_every_place_it_must_not_point_to(
    service: TablesService, client: Any, sales: str
) -> None:
    with_schema(client, sales, "other")
    foreign = client.get_table(**names(sales, "other"))["metadataLocation"]
    table = with_schema(client, sales, "orders")
    where = names(sales, "orders")
    answer = client.get_table(**where)
    warehouse, bucket = answer["warehouseLocation"], sales.rpartition("/")[2]
    service.put_object(bucket, "sales/orders/metadata/bad.metadata.json", b"{}")
    service.put_object(bucket, "sales/orders/metadata/text.metadata.json", b"no json")
    other_uuid = service.next_metadata(
        answer["metadataLocation"],
        "uuid.metadata.json",
        **{"table-uuid": "0b3e4f0c-8b1d-4a55-9d3e-6f1f2a7c9e10"},
    )
    below = f"does not lie below the table's location {warehouse}"
    for location, reason in (
        (foreign, below),
        (other_uuid, "is metadata of the table 0b3e4f0c-8b1d-4a55-9d3e-6f1f2a7c9e10, not of "),
        (f"{warehouse}/metadata/absent.metadata.json", "Failed to open input stream for file: "),
        (f"{warehouse}/metadata/bad.metadata.json", "missing required field `format-version`"),
        (
            f"{warehouse}/metadata/text.metadata.json",
            "Cannot parse table metadata: JSON is malformed",
        ),
        (f"{warehouse}2/metadata/00001.metadata.json", below),
        (warehouse, below),
        (f"{warehouse}/v1.metadata.json", "is no metadata file of a table at"),
        (f"{warehouse}/data/v1.metadata.json", "is no metadata file of a table at"),
        (f"{warehouse}/metadata/below/v1.metadata.json", "is no metadata file of a table at"),
        (f"s3://elsewhere/sales/orders/metadata/{foreign.rpartition('/')[2]}", below),
        ("file:///etc/passwd", below),
        ("http://169.254.169.254/x.metadata.json", below),
        (answer["metadataLocation"] + ".txt", "is not named like a metadata file"),
    ):
        status, code, message = refused(
            client.update_table_metadata_location,
            **where,
            versionToken=table["versionToken"],
            metadataLocation=location,
        )
        assert (status, code) == (400, "BadRequestException"), location
        assert message.startswith("The specified metadata location is not valid: "), location
        assert reason in message
    assert client.get_table(**where)["versionToken"] == table["versionToken"]


def test_first_commit_to_a_table_without_metadata_gives_it_its_metadata(
    service: TablesService, client: Any, sales: str
) -> None:
    with_schema(client, sales, "model")
    model = json.loads(
        service.read_object(client.get_table(**names(sales, "model"))["metadataLocation"])
    )
    table = create(client, sales, "late")
    where = names(sales, "late")
    warehouse = client.get_table(**where)["warehouseLocation"]
    own = {
        **model,
        "location": warehouse,
        "table-uuid": "0b3e4f0c-8b1d-4a55-9d3e-6f1f2a7c9e10",
    }
    bucket, _, path = warehouse.removeprefix("s3://").partition("/")
    service.put_object(bucket, f"{path}/metadata/00000.metadata.json", json.dumps(own).encode())
    client.update_table_metadata_location(
        **where,
        versionToken=table["versionToken"],
        metadataLocation=f"{warehouse}/metadata/00000.metadata.json",
    )
    ident = idents.TableIdent(table_bucket=bucket, namespace=("sales",), name="late")
    loaded = service.lake.load(ident)
    assert loaded.metadata.table_uuid == "0b3e4f0c-8b1d-4a55-9d3e-6f1f2a7c9e10"


def test_one_of_many_concurrent_updates_with_the_same_token_wins(
    service: TablesService, client: Any, sales: str
) -> None:
    table = with_schema(client, sales, "orders")
    where = names(sales, "orders")
    first = client.get_table(**where)["metadataLocation"]
    files = [service.next_metadata(first, f"{n}.metadata.json") for n in range(8)]
    ident = idents.TableIdent(
        table_bucket=sales.rpartition("/")[2], namespace=("sales",), name="orders"
    )

    async def race() -> list[Any]:
        return await asyncio.gather(
            *(
                service.lake.tables.set_metadata_location(
                    ident, location, version_token=table["versionToken"], by="arn:aws:iam::1:u"
                )
                for location in files
            ),
            return_exceptions=True,
        )

    results = service.run(race())
    winners = [result for result in results if not isinstance(result, Exception)]
    assert len(winners) == 1
    assert client.get_table(**where)["metadataLocation"] == winners[0].metadata_location


def test_a_table_made_here_is_the_catalogs_and_the_reverse(
    service: TablesService, client: Any, sales: str
) -> None:
    bucket = sales.rpartition("/")[2]
    with_schema(client, sales, "orders")
    ident = idents.TableIdent(table_bucket=bucket, namespace=("sales",), name="orders")
    loaded = service.lake.load(ident)
    before = client.get_table(**names(sales, "orders"))
    assert loaded.metadata_location == before["metadataLocation"]
    service.run(
        service.lake.tables.commit(
            ident,
            [],
            [{"action": "set-properties", "updates": {"a": "b"}}],
            by="arn:aws:iam::000000000000:user/u",
        )
    )
    after = client.get_table(**names(sales, "orders"))
    assert after["versionToken"] != before["versionToken"]
    assert after["metadataLocation"] != before["metadataLocation"]
    assert after["modifiedBy"] == ACCOUNT
    theirs = idents.TableIdent(table_bucket=bucket, namespace=("sales",), name="theirs")
    schema = {"type": "struct", "fields": [{"id": 1, "name": "x", "type": "int", "required": True}]}
    service.run(service.lake.tables.create(theirs, schema=schema, by="arn:aws:iam::1:user/u"))
    answer = client.get_table(**names(sales, "theirs"))
    assert answer["metadataLocation"].startswith(answer["warehouseLocation"] + "/metadata/")
