"""rule: plan tasks: the rest of a scan as text that only this server makes.

A plan task names the table, the snapshot, the range of manifests and the whole request, and is
signed, so that the server keeps nothing between a plan and its tasks. It grants nothing: the
client that sends it needs the rights of the plan.
"""

from __future__ import annotations

import base64
import hmac
import zlib
from typing import Final

import msgspec

MAC_BYTES: Final = 16
TASK_BYTES_MAX: Final = 2 * 1024 * 1024
"""A plan task before it is compressed."""
FILTER_BYTES_MAX: Final = 1024 * 1024
"""The filter of a plan task: the other members take far less than the rest of TASK_BYTES_MAX."""

_CONTEXT: Final = b"boathouse plan task 1:"


class InvalidPlanTask(ValueError):
    """The text is not a plan task of this server."""


class PlanTask(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The rest of a scan.

    object_uuid: of the table. after: the snapshot after which appends count. schema_id: of the
    filter. filter: its JSON. manifest, entry: where the task begins; end: the manifest
    before which it ends. rows: how many the client still wants, None for all.
    """

    object_uuid: str
    snapshot_id: int
    after: int | None
    schema_id: int
    filter: bytes
    case_sensitive: bool
    stats_fields: tuple[int, ...]
    manifest: int
    entry: int
    end: int
    rows: int | None


_decode: Final = msgspec.msgpack.Decoder(PlanTask).decode


def key_of(master: bytes) -> bytes:
    """Return the key that signs plan tasks, from the server's master key."""
    return hmac.digest(master, b"plan tasks", "sha256")


def seal(task: PlanTask, *, key: bytes) -> str:
    """Return a plan task as text. key: from `key_of`."""
    data = zlib.compress(msgspec.msgpack.encode(task))
    return base64.urlsafe_b64encode(_mac(key, data) + data).decode()


def unseal(text: str, *, key: bytes) -> PlanTask:
    """Return the plan task of a text. Raises InvalidPlanTask."""
    try:
        sealed = base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
    except ValueError:
        raise InvalidPlanTask("not a plan task") from None
    mac, data = sealed[:MAC_BYTES], sealed[MAC_BYTES:]
    if not hmac.compare_digest(mac, _mac(key, data)):
        raise InvalidPlanTask("not a plan task of this server")
    inflating = zlib.decompressobj()
    try:
        return _decode(inflating.decompress(data, TASK_BYTES_MAX))
    except (zlib.error, msgspec.DecodeError):
        raise InvalidPlanTask("not a plan task of this release") from None


def _mac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, _CONTEXT + data, "sha256")[:MAC_BYTES]
