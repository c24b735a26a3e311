"""awscli's s3tables commands against a server as a user starts it, with only an endpoint URL."""

from __future__ import annotations

import json
import subprocess
import uuid
from typing import Any

import pytest

from tests.kit import environments
from tests.kit import server as server_kit

CLI_TIMEOUT_SECONDS = 120


class Cli:
    """`aws s3tables ...` in an environment of its own."""

    def __init__(self, server: server_kit.Running) -> None:
        self._program = environments.program("awscli", "aws")
        self._url = server.url
        self._environment = {
            **server_kit.client_environment(),
            "AWS_ACCESS_KEY_ID": server.access_key,
            "AWS_SECRET_ACCESS_KEY": server.secret_key,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_CONFIG_FILE": "/nonexistent",
            "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
        }

    def run(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        line = [str(self._program), "--endpoint-url", self._url, "s3tables", command, *arguments]
        return subprocess.run(
            line,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=CLI_TIMEOUT_SECONDS,
            check=False,
        )

    def __call__(self, command: str, *arguments: str) -> Any:
        done = self.run(command, *arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None


@pytest.fixture
def aws(server: server_kit.Running) -> Cli:
    return Cli(server)


def test_awscli_makes_lists_renames_and_deletes(aws: Cli) -> None:
    name = f"cli-{uuid.uuid4().hex[:12]}"
    bucket = aws("create-table-bucket", "--name", name, "--tags", "team=lake")["arn"]
    where = ("--table-bucket-arn", bucket)
    aws("create-namespace", *where, "--namespace", "sales")
    table = ("--namespace", "sales", "--name", "orders")
    schema = {"iceberg": {"schema": {"fields": [{"name": "id", "type": "long"}]}}}
    created = aws(
        "create-table", *where, *table, "--format", "ICEBERG", "--metadata", json.dumps(schema)
    )
    described = aws("get-table", *where, *table)
    assert described["tableARN"] == created["tableARN"]
    assert described["metadataLocation"].startswith(f"s3://{name}/sales/orders/metadata/00000-")
    assert aws("list-tables", *where)["tables"][0]["name"] == "orders"
    aws("tag-resource", "--resource-arn", created["tableARN"], "--tags", "a=b")
    listed = aws("list-tags-for-resource", "--resource-arn", created["tableARN"])
    assert listed == {"tags": {"a": "b"}}
    aws("rename-table", *where, *table, "--new-name", "moved")
    gone = aws.run("get-table", *where, *table)
    assert gone.returncode != 0
    assert "(NotFoundException)" in gone.stderr
    assert "The specified table does not exist." in gone.stderr
    aws("delete-table", *where, "--namespace", "sales", "--name", "moved")
    aws("delete-namespace", *where, "--namespace", "sales")
    aws("delete-table-bucket", *where)
