"""engine: requests with an idempotency key are done once, and answered as often as they come.

The first request with a key does its work, and leaves a receipt in the very transaction of its
effect; or, if it was refused for good, a receipt of the refusal. A second one with the same key
waits for the first, then gets an answer made from the receipt. What may still change (a server's
fault, missing rights) leaves no receipt: the client may try again.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from catalog import errors, receipts, records
from catalog.rest import errors as rest_errors
from catalog.rest import wire_errors
from catalog.store import CatalogStore
from server.access import model
from storage import errors as storage_errors

if TYPE_CHECKING:
    from server import asgi

Work = Callable[[receipts.Receipt | None], Awaitable["asgi.Response"]]
Refuse = Callable[[int, str, str], "asgi.Response"]
"""Encodes a refusal: status, type, message."""

Replay = Callable[[records.IdempotencyRow], Awaitable["asgi.Response"]]

HEADER = "idempotency-key"

TRANSIENT = frozenset({401, 403, 408, 413, 429})
"""Statuses of refusals that leave no receipt, besides those of a server's fault."""


class Idempotency:
    """The requests under way, by key; everything else is in the index."""

    def __init__(self, *, store: CatalogStore, refuse: Refuse) -> None:
        self._store = store
        self._refuse = refuse
        self._running: dict[bytes, asyncio.Future[None]] = {}

    async def run(
        self,
        key: str | None,
        *,
        table_bucket: str,
        principal: str,
        operation: str,
        body: bytes,
        work: Work,
        replay: Replay,
    ) -> asgi.Response:
        """Do work once for a key; a repeated request gets the stored answer. key None: do work.

        operation: the operation and its resource, as text. Raises IdempotencyKeyReused,
        InvalidCatalogRequest, and the errors of work.
        """
        if key is None:
            return await work(None)
        place = self._store.place(table_bucket)
        row_key = _row_key(place, principal, key)
        fingerprint = hashlib.blake2b(
            operation.encode("utf-8", "surrogatepass") + b"\x00" + body, digest_size=16
        ).digest()
        while (running := self._running.get(row_key)) is not None:
            with contextlib.suppress(Exception):
                await asyncio.shield(running)
        done = self._find(row_key)
        if done is not None:
            if done.fingerprint != fingerprint:
                raise errors.IdempotencyKeyReused(
                    f"The idempotency key {key} was used for another request"
                )
            return await self._answer(done, replay)
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running[row_key] = ended
        receipt = receipts.Receipt(
            key=row_key, fingerprint=fingerprint, now_ms=self._store.now_ms()
        )
        try:
            return await work(receipt)
        except Exception as error:
            await self._remember_refusal(receipt, error)
            raise
        finally:
            del self._running[row_key]
            ended.set_result(None)

    def _find(self, row_key: bytes) -> records.IdempotencyRow | None:
        with self._store.index.view() as view:
            return receipts.find(view, row_key, now_ms=self._store.now_ms())

    async def _answer(self, done: records.IdempotencyRow, replay: Replay) -> asgi.Response:
        if done.error is not None:
            error_type, message = done.error
            return self._refuse(done.status, error_type, message)
        return await replay(done)

    async def _remember_refusal(self, receipt: receipts.Receipt, error: Exception) -> None:
        status, error_type, message = wire_errors.describe(error)
        if not 400 <= status < 500 or status in TRANSIENT:
            return
        planned = receipt.plan(status=status, error_type=error_type, error_message=message)
        with contextlib.suppress(storage_errors.StorageError):
            await self._store.index.commit(planned)


def owner_of(principal: model.Principal) -> str:
    """Return the owner of idempotency keys.

    Sessions of one role may have the same ARN, so the user who assumed the role counts too. A
    client that assumes it again has its keys still.
    """
    session = principal.session
    if not principal.role_arn or session is None:
        return principal.arn
    return f"{principal.arn} {session.subject}"


def key_of(request: asgi.Request) -> str | None:
    """Return the key that the client gave a request."""
    return request.headers.get(HEADER)


def _row_key(place: records.Place, principal: str, key: str) -> bytes:
    try:
        return records.idempotency_key(place.bucket_id, principal, key)
    except ValueError:
        raise rest_errors.MalformedJson(
            f"Malformed request: the idempotency key {key[:50]!r} is not a UUID"
        ) from None
