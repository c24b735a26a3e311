"""A load generator: keep-alive connections that send prepared requests and count answers.

Run as its own process (`python -m tests.bench.load`), so that its CPU is not the server's. It reads
a plan from standard input: a line of JSON with host, port, connections, seconds and the sizes of
the requests, and then the whole HTTP/1.1 requests, one behind the other. Connections take requests
in turn, from the list's start again when it is used up if `cycle` is true, else they stop. With
`lanes`, connection i sends only the requests i, i + connections, i + 2 connections ..., strictly in
order; with `bodiless`, answers end with their heads. It prints one JSON object: answers, seconds,
bytes received, statuses and latencies.
"""

from __future__ import annotations

import asyncio
import functools
import json
import sys
import time
from collections import Counter
from typing import Any, cast

GRACE_SECONDS = 60


class Connection(asyncio.Protocol):
    """One keep-alive connection. Mutable by nature."""

    def __init__(self, load: Load, lane: int) -> None:
        self.load = load
        self.lane = lane
        self.head = bytearray()
        self.remaining = -1
        self.sent_at = 0.0
        self.transport: asyncio.Transport | None = None
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.next()

    def next(self) -> None:
        request = self.load.take(self.lane)
        if request is None or self.transport is None:
            self.finish()
            return
        self.sent_at = time.perf_counter()
        self.remaining = -1
        self.head.clear()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.load.received_bytes += len(data)
        if self.remaining < 0:
            self.head += data
            end = self.head.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self.head[:end]).lower()
            status = int(head[9:12])
            if status == 100:
                rest = bytes(self.head[end + 4 :])
                self.head.clear()
                if rest:
                    self.data_received(rest)
                return
            self.load.statuses[status] += 1
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if status in {204, 304} or self.load.bodiless:
                length = 0
            self.remaining = length - (len(self.head) - end - 4)
        else:
            self.remaining -= len(data)
        if self.remaining <= 0:
            self.load.latencies.append(time.perf_counter() - self.sent_at)
            self.next()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.load.broken += 1
            self.done.set_result(None)

    def finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)
        if self.transport is not None:
            self.transport.close()


class Load:
    """What all connections share. Mutable by nature."""

    def __init__(self, plan: dict[str, Any], requests: list[bytes]) -> None:
        self.requests = requests
        self.cycle = plan["cycle"]
        self.lanes = plan["connections"] if plan["lanes"] else 0
        self.lane_positions: Counter[int] = Counter()
        self.bodiless = plan["bodiless"]
        self.seconds = plan["seconds"]
        self.position = 0
        self.deadline = 0.0
        self.latencies: list[float] = []
        self.statuses: Counter[int] = Counter()
        self.received_bytes = 0
        self.broken = 0

    def take(self, lane: int) -> bytes | None:
        if time.perf_counter() >= self.deadline:
            return None
        if self.lanes:
            position = lane + self.lanes * self.lane_positions[lane]
            self.lane_positions[lane] += 1
            return self.requests[position] if position < len(self.requests) else None
        if self.position >= len(self.requests):
            if not self.cycle:
                return None
            self.position = 0
        request = self.requests[self.position]
        self.position += 1
        return request


async def run(plan: dict[str, Any], requests: list[bytes]) -> dict[str, Any]:
    load = Load(plan, requests)
    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    load.deadline = started + load.seconds
    connections = []
    for lane in range(plan["connections"]):
        _, connection = await loop.create_connection(
            functools.partial(Connection, load, lane), plan["host"], plan["port"]
        )
        connections.append(connection)
    async with asyncio.timeout(plan["seconds"] + GRACE_SECONDS):
        await asyncio.gather(*(connection.done for connection in connections))
    elapsed = time.perf_counter() - started
    ordered = sorted(load.latencies)
    return {
        "answers": len(ordered),
        "seconds": elapsed,
        "received_bytes": load.received_bytes,
        "statuses": {str(status): count for status, count in load.statuses.items()},
        "broken": load.broken,
        "p50_ms": _quantile(ordered, 0.50) * 1000,
        "p99_ms": _quantile(ordered, 0.99) * 1000,
    }


def _quantile(ordered: list[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else 0.0


if __name__ == "__main__":
    import uvloop

    read = json.loads(sys.stdin.buffer.readline())
    sent = [sys.stdin.buffer.read(size_bytes) for size_bytes in read["sizes_bytes"]]
    print(json.dumps(uvloop.run(run(read, sent))))
