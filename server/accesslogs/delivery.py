"""engine: access records: gathered in memory, delivered as objects to the buckets that want them.

A request's record is a line that waits in memory, and a task writes the lines of each source and
target as one object, every DELIVERY_SECONDS, earlier where many wait, and at the end of the server.
Delivery is best effort, as on AWS: a server that is killed loses the lines that wait, and so does
one whose memory for them is full; `/_metrics` counts these. A bucket without a target costs a
request nothing but one comparison.

The objects are written by the service principal of AWS's log delivery. The target's policy, or a
grant of its access control list to the log delivery group, must allow that, when the target is set
and again in the transaction that writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from server import calls, limits
from server.access import arns, decide
from server.access import errors as access_errors
from server.access import model as access_model
from server.accesslogs import lines, places, targets
from storage import batch, blobs, buckets, errors, model, objects
from storage.index import Index

SERVICE: Final = "logging.s3.amazonaws.com"
CONTENT_TYPE: Final = "text/plain"
ATTEMPTS_MAX: Final = 10
WRITE_BYTES: Final = 256 * 1024
_SAMPLE_UNIQUE: Final = "0" * targets.UNIQUE_CHARACTERS


class Noted:
    """A request whose record is due. error: the code of a refusal."""

    __slots__ = ("at_ms", "call", "error", "place", "source", "target")

    def __init__(
        self,
        source: model.BucketInfo,
        target: targets.LogTarget,
        place: places.RequestPlace,
        call: calls.Call,
        at_ms: int,
    ) -> None:
        self.source = source
        self.target = target
        self.place = place
        self.call = call
        self.at_ms = at_ms
        self.error = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Group:
    """The records that go into one object. day_ms: 0 if days are mixed."""

    source_id: int
    target: targets.LogTarget
    day_ms: int


class _Waiting:
    """The lines of a group, in order."""

    __slots__ = ("lines", "size_bytes", "source")

    def __init__(self, source: model.BucketInfo) -> None:
        self.source = source
        self.lines: list[bytes] = []
        self.size_bytes = 0

    def add(self, added: list[bytes], size_bytes: int) -> None:
        self.lines += added
        self.size_bytes += size_bytes


class AccessLogs:
    """The access records of one server. Mutable; it belongs to the event loop.

    places_by_face: what the calls of each face are about. canonical_id_of: of an account.
    host_id: the server's, as its responses have it.
    """

    def __init__(
        self,
        *,
        index: Index,
        buckets: buckets.Buckets,
        objects: objects.Objects,
        blobs: blobs.Blobs,
        authoriser: decide.Authoriser,
        places_by_face: Mapping[str, places.FindPlace],
        canonical_id_of: Callable[[str], str],
        region: str,
        host_id: str,
        now_ms: model.NowMs,
        new_id: model.NewId,
    ) -> None:
        self._index = index
        self._buckets = buckets
        self._objects = objects
        self._blobs = blobs
        self._authoriser = authoriser
        self._places = places_by_face
        self._canonical_id_of = canonical_id_of
        self._region = region
        self._host_id = host_id
        self._now_ms = now_ms
        self._new_id = new_id
        self._log = logging.getLogger("boathouse.accesslogs")
        self._groups: dict[_Group, _Waiting] = {}
        self._waiting_bytes = 0
        self._delivering_bytes = 0
        self._wake = asyncio.Event()
        self._writing = asyncio.Lock()
        self._deliveries: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._is_short_of_room = False
        self.is_on = False
        """Whether the requests of any bucket may be logged."""
        self.delivered = 0
        self.lost = 0

    def start(self) -> None:
        """Start the deliveries. Call it before the first request."""
        self.is_on = bool(self._buckets.having(targets.SETTING))
        self._deliveries = asyncio.create_task(self._deliver_for_ever())

    async def stop(self) -> None:
        """Deliver what waits, and end."""
        if self._deliveries is not None:
            # Not cancelled: it may be writing.
            self._is_stopping = True
            self._wake.set()
            await self._deliveries
            self._deliveries = None
            self._is_stopping = False
        await self.deliver()
        for group, waiting in self._groups.items():
            self._give_up(group, waiting, "there is no room for them, and the server ends")
        self._groups, self._waiting_bytes = {}, 0

    def turn_on(self) -> None:
        """Note that a bucket has a target from now on."""
        self.is_on = True

    def begin(self, face: str, call: calls.Call) -> Noted | None:
        """Return what a request's record is made of; None if its bucket is not logged."""
        find = self._places.get(face)
        place = None if find is None else find(call)
        if place is None:
            return None
        try:
            source = self._buckets.get(place.bucket)
        except errors.StorageError:
            return None  # no such bucket, or no name of one
        target = targets.target_of(source.settings)
        if target is None:
            return None
        return Noted(source, target, place, call, self._now_ms())

    def refuse(self, noted: Noted, headers: Iterable[tuple[str, str]], body: object) -> None:
        """Note the error code of a request that is refused. headers, body: of the response."""
        for name, value in headers:
            if name.lower() == "x-amzn-errortype":
                noted.error = value
                return
        if isinstance(body, bytes):
            noted.error = lines.find_code(body)

    def record(self, noted: Noted, status: int, *, sent_bytes: int, duration_ns: int) -> None:
        """Queue the record of an answered request, or count it as lost if too many wait."""
        line = self._line(noted, status, sent_bytes, duration_ns // 1_000_000)
        group = _Group(
            source_id=noted.source.bucket_id,
            target=noted.target,
            day_ms=targets.day_of(noted.target, noted.at_ms),
        )
        self._add(group, noted.source, [line], len(line))
        is_early = self._waiting_bytes >= limits.ACCESS_RECORDS_EARLY_BYTES
        # Without room each request would begin a delivery of all that waits.
        if is_early and not self._is_short_of_room:
            self._wake.set()

    def check_target(self, source: model.BucketInfo, target: targets.LogTarget) -> None:
        """Raise UnusableTarget unless the records of a source can be delivered to a target."""
        try:
            bucket = self._buckets.get(target.bucket)
        except (errors.NoSuchBucket, errors.InvalidBucketName):
            raise targets.UnusableTarget("The target bucket for logging does not exist") from None
        targets.check_target(source, bucket)
        key = self._key_of(source, target, _SAMPLE_UNIQUE, self._now_ms())
        if len(key.encode("utf-8", "surrogatepass")) > limits.ACCESS_RECORDS_KEY_BYTES_MAX:
            raise targets.UnusableTarget(
                "The target prefix for logging is too long for the keys of log objects."
            )
        if not self._may_write(source, target.bucket, key):
            raise targets.UnusableTarget(
                f"The policy of the target bucket for logging must allow {SERVICE} the action "
                f"s3:PutObject on {arns.object_arn(target.bucket, target.prefix)}*"
            )

    async def deliver(self) -> None:
        """Deliver every record that waits now."""
        async with self._writing:
            groups, self._groups = self._groups, {}
            self._delivering_bytes, self._waiting_bytes = self._waiting_bytes, 0
            self._is_short_of_room = False
            try:
                for group, waiting in groups.items():
                    await self._deliver_one(group, waiting)
            finally:
                self._delivering_bytes = 0

    def format_metrics(self) -> Iterator[str]:
        """Yield lines of Prometheus text."""
        yield "# HELP boathouse_access_records_total Access records of buckets with logging."
        yield "# TYPE boathouse_access_records_total counter"
        yield f'boathouse_access_records_total{{outcome="delivered"}} {self.delivered}'
        yield f'boathouse_access_records_total{{outcome="lost"}} {self.lost}'

    async def _deliver_for_ever(self) -> None:
        while not self._is_stopping:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limits.ACCESS_RECORDS_SECONDS):
                    await self._wake.wait()
            self._wake.clear()
            await self.deliver()

    def _add(
        self, group: _Group, source: model.BucketInfo, added: list[bytes], size_bytes: int
    ) -> None:
        held_bytes = self._waiting_bytes + self._delivering_bytes + size_bytes
        if held_bytes > limits.ACCESS_RECORDS_BYTES_MAX:
            self.lost += len(added)
            return
        waiting = self._groups.get(group)
        if waiting is None:
            waiting = self._groups[group] = _Waiting(source)
        waiting.add(added, size_bytes)
        self._waiting_bytes += size_bytes

    async def _deliver_one(self, group: _Group, waiting: _Waiting) -> None:
        """Write the records of a group, or drop them with a line in the server's own log."""
        try:
            await self._write(group, waiting)
        except (errors.DiskFull, errors.ExpectationFailed):
            # They wait for the next delivery, which comes in its time.
            self._is_short_of_room = True
            self._delivering_bytes -= waiting.size_bytes
            self._add(group, waiting.source, waiting.lines, waiting.size_bytes)
        except (targets.UnusableTarget, errors.StorageError) as error:
            self._give_up(group, waiting, str(error))
        except Exception:  # noqa: BLE001 - the task must go on after any error
            self.lost += len(waiting.lines)
            self._log.exception("access records of %s were not delivered", waiting.source.name)
        else:
            self.delivered += len(waiting.lines)

    def _give_up(self, group: _Group, waiting: _Waiting, reason: str) -> None:
        """Count the records of a group as lost, with a line in the server's own log."""
        self.lost += len(waiting.lines)
        self._log.warning(
            "%d access records of %s were not delivered to %s: %s",
            len(waiting.lines), waiting.source.name, group.target.bucket, reason,
        )  # fmt: skip

    async def _write(self, group: _Group, waiting: _Waiting) -> None:
        source, target = waiting.source, group.target
        unique = self._new_id()[: targets.UNIQUE_CHARACTERS].upper()
        key = self._key_of(source, target, unique, group.day_ms or self._now_ms())
        self._judge(source, target, key)
        receiver = self._blobs.receive(digests=frozenset({"md5"}))
        try:
            for piece in _pieces(waiting.lines):
                await receiver.write(piece)
            received = await receiver.finish()
        except BaseException:
            await receiver.abort()
            raise
        attributes = model.ObjectAttributes(headers={"content-type": CONTENT_TYPE})
        for _ in range(ATTEMPTS_MAX):
            try:
                expects = self._judge(source, target, key)
            except BaseException:
                await receiver.abort()
                raise
            with contextlib.suppress(errors.ExpectationFailed):
                await self._objects.put(
                    target.bucket, key, received, attributes=attributes, expects=expects
                )
                return
        await receiver.abort()
        raise errors.ExpectationFailed("the target bucket changes all the while")

    def _judge(
        self, source: model.BucketInfo, target: targets.LogTarget, key: str
    ) -> tuple[batch.Expect, ...]:
        """Return the row on which the right to write was decided. Raises UnusableTarget."""
        try:
            bucket, row = self._buckets.read(target.bucket, self._index)
        except errors.NoSuchBucket:
            raise targets.UnusableTarget("The target bucket for logging does not exist") from None
        targets.check_target(source, bucket)
        if not self._may_write(source, target.bucket, key):
            raise targets.UnusableTarget("its policy does not allow the delivery of logs")
        return (batch.Expect(store=batch.Store.BUCKETS, key=target.bucket.encode(), value=row),)

    def _may_write(self, source: model.BucketInfo, bucket: str, key: str) -> bool:
        arn = (
            arns.table_bucket_arn(self._region, source.owner, source.name)
            if source.type == "table"
            else arns.bucket_arn(source.name)
        )
        principal = access_model.Principal(
            type="service",
            name=SERVICE,
            arn=SERVICE,
            account_id=source.owner,
            canonical_id="",
            display_name=SERVICE,
            context={"aws:SourceArn": arn, "aws:SourceAccount": source.owner},
        )
        demand = access_model.Demand(
            action="s3:PutObject",
            resource=arns.object_arn(bucket, key),
            place=f"{bucket}/{key}",
        )
        try:
            return self._authoriser.permits(principal, demand)
        except access_errors.AccessError:
            return False

    def _key_of(
        self, source: model.BucketInfo, target: targets.LogTarget, unique: str, at_ms: int
    ) -> str:
        return targets.key_of(target, source, region=self._region, at_ms=at_ms, unique=unique)

    def _line(self, noted: Noted, status: int, sent_bytes: int, total_ms: int) -> bytes:
        request, place = noted.call.request, noted.place
        caller = getattr(noted.call, "caller", None)
        scheme = "none" if caller is None else caller.signing.scheme
        size: int | None = None
        if place.key and status == 200:
            size = {"GET": sent_bytes, "PUT": request.received_bytes}.get(request.method)
        return lines.format_line(
            lines.AccessRecord(
                owner_id=self._canonical_id_of(noted.source.owner),
                bucket=noted.source.name,
                at_ms=noted.at_ms,
                client_ip=request.client_ip,
                requester="" if caller is None else _requester(caller.principal),
                request_id=request.request_id,
                operation=place.operation,
                key=place.key,
                method=request.method,
                raw_path=request.raw_path,
                query=request.query,
                status=status,
                error=noted.error,
                sent_bytes=sent_bytes,
                object_size=size,
                total_ms=total_ms,
                referer=request.headers.get("referer", "") or "",
                user_agent=request.headers.get("user-agent", "") or "",
                version_id=place.version_id,
                host_id=self._host_id,
                signature=_SIGNATURES.get(scheme, ""),
                authentication=_AUTHENTICATIONS.get(scheme, ""),
                host=request.host,
            )
        )


def _requester(principal: access_model.Principal) -> str:
    """Return who sent a request: root by its canonical id, others by their ARNs."""
    if principal.type == "anonymous":
        return ""
    return principal.canonical_id if principal.type == "root" else principal.arn


def _pieces(waiting: list[bytes]) -> Iterator[bytes]:
    """Yield lines joined into pieces of some WRITE_BYTES."""
    piece: list[bytes] = []
    size_bytes = 0
    for line in waiting:
        piece.append(line)
        size_bytes += len(line)
        if size_bytes >= WRITE_BYTES:
            yield b"".join(piece)
            piece, size_bytes = [], 0
    if piece:
        yield b"".join(piece)


_SIGNATURES: Final[Mapping[str, str]] = {
    "sigv4": "SigV4", "sigv4-query": "SigV4", "sigv2": "SigV2", "sigv2-query": "SigV2",
}  # fmt: skip
_AUTHENTICATIONS: Final[Mapping[str, str]] = {
    "sigv4": "AuthHeader", "sigv2": "AuthHeader", "bearer": "AuthHeader", "basic": "AuthHeader",
    "sigv4-query": "QueryString", "sigv2-query": "QueryString",
}  # fmt: skip
