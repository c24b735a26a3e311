"""The encryption of table buckets and tables, which is that of the operator's disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.s3tables import tables_service as kit

AES256 = {"sseAlgorithm": "AES256"}
ABSENT = (
    404,
    "NotFoundException",
    "The specified resource does not have an encryption configuration.",
)


def test_on_a_plain_disk_no_encryption_is_shown_and_the_refusal_says_what_to_do(
    client: Any, sales: str
) -> None:
    table = {"tableBucketARN": sales, "namespace": "sales", "name": "orders"}
    client.create_table(**table, format="ICEBERG")
    assert kit.refused(client.get_table_bucket_encryption, tableBucketARN=sales) == ABSENT
    assert kit.refused(client.get_table_encryption, **table) == ABSENT
    for call, members in (
        (client.put_table_bucket_encryption, {"tableBucketARN": sales}),
        (client.create_table_bucket, {"name": "encrypted"}),
        (client.create_table, {**table, "name": "encrypted", "format": "ICEBERG"}),
    ):
        status, code, message = kit.refused(call, **members, encryptionConfiguration=AES256)
        assert (status, code) == (400, "BadRequestException")
        assert "encrypted_disk" in message
    assert client.list_table_buckets(prefix="encrypted")["tableBuckets"] == []
    assert len(client.list_tables(tableBucketARN=sales)["tables"]) == 1
    client.delete_table_bucket_encryption(tableBucketARN=sales)


def test_on_an_encrypted_disk_every_table_has_aes256_and_a_bucket_shows_what_was_put(
    tmp_path: Path,
) -> None:
    """Terraform's aws_s3tables_table_bucket fails if it is shown an encryption that it has not put,
    and its aws_s3tables_table if it is shown none."""
    with kit.opened(tmp_path / "data", encrypted_disk=True) as service:
        client = service.client()
        for name, configuration in (
            ("encrypted", {"encryptionConfiguration": AES256}),
            ("default", {}),
        ):
            bucket = {
                "tableBucketARN": client.create_table_bucket(name=name, **configuration)["arn"]
            }
            client.create_namespace(**bucket, namespace=["sales"])
            table = {**bucket, "namespace": "sales", "name": "orders"}
            client.create_table(**table, format="ICEBERG", **configuration)
            if configuration:
                assert shown(client, bucket) == AES256
            else:
                assert kit.refused(client.get_table_bucket_encryption, **bucket) == ABSENT
            client.put_table_bucket_encryption(**bucket, encryptionConfiguration=AES256)
            assert shown(client, bucket) == AES256
            assert client.get_table_encryption(**table)["encryptionConfiguration"] == AES256
            client.delete_table_bucket_encryption(**bucket)
            assert kit.refused(client.get_table_bucket_encryption, **bucket) == ABSENT
            assert client.get_table_encryption(**table)["encryptionConfiguration"] == AES256


def shown(client: Any, bucket: dict[str, str]) -> Any:
    return client.get_table_bucket_encryption(**bucket)["encryptionConfiguration"]
