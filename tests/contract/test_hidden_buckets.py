"""Hidden buckets, which hold temporary tables: no door leads to them, also for the root user."""

from __future__ import annotations

import base64
import http.client
from pathlib import Path
from typing import Any

import botocore.exceptions
import pytest

from tests.kit import aws

NAME = "_temporary-1f"
ARN = f"arn:aws:s3tables:us-east-1:000000000000:bucket/{NAME}"


def code_of(call: Any, **arguments: Any) -> str:
    with pytest.raises(botocore.exceptions.ClientError) as caught:
        call(**arguments)
    error = caught.value.response["Error"]
    return str(error["Code"])


def native_status(server: aws.Server, path: str) -> int:
    pair = f"{aws.ROOT.access_key}:{aws.ROOT.secret_key}".encode()
    connection = http.client.HTTPConnection("127.0.0.1", server.serving.port, timeout=60)
    headers = {"authorization": f"Basic {base64.b64encode(pair).decode()}"}
    connection.request("GET", path, headers=headers)
    status = connection.getresponse().status
    connection.close()
    return status


def test_no_door_leads_to_a_hidden_bucket(tmp_path: Path) -> None:
    with aws.serving(tmp_path / "data") as server:
        storage = server.program.storage
        server.serving.run(storage.buckets.create_hidden("1f", region="us-east-1"))
        assert storage.buckets.get(NAME).type == "table"
        s3 = server.client("s3")
        assert NAME not in [each["Name"] for each in s3.list_buckets()["Buckets"]]
        own = {"Bucket": NAME, "Key": "a/b/data/c.parquet"}
        s3.create_bucket(Bucket="mine")
        answers = [
            aws.signed(server, aws.ROOT, "GET", f"/{NAME}?list-type=2", service="s3"),
            aws.signed(server, aws.ROOT, "GET", f"/{NAME}/a/b/data/c.parquet", service="s3"),
            aws.signed(server, aws.ROOT, "PUT", f"/{NAME}/a/b/data/c.parquet", service="s3"),
            aws.signed(server, aws.ROOT, "DELETE", f"/{NAME}", service="s3"),
            aws.signed(server, aws.ROOT, "GET", f"/iceberg/v1/{NAME}/namespaces"),
            aws.signed(server, aws.ROOT, "GET", f"/iceberg/v1/config?warehouse={NAME}"),
        ]
        assert [status for status, _ in answers] == [404] * len(answers)
        assert native_status(server, "/_api/v1/warehouses/lake") == 200
        assert native_status(server, f"/_api/v1/warehouses/{NAME}") == 404
        assert native_status(server, f"/_api/v1/warehouses/{NAME}/dropped") == 404
        source = {"Bucket": NAME, "Key": own["Key"]}
        assert code_of(s3.copy_object, Bucket="mine", Key="k", CopySource=source) == "NoSuchBucket"
        tables = server.client("s3tables")
        assert [each["name"] for each in tables.list_table_buckets()["tableBuckets"]] == ["lake"]
        assert code_of(tables.get_table_bucket, tableBucketARN=ARN) == "NotFoundException"
        assert storage.buckets.get(NAME).type == "table"
