"""The `[[mounts]]` of mini.toml and Embucket's configuration: what is read, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from server import config, metastores, mounts

REST = {"name": "prod", "uri": "https://catalog.example.org/iceberg"}
TABLES = {"name": "old", "tables": {"sales.eu.orders": "s3://lake/o/metadata/1.metadata.json"}}


def test_a_rest_catalog_and_single_tables_are_mounts_with_their_defaults() -> None:
    prod, old = mounts.parse([{**REST, "credential": "id:secret"}, TABLES])
    assert (prod.uri, prod.refresh_seconds, prod.timeout_seconds) == (REST["uri"], 10, 10)
    assert old.tables == (
        mounts.MountedTable(
            namespace=("sales", "eu"),
            name="orders",
            metadata_location="s3://lake/o/metadata/1.metadata.json",
        ),
    )


def test_secrets_of_a_mount_are_not_in_its_repr() -> None:
    (mount,) = mounts.parse(
        [{**REST, "token": "hush-1", "access_key": "hush-2", "secret_key": "hush-3"}]
    )
    assert "hush" not in repr(mount)
    (mount,) = mounts.parse([{**REST, "credential": "id:hush"}])
    assert "hush" not in repr(mount)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"uri": REST["uri"]}, "name is missing"),
        ({**REST, "name": "Prod"}, "prod|Prod"),
        ({"name": "prod"}, "either uri"),
        ({**REST, "tables": TABLES["tables"]}, "either uri"),
        ({**REST, "urI": "x"}, "unknown key 'urI'"),
        ({**REST, "uri": "ftp://catalog"}, "not an http or https URL"),
        ({**REST, "uri": "https://user:word@catalog"}, "without a user"),
        ({**REST, "uri": "https://catalog/?token=x"}, "without a user"),
        ({**REST, "token": "a", "credential": "b:c"}, "only one of token"),
        ({**REST, "sigv4": "s3tables"}, "sigv4 needs region"),
        ({**REST, "access_key": "a"}, "go together"),
        ({**REST, "timeout_seconds": 0}, "at least 1"),
        ({**REST, "refresh_seconds": True}, "whole number"),
        ({**TABLES, "warehouse": "x"}, "there is no uri"),
        ({"name": "old", "tables": {"orders": "s3://lake/x"}}, "not a table's name"),
    ],
)
def test_a_malformed_mount_is_refused_with_what_is_wrong(
    entry: dict[str, Any], message: str
) -> None:
    with pytest.raises(mounts.InvalidMount, match=message):
        mounts.parse([entry])


def test_two_mounts_or_a_bucket_of_one_name_are_refused() -> None:
    with pytest.raises(config.InvalidConfig, match="same name"):
        config.resolve({}, {}, {"mounts": [REST, REST]})
    with pytest.raises(config.InvalidConfig, match="same name"):
        config.resolve({}, {}, {"mounts": [{**REST, "name": "lake"}]})


KEYS = {
    "credential_type": "access_key",
    "aws-access-key-id": "AKIAEXAMPLEEXAMPLE12",
    "aws-secret-access-key": "secret",
}
EMBUCKET = {
    "volumes": [
        {
            "ident": "aws",
            "type": "s3-tables",
            "database": "demo",
            "credentials": KEYS,
            "arn": "arn:aws:s3tables:us-east-2:123456789012:bucket/my-table-bucket",
        },
        {"ident": "lakehouse", "type": "s3", "region": "eu-west-1", "bucket": "b",
         "credentials": KEYS},
        {"ident": "disk", "type": "file", "path": "/data"},
        {"ident": "ram", "type": "memory", "database": "scratch_pad"},
        {"ident": "unused", "type": "s3", "bucket": "c"},
    ],
    "databases": [
        {"ident": "My_Lake", "volume": "lakehouse"},
        {"ident": "local", "volume": "disk", "should_refresh": "true"},
    ],
    "schemas": [
        {"database": "My_Lake", "schema": "tpch_10"},
        {"database": "My_Lake", "schema": "empty"},
        {"database": "scratch_pad", "schema": "public"},
    ],
    "tables": [
        {"database": "My_Lake", "schema": "tpch_10", "table": "customer",
         "metadata_location": "s3://b/tpch_10/customer/metadata/00001.metadata.json"},
        {"database": "local", "schema": "s", "table": "t",
         "metadata_location": "file:///data/s/t/metadata/1.metadata.json"},
    ],
}  # fmt: skip


def test_embuckets_configuration_becomes_mounts_and_table_buckets() -> None:
    described = metastores.parse(EMBUCKET, "metastore.yaml")
    demo, my_lake, local = described.mounts
    assert (demo.name, demo.uri, demo.warehouse, demo.sigv4, demo.region) == (
        "demo",
        "https://s3tables.us-east-2.amazonaws.com/iceberg",
        "arn:aws:s3tables:us-east-2:123456789012:bucket/my-table-bucket",
        "s3tables",
        "us-east-2",
    )
    assert (my_lake.name, my_lake.region, my_lake.access_key) == (
        "my-lake", "eu-west-1", "AKIAEXAMPLEEXAMPLE12",
    )  # fmt: skip
    assert my_lake.schemas == (("tpch_10",), ("empty",))
    assert (local.folder, local.tables[0].name) == ("/data", "t")
    assert described.table_buckets == ("scratch-pad",)
    assert described.schemas == (("scratch-pad", "public"),)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"volumes": [{"ident": "a", "type": "gcs"}]}, "type 'gcs' is none of"),
        ({"volumes": [{"ident": "a", "type": "memory", "pth": "x"}]}, "unknown key 'pth'"),
        ({"databases": [{"ident": "x", "volume": "nowhere"}], "tables": [], "schemas": []},
         "no volume nowhere"),
        ({"databases": [{"ident": "xyz", "volume": "disk"}], "tables": [], "schemas": []},
         "would be stored in this server"),
        ({"schemas": [{"database": "nowhere", "schema": "s"}]}, "no database nowhere"),
        ({"tables": [{"database": "demo", "schema": "s", "table": "t", "metadata_location": "x"}],
          "databases": [], "schemas": []}, "are those of its table bucket"),
        ({"volume": []}, "unknown key 'volume'"),
    ],
)  # fmt: skip
def test_a_configuration_of_embucket_that_cannot_be_kept_is_refused(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(mounts.InvalidMount, match=message):
        metastores.parse({**EMBUCKET, **change}, "metastore.yaml")
