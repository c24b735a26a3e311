"""Power cuts during PostObject at the face: the form's object is wholly there, or wholly absent.

The program of a user answers the form without a socket; the disk loses power at every event of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import types
from pathlib import Path
from typing import Any

import pytest

from storage import errors
from tests.crash.test_storage_crash import MODES
from tests.kit import folders, invariants, post_forms, programs
from tests.kit.faulty_disk import FaultyDisk, PowerCut
from tests.server import requesting

ROOT = types.SimpleNamespace(
    access_key=programs.SETTINGS.access_key, secret_key=programs.SETTINGS.secret_key
)
KEY = "in/file"
TYPE, COLOUR = "text/x-posted", "blue"
CONDITIONS: list[Any] = [
    {"bucket": "raw"},
    {"key": KEY},
    {"content-type": TYPE},
    {"x-amz-meta-colour": COLOUR},
]
FIELDS = {"key": KEY, "Content-Type": TYPE, "x-amz-meta-colour": COLOUR}
OLD = b"old"
SMALL, LARGE = b"new", bytes(range(256)) * 300
"""A body in the index, and one in a file."""

EVENTS_MIN = {SMALL: 2, LARGE: 7}
"""A transaction is two; a file is created, written, synced, moved, and its folder synced."""

Stored = tuple[bytes, str, dict[str, str]] | None


def form(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the scope and the body of a signed form."""
    fields = {**FIELDS, **post_forms.signed(ROOT, CONDITIONS, version=4)}
    body = post_forms.encode(fields, content)
    headers = {
        "host": "127.0.0.1",
        "content-type": f"multipart/form-data; boundary={post_forms.BOUNDARY}",
        "content-length": str(len(body)),
    }
    scope = {
        "type": "http",
        "method": "POST",
        "http_version": "1.1",
        "scheme": "http",
        "path": "/raw",
        "raw_path": b"/raw",
        "root_path": "",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 40000),
        "server": ("127.0.0.1", 5300),
    }
    return scope, body


async def post(application: Any, content: bytes) -> int:
    """Return the status that the client receives; 0 if it receives none."""
    statuses: list[int] = []

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope, body = form(content)
    with contextlib.suppress(PowerCut):
        await application(scope, requesting.receiving(body), send)
    return statuses[0] if statuses else 0


def stored(folder: Path, *, first_id: str) -> Stored:
    """Check a folder whole, and return the body, type and metadata of the object."""
    storage = folders.open_folder(folder, ids=folders.Ids(first_id))
    try:
        invariants.check_recovered(storage, folder)
        try:
            info = storage.objects.head("raw", KEY)
        except errors.NoSuchKey:
            return None
        attributes = info.attributes
        content_type = attributes.headers.get("content-type", "")
        return storage.objects.read(info), content_type, dict(attributes.user_metadata)
    finally:
        storage.close()


def cut(
    place: Path, content: bytes, before: bytes | None, *, stop_at: int
) -> tuple[int, FaultyDisk]:
    """Post a form on a disk that loses power at an event of it; return the status."""
    disk = FaultyDisk(place / "aside")
    status = 0
    with (
        contextlib.suppress(PowerCut, errors.StorageError),
        programs.opened(place / "data", on_disk=disk) as (program, _),
    ):

        async def work() -> int:
            await folders.make_bucket(program.storage)
            if before is not None:
                await folders.put(program.storage, KEY, before)
            disk.stop_at = disk.events + stop_at
            answered = await post(program.application, content)
            disk.stop_at = None  # what follows is not the form's
            return answered

        status = asyncio.run(work())
    return status, disk


@pytest.mark.parametrize("before", [None, OLD], ids=["new", "replaced"])
@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
def test_after_a_power_cut_at_any_event_a_posted_object_is_as_before_or_as_after(
    tmp_path: Path, content: bytes, before: bytes | None
) -> None:
    after: Stored = (content, TYPE, {"colour": COLOUR})
    old: Stored = None if before is None else (before, "", {})
    remaining: list[Stored] = []
    for stop_at in itertools.count(1):
        place = tmp_path / str(stop_at)
        status, disk = cut(place, content, before, stop_at=stop_at)
        if not disk.off:
            assert status == 204
            break
        assert status not in (200, 201, 204, 303), "a cut request is not acknowledged"
        for number, remains in enumerate(disk.remains(place / "data", MODES)):
            left = place / f"left{number}"
            remains.write(left)
            remaining.append(stored(left, first_id=f"again{stop_at}"))
            assert remaining[-1] in (old, after), (stop_at, remains.mode)
    assert stored(place / "data", first_id="end") == after
    assert after in remaining, "a cut after the transaction keeps the object"
    assert old in remaining
    assert stop_at > EVENTS_MIN[content]
