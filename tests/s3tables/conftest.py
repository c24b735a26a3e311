"""One server per test module; tests use table buckets of their own in it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.s3tables import tables_service as kit

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kit.TablesService]:
    with kit.opened(tmp_path_factory.mktemp("service") / "data") as opened:
        yield opened


@pytest.fixture(scope="module")
def client(service: kit.TablesService) -> Any:
    return service.client()


@pytest.fixture
def bucket(client: Any) -> str:
    """The ARN of a new table bucket."""
    return str(client.create_table_bucket(name=f"bucket-{next(_NUMBERS)}")["arn"])


@pytest.fixture
def sales(client: Any, bucket: str) -> str:
    """The ARN of a new table bucket with the namespace `sales`."""
    client.create_namespace(tableBucketARN=bucket, namespace=["sales"])
    return bucket
