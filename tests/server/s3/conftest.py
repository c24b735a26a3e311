"""One S3 server for all tests of the face."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.kit import s3 as kit


@pytest.fixture(scope="package")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kit.ObjectStore]:
    """A server without tables."""
    with kit.serve(tmp_path_factory.mktemp("s3") / "data") as running:
        yield running


@pytest.fixture(scope="package")
def s3(store: kit.ObjectStore) -> Any:
    """boto3's client of the root user."""
    return kit.client(store)


@pytest.fixture(scope="package")
def new_bucket(s3: Any) -> Callable[[], str]:
    """Creates a bucket of its own for each call."""
    numbers = itertools.count(1)

    def make() -> str:
        name = f"bucket-{next(numbers):04d}"
        s3.create_bucket(Bucket=name)
        return name

    return make


@pytest.fixture
def bucket(new_bucket: Callable[[], str]) -> str:
    """A fresh bucket."""
    return new_bucket()
