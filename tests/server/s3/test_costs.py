"""What requests of a plain bucket ask of the index; features of other buckets cost them nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from storage import expiry, index, sweep
from tests.kit import s3 as kit

LIFECYCLE = {"Rules": [{"ID": "r", "Status": "Enabled", "Filter": {"Prefix": "old/"},
                        "Expiration": {"Days": 1}}]}  # fmt: skip
LOCK = {"ObjectLockEnabled": "Enabled",
        "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}}  # fmt: skip
CORS = {"CORSRules": [{"AllowedMethods": ["GET"], "AllowedOrigins": ["*"]}]}


@pytest.fixture
def requests_of_index(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts what the index is asked for, in views and in the writer."""
    counted: Counter[str] = Counter()

    def counting(what: str, ask: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Any, **more: Any) -> Any:
            counted[what] += 1
            return ask(*values, **more)

        return call

    async def nothing(_: Any) -> int:
        return 0

    # What the server does by itself, beside any request.
    monkeypatch.setattr(sweep.Sweep, "once", nothing)
    monkeypatch.setattr(expiry.Expiry, "once", nothing)
    for owner, name, what in (
        (index.ReadView, "get", "reads"),
        (index.Index, "get", "reads"),
        (index.ReadView, "first", "scans"),
        (index.ReadView, "scan", "scans"),
        (index.ReadView, "keys", "scans"),
        (index.ReadView, "take", "scans"),
        (index.ReadView, "take_columns", "scans"),
        (index._Writing, "do", "writes"),
    ):
        monkeypatch.setattr(owner, name, counting(what, getattr(owner, name)))
    return counted


@pytest.fixture
def store(requests_of_index: Counter[str], tmp_path: Path) -> Iterator[kit.ObjectStore]:
    """A server of its own, in which nothing else asks the index."""
    with kit.serve(tmp_path / "data") as running:
        yield running


def costs(store: kit.ObjectStore, requests_of_index: Counter[str]) -> dict[str, dict[str, int]]:
    """Return what each of the most frequent requests asks, in the bucket `plain`."""
    counts = {}
    for name, method, target, body, status in (
        ("PUT of a new key", "PUT", "/plain/k", b"1", 200),
        ("PUT over it", "PUT", "/plain/k", b"2", 200),
        ("GET", "GET", "/plain/k", b"", 200),
        ("HEAD", "HEAD", "/plain/k", b"", 200),
        ("list", "GET", "/plain?list-type=2", b"", 200),
        ("DELETE", "DELETE", "/plain/k", b"", 204),
    ):
        requests_of_index.clear()
        assert kit.call(store, method, target, body=body).status == status
        counts[name] = dict(requests_of_index)
    return counts


def test_a_plain_bucket_pays_nothing_for_what_other_buckets_use(
    store: kit.ObjectStore, requests_of_index: Counter[str]
) -> None:
    s3 = kit.client(store)
    s3.create_bucket(Bucket="plain")
    costs(store, requests_of_index)
    before = costs(store, requests_of_index)

    s3.create_bucket(Bucket="rich", ObjectLockEnabledForBucket=True)
    statement = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject",
                 "Resource": "arn:aws:s3:::rich/*"}  # fmt: skip
    s3.put_bucket_policy(
        Bucket="rich", Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    )
    s3.put_object_lock_configuration(Bucket="rich", ObjectLockConfiguration=LOCK)
    s3.put_bucket_lifecycle_configuration(Bucket="rich", LifecycleConfiguration=LIFECYCLE)
    s3.put_bucket_cors(Bucket="rich", CORSConfiguration=CORS)
    s3.put_bucket_tagging(Bucket="rich", Tagging={"TagSet": [{"Key": "a", "Value": "1"}]})
    s3.put_bucket_acl(Bucket="rich", ACL="public-read")
    assert s3.get_bucket_versioning(Bucket="rich")["Status"] == "Enabled"
    for body in (b"1", b"2"):
        s3.put_object(Bucket="rich", Key="k", Body=body)
    s3.delete_object(Bucket="rich", Key="k")

    costs(store, requests_of_index)
    assert costs(store, requests_of_index) == before
    assert before == {
        "PUT of a new key": {"reads": 2, "writes": 2},
        "PUT over it": {"reads": 3, "writes": 3},
        "GET": {"reads": 3},
        "HEAD": {"reads": 2},
        "list": {"reads": 1, "scans": 1},
        "DELETE": {"reads": 4, "writes": 2},
    }
