"""Who may do what through this API: the table of protocol operations and actions."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from server.access import model
from server.s3 import ownership
from tests.s3tables.tables_service import (
    ROOT,
    TablesService,
    allow,
    bucket_arn,
    opened,
    policy,
    refused,
)

BUCKET = bucket_arn("lake-house")
TABLES = f"{BUCKET}/table/*"
IN_SALES = {"Condition": {"StringEquals": {"s3tables:namespace": "sales"}}}
ORDERS = {"tableBucketARN": BUCKET, "namespace": "sales", "name": "orders"}

USERS: dict[str, list[dict[str, Any]]] = {
    "powerless": [],
    "lister": [
        policy(
            allow(["s3tables:ListTables", "s3tables:ListNamespaces"], BUCKET),
            allow("s3tables:ListTableBuckets", "*"),
        )
    ],
    "reader": [
        policy(
            allow(
                ["s3tables:ListTables", "s3tables:ListNamespaces", "s3tables:GetTableBucket"],
                BUCKET,
            ),
            allow("s3tables:ListTableBuckets", "*"),
            allow("s3tables:GetNamespace", BUCKET, **IN_SALES),
            allow(["s3tables:GetTable", "s3tables:GetTableMetadataLocation"], TABLES, **IN_SALES),
        )
    ],
    "writer": [
        policy(
            allow("s3tables:CreateTable", BUCKET, **IN_SALES),
            allow(
                [
                    "s3tables:GetTable",
                    "s3tables:GetTableMetadataLocation",
                    "s3tables:UpdateTableMetadataLocation",
                    "s3tables:RenameTable",
                    "s3tables:PutTableData",
                ],
                TABLES,
                **IN_SALES,
            ),
        )
    ],
    "tagger": [policy(allow(["s3tables:TagResource", "s3tables:ListTagsForResource"], TABLES))],
    "labeller": [
        policy(
            allow(
                ["s3tables:TagResource", "s3tables:UntagResource", "s3tables:CreateTableBucket"],
                "*",
                Condition={
                    "ForAllValues:StringEquals": {"aws:TagKeys": ["stage"]},
                    "Null": {"aws:TagKeys": "false"},
                    "StringEqualsIfExists": {"aws:RequestTag/stage": ["test", "dev"]},
                },
            )
        )
    ],
    "encrypter": [
        policy(
            allow(
                ["s3tables:CreateTableBucket", "s3tables:PutTableBucketEncryption"],
                "*",
                Condition={"StringEquals": {"s3tables:SSEAlgorithm": "AES256"}},
            )
        )
    ],
    "builder": [policy(allow("s3tables:CreateTableBucket", bucket_arn("built-*")))],
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TablesService]:
    path: Path = tmp_path_factory.mktemp("guarded") / "data"
    with opened(path, users=USERS) as service:
        root = service.client()
        root.create_table_bucket(name="lake-house")
        for namespace in ("sales", "other"):
            root.create_namespace(tableBucketARN=BUCKET, namespace=[namespace])
            root.create_table(**{**ORDERS, "namespace": namespace}, format="ICEBERG")
        yield service


def denied(call: Any, **members: Any) -> str:
    """The action that a denied call lacked."""
    status, code, message = refused(call, **members)
    assert (status, code) == (403, "AccessDeniedException")
    return message.partition("to perform ")[2].partition(" on resource ")[0]


def test_a_user_without_policies_may_do_nothing(guarded: TablesService) -> None:
    client = guarded.client("powerless")
    table = guarded.client().get_table(**ORDERS)
    arn = table["tableARN"]
    schema = {"iceberg": {"schema": {"fields": [{"name": "a", "type": "int"}]}}}
    where = {"tableBucketARN": BUCKET}
    for expected, call, members in (
        ("CreateTableBucket", client.create_table_bucket, {"name": "mine"}),
        ("ListTableBuckets", client.list_table_buckets, {}),
        ("GetTableBucket", client.get_table_bucket, where),
        ("DeleteTableBucket", client.delete_table_bucket, where),
        ("CreateNamespace", client.create_namespace, {**where, "namespace": ["x"]}),
        ("ListNamespaces", client.list_namespaces, where),
        ("GetNamespace", client.get_namespace, {**where, "namespace": "sales"}),
        ("DeleteNamespace", client.delete_namespace, {**where, "namespace": "sales"}),
        ("CreateTable", client.create_table, {**ORDERS, "format": "ICEBERG", "metadata": schema}),
        ("ListTables", client.list_tables, where),
        ("GetTable", client.get_table, ORDERS),
        ("GetTable", client.get_table, {"tableArn": arn}),
        ("DeleteTable", client.delete_table, ORDERS),
        ("RenameTable", client.rename_table, {**ORDERS, "newName": "x"}),
        ("GetTableMetadataLocation", client.get_table_metadata_location, ORDERS),
        (
            "UpdateTableMetadataLocation",
            client.update_table_metadata_location,
            {**ORDERS, "versionToken": "x", "metadataLocation": "s3://x/y"},
        ),
        ("TagResource", client.tag_resource, {"resourceArn": arn, "tags": {"a": "b"}}),
        ("TagResource", client.tag_resource, {"resourceArn": BUCKET, "tags": {"a": "b"}}),
        ("ListTagsForResource", client.list_tags_for_resource, {"resourceArn": arn}),
        ("UntagResource", client.untag_resource, {"resourceArn": arn, "tagKeys": ["a"]}),
        ("GetTablePolicy", client.get_table_policy, ORDERS),
        ("PutTablePolicy", client.put_table_policy, {**ORDERS, "resourcePolicy": "{}"}),
        ("DeleteTablePolicy", client.delete_table_policy, ORDERS),
        ("GetTableBucketPolicy", client.get_table_bucket_policy, where),
        ("PutTableBucketPolicy", client.put_table_bucket_policy,
         {**where, "resourcePolicy": "{}"}),
        ("DeleteTableBucketPolicy", client.delete_table_bucket_policy, where),
        ("GetTableReplication", client.get_table_replication, {"tableArn": arn}),
    ):  # fmt: skip
        assert denied(call, **members) == f"s3tables:{expected}"
    after = guarded.client().get_table(**ORDERS)
    assert after["versionToken"] == table["versionToken"]
    assert (
        "tags" not in guarded.client().list_tags_for_resource(resourceArn=arn)
        or not (guarded.client().list_tags_for_resource(resourceArn=arn)["tags"])
    )


def test_listings_leave_out_what_the_caller_may_not_see(guarded: TablesService) -> None:
    lister, reader = guarded.client("lister"), guarded.client("reader")
    where = {"tableBucketARN": BUCKET}
    assert lister.list_table_buckets()["tableBuckets"] == []
    assert lister.list_namespaces(**where)["namespaces"] == []
    assert lister.list_tables(**where)["tables"] == []
    assert [b["name"] for b in reader.list_table_buckets()["tableBuckets"]] == ["lake-house"]
    assert [n["namespace"] for n in reader.list_namespaces(**where)["namespaces"]] == [["sales"]]
    assert [t["namespace"] for t in reader.list_tables(**where)["tables"]] == [["sales"]]


def test_a_condition_on_the_namespace_opens_that_namespace_alone(guarded: TablesService) -> None:
    reader = guarded.client("reader")
    arn = reader.get_table(**ORDERS)["tableARN"]
    assert reader.get_table(tableArn=arn)["name"] == "orders"
    reader.get_table_metadata_location(**ORDERS)
    assert denied(reader.get_table, **{**ORDERS, "namespace": "other"}) == "s3tables:GetTable"
    assert (
        denied(reader.get_namespace, tableBucketARN=BUCKET, namespace="other")
        == "s3tables:GetNamespace"
    )


def test_what_is_absent_is_404_to_those_who_may_list_and_403_to_others(
    guarded: TablesService,
) -> None:
    absent = {**ORDERS, "name": "absent"}
    nothing = f"{BUCKET}/table/0b3e4f0c-8b1d-4a55-9d3e-6f1f2a7c9e10"
    for members in (absent, {"tableArn": nothing}):
        assert refused(guarded.client("lister").get_table, **members)[:2] == (
            404,
            "NotFoundException",
        )
        # A refusal names the action that was asked, as for a table that exists.
        assert denied(guarded.client("writer").get_table, **members) == "s3tables:GetTable"
        assert denied(guarded.client("powerless").get_table, **members) == "s3tables:GetTable"


def test_demands_from_the_body_are_checked_before_any_change(guarded: TablesService) -> None:
    writer = guarded.client("writer")
    schema = {"iceberg": {"schema": {"fields": [{"name": "a", "type": "int"}]}}}
    names = {**ORDERS, "name": "made"}
    writer.create_table(**names, format="ICEBERG", metadata=schema)
    assert (
        denied(
            writer.create_table, **{**names, "name": "tagged"}, format="ICEBERG", tags={"a": "b"}
        )
        == "s3tables:TagResource"
    )
    assert denied(writer.rename_table, **names, newNamespaceName="other") == "s3tables:CreateTable"
    writer.rename_table(**names, newName="renamed")
    listed = guarded.client().list_tables(tableBucketARN=BUCKET)["tables"]
    assert {(t["namespace"][0], t["name"]) for t in listed} == {
        ("sales", "orders"), ("other", "orders"), ("sales", "renamed"),
    }  # fmt: skip


def test_moving_the_pointer_needs_reading_and_writing_the_data_too(guarded: TablesService) -> None:
    members = {**ORDERS, "versionToken": "x", "metadataLocation": "s3://x/y"}
    writer = guarded.client("writer")
    assert denied(writer.update_table_metadata_location, **members) == "s3tables:GetTableData"


def test_a_policy_names_tables_and_buckets_by_their_arns(guarded: TablesService) -> None:
    tagger, builder = guarded.client("tagger"), guarded.client("builder")
    arn = guarded.client().get_table(**ORDERS)["tableARN"]
    tagger.tag_resource(resourceArn=arn, tags={"a": "b"})
    assert tagger.list_tags_for_resource(resourceArn=arn)["tags"] == {"a": "b"}
    guarded.client().untag_resource(resourceArn=arn, tagKeys=["a"])
    assert denied(tagger.tag_resource, resourceArn=BUCKET, tags={"a": "b"}) == (
        "s3tables:TagResource"
    )
    builder.create_table_bucket(name="built-one")
    assert denied(builder.create_table_bucket, name="other") == "s3tables:CreateTableBucket"
    for member, value, action in (
        ("encryptionConfiguration", {"sseAlgorithm": "AES256"}, "PutTableBucketEncryption"),
        ("storageClassConfiguration", {"storageClass": "STANDARD"}, "PutTableBucketStorageClass"),
    ):
        create = {"name": "built-two", member: value}
        assert denied(builder.create_table_bucket, **create) == f"s3tables:{action}"
    assert denied(builder.create_table_bucket, name="built-two", tags={"a": "b"}) == (
        "s3tables:TagResource"
    )


def test_a_caller_that_may_not_purge_ends_no_undrop_time_by_deleting_the_table_bucket(
    tmp_path: Path,
) -> None:
    arn = bucket_arn("emptied")
    may_delete = allow("s3tables:*", [arn, f"{arn}/table/*"])
    users = {
        "deleter": [policy(may_delete)],
        "purger": [policy(may_delete, allow("lake:RunMaintenance", arn))],
    }
    with opened(tmp_path / "data", users=users) as service:
        root, deleter = service.client(), service.client("deleter")
        root.create_table_bucket(name="emptied")
        root.create_namespace(tableBucketARN=arn, namespace=["sales"])
        where = {"tableBucketARN": arn, "namespace": "sales"}
        root.create_table(**where, name="orders", format="ICEBERG")
        service.put_object("emptied", "sales/orders/data/f.parquet", b"x")
        deleter.delete_table(**where, name="orders")
        deleter.delete_namespace(**where)
        status, code, message = refused(deleter.delete_table_bucket, tableBucketARN=arn)
        assert (status, code) == (409, "ConflictException")
        assert message.startswith("The table orders was dropped and can be restored until ")
        assert message.endswith(" UTC. To delete its table bucket before needs lake:RunMaintenance")
        # Hiding its files through S3 changes nothing.
        key = "sales/orders/data/f.parquet"
        service.run(service.lake.storage.objects.delete("emptied", key))
        assert refused(deleter.delete_table_bucket, tableBucketARN=arn)[:2] == (status, code)
        service.client("purger").delete_table_bucket(tableBucketARN=arn)


def test_a_caller_that_may_not_purge_deletes_a_table_bucket_when_the_undrop_time_is_over(
    tmp_path: Path,
) -> None:
    arn = bucket_arn("emptied")
    users = {"deleter": [policy(allow("s3tables:*", [arn, f"{arn}/table/*"]))]}
    with opened(tmp_path / "data", users=users) as service:
        root, deleter = service.client(), service.client("deleter")
        root.create_table_bucket(name="emptied")
        root.create_namespace(tableBucketARN=arn, namespace=["sales"])
        where = {"tableBucketARN": arn, "namespace": "sales"}
        root.create_table(**where, name="orders", format="ICEBERG")
        deleter.delete_table(**where, name="orders")
        deleter.delete_namespace(**where)
        assert refused(deleter.delete_table_bucket, tableBucketARN=arn)[0] == 409
        service.lake.clock.now_ms += 31 * 24 * 60 * 60 * 1000
        deleter.delete_table_bucket(tableBucketARN=arn)


def test_the_metrics_count_denials_by_principal(guarded: TablesService) -> None:
    def counted() -> int:
        basic = base64.b64encode(":".join(ROOT).encode()).decode()
        headers = {"host": "boathouse.test", "authorization": f"Basic {basic}"}
        answer = guarded.send("GET", "http://boathouse.test/_metrics", headers, b"")
        assert answer.status == 200
        text = answer.body.decode()
        name = 'boathouse_denials_total{principal="arn:aws:iam::000000000000:user/powerless"} '
        return sum(int(line.removeprefix(name)) for line in text.split("\n") if name in line)

    before = counted()
    for _ in range(2):
        assert denied(guarded.client("powerless").list_table_buckets)
    guarded.client().list_table_buckets()
    assert counted() == before + 2


@pytest.mark.parametrize("resource", ["bucket", "table"])
def test_the_tags_that_a_request_gives_or_removes_are_conditions(
    guarded: TablesService, resource: str
) -> None:
    root, client = guarded.client(), guarded.client("labeller")
    arn = BUCKET if resource == "bucket" else root.get_table(**ORDERS)["tableARN"]
    for tags in ({"stage": "live"}, {"team": "a"}, {"stage": "dev", "team": "a"}):
        assert denied(client.tag_resource, resourceArn=arn, tags=tags) == "s3tables:TagResource"
    assert root.list_tags_for_resource(resourceArn=arn)["tags"] == {}
    client.tag_resource(resourceArn=arn, tags={"stage": "dev"})
    root.tag_resource(resourceArn=arn, tags={"team": "a"})
    untagged = {"resourceArn": arn, "tagKeys": ["team", "stage"]}
    assert denied(client.untag_resource, **untagged) == "s3tables:UntagResource"
    client.untag_resource(resourceArn=arn, tagKeys=["stage"])
    assert root.list_tags_for_resource(resourceArn=arn)["tags"] == {"team": "a"}
    root.untag_resource(resourceArn=arn, tagKeys=["team"])


def test_the_resource_side_of_a_table_bucket_and_of_its_tables(guarded: TablesService) -> None:
    root, storage = guarded.client(), guarded.lake.storage
    arn = root.create_table_bucket(name="tagged", tags={"team": "blue", "of": "bucket"})["arn"]
    root.create_namespace(tableBucketARN=arn, namespace=["ns"])
    table = {"tableBucketARN": arn, "namespace": "ns", "name": "t"}
    table_arn = root.create_table(**table, format="ICEBERG", tags={"team": "red"})["tableARN"]
    for resource in (arn, table_arn):
        text = json.dumps(
            policy({**allow("s3tables:*", resource), "Principal": {"AWS": "000000000000"}})
        )
        if resource == arn:
            root.put_table_bucket_policy(tableBucketARN=arn, resourcePolicy=text)
        else:
            root.put_table_policy(**table, resourcePolicy=text)
    side_of = ownership.Ownership(
        buckets=storage.buckets, objects=storage.objects, index=storage.index
    ).side_of

    def side(resource: str) -> tuple[int, Mapping[str, tuple[str, ...]]]:
        answer = side_of(model.Demand(action="s3tables:GetTable", resource=resource))
        return len(answer.policies), {} if answer.tags is None else answer.tags()

    of_bucket = {
        "s3tables:tablebuckettag/team": ("blue",),
        "s3tables:tablebuckettag/of": ("bucket",),
    }
    own = {"aws:resourcetag/team": ("blue",), "aws:resourcetag/of": ("bucket",)}
    assert side(arn) == (1, {**own, **of_bucket})
    assert side(table_arn) == (2, {"aws:resourcetag/team": ("red",), **of_bucket})
    # A table that is yet to be made has no tags, and not those of its bucket either.
    assert side(f"{arn}/table/*") == (1, of_bucket)
    assert side(f"{arn}/table/{'0' * 8}-0000-4000-8000-{'0' * 12}") == (1, of_bucket)
    # A role and a key of a general bucket may have the name of a table bucket.
    assert side("arn:aws:iam::000000000000:role/tagged") == (0, {})
    assert side("arn:aws:iam::000000000000:bucket/tagged") == (0, {})
    assert side(bucket_arn("no-such-bucket")) == (0, {})
    root.delete_table(**table)
    root.delete_namespace(tableBucketARN=arn, namespace="ns")
    root.delete_table_bucket(tableBucketARN=arn)


def test_the_tags_and_the_encryption_of_a_new_bucket_are_conditions(
    guarded: TablesService,
) -> None:
    create = guarded.client("labeller").create_table_bucket
    assert denied(create, name="labelled") == "s3tables:CreateTableBucket"
    assert denied(create, name="labelled", tags={"stage": "live"}) == "s3tables:CreateTableBucket"
    arn = create(name="labelled", tags={"stage": "test"})["arn"]
    client = guarded.client("encrypter")
    assert denied(client.create_table_bucket, name="unlocked") == "s3tables:CreateTableBucket"
    encrypted = {"encryptionConfiguration": {"sseAlgorithm": "AES256"}}
    # Allowed, and refused for what the disk is.
    status, code, _ = refused(client.create_table_bucket, name="locked", **encrypted)
    assert (status, code) == (400, "BadRequestException")
    status, code, _ = refused(client.put_table_bucket_encryption, tableBucketARN=arn, **encrypted)
    assert (status, code) == (400, "BadRequestException")
    by_kms = {"sseAlgorithm": "aws:kms", "kmsKeyArn": f"arn:aws:kms:us-east-1:{'0' * 12}:key/k"}
    put = client.put_table_bucket_encryption
    refusal = denied(put, tableBucketARN=arn, encryptionConfiguration=by_kms)
    assert refusal == "s3tables:PutTableBucketEncryption"
    guarded.client().delete_table_bucket(tableBucketARN=arn)
