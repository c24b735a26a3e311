"""S3 as obstore, and with it delta-rs and other users of Rust's object_store, use it."""

from __future__ import annotations

import hashlib
from typing import Any

import obstore
import obstore.exceptions
import obstore.store
import pytest

from tests.kit import s3 as kit
from tests.kit.server import Running

BODY = hashlib.shake_256(b"obstore").digest(12_000_000)


@pytest.fixture
def store(server: Running) -> Any:
    bucket = kit.new_bucket(kit.client(server))
    return obstore.store.S3Store(
        bucket,
        endpoint=server.url,
        access_key_id=server.access_key,
        secret_access_key=server.secret_key,
        region=kit.REGION,
        client_options={"allow_http": True},
    )


def test_obstore_writes_reads_and_creates_exclusively(store: Any) -> None:
    obstore.put(store, "a/large", BODY)
    created = obstore.put(store, "a/small", b"one", mode="create")
    with pytest.raises(obstore.exceptions.AlreadyExistsError):
        obstore.put(store, "a/small", b"two", mode="create")
    assert obstore.get(store, "a/large").bytes() == BODY
    assert obstore.get_range(store, "a/large", start=5, length=10) == BODY[5:15]
    update = {"e_tag": created["e_tag"]}
    obstore.put(store, "a/small", b"three", mode=update)
    with pytest.raises(obstore.exceptions.PreconditionError):
        obstore.put(store, "a/small", b"four", mode=update)
    listed = [row["path"] for batch in obstore.list(store) for row in batch]
    assert listed == ["a/large", "a/small"]
    obstore.delete(store, listed)
    assert [row for batch in obstore.list(store) for row in batch] == []


@pytest.mark.clients
def test_obstore_lists_copies_renames_and_signs(store: Any) -> None:
    for number in range(30):
        obstore.put(store, f"p/{number:02d}/x y+z", b"%d" % number)
    top = obstore.list_with_delimiter(store, "p")
    assert len(top["common_prefixes"]) == 30
    after = [row["path"] for batch in obstore.list(store, offset="p/20/x y+z") for row in batch]
    assert len(after) == 9
    obstore.copy(store, "p/00/x y+z", "q/copied é")
    obstore.rename(store, "q/copied é", "q/renamed")
    assert obstore.get(store, "q/renamed").bytes() == b"0"
    assert obstore.head(store, "q/renamed")["size"] == 1
    with pytest.raises(FileNotFoundError):
        obstore.head(store, "q/copied é")
