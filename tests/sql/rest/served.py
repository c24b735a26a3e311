"""The Snowflake face on a port of its own, over statements that answer from a table.

Real are: HTTP, sessions, queries, encoding, tokens and the index. Faked is only who runs SQL, so
that a test decides every cell, delay and fault.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import uvicorn

from server import config, exchange
from server.access import decide, principals, rootkeys, tokens
from server.access import model as access
from server.auth import verify
from server.transport import connection
from sql import (
    bindings,
    compiler,
    credentials,
    errors,
    limits,
    outcomes,
    queries,
    sessions,
    shelves,
)
from sql.rest import face, login
from storage import disk as disks
from storage import index as indexes

ACCESS_KEY = "AKTEST"
SECRET_KEY = "test-secret"
ALICE = config.User(name="alice", access_key="AKALICE", secret_key="alice-secret")

TEXT = outcomes.Column(name="X", type="text")
ONE = outcomes.Column(name="1", type="fixed", nullable=False, precision=1, scale=0)


@dataclass(frozen=True, kw_only=True)
class Call:
    """What reached the statements."""

    session: sessions.Session
    text: str
    bindings: Mapping[str, bindings.Binding]
    parameters: Mapping[str, Any]
    describe_only: bool
    query_id: str


Answer = Callable[[Call], Awaitable[outcomes.Outcome]]


@dataclass
class FakeStatements:
    """Answers by text; an unknown text is a syntax error. calls: everything that arrived."""

    answers: dict[str, Answer] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)

    async def execute(
        self,
        session: sessions.Session,
        text: str,
        *,
        bindings: Mapping[str, bindings.Binding],
        parameters: Mapping[str, Any],
        describe_only: bool,
        query_id: str,
    ) -> outcomes.Outcome:
        call = Call(
            session=session,
            text=text.strip(),
            bindings=bindings,
            parameters=parameters,
            describe_only=describe_only,
            query_id=query_id,
        )
        self.calls.append(call)
        answer = self.answers.get(call.text)
        if answer is None:
            raise errors.syntax_error(1, 0, call.text.split(" ")[0])
        return await answer(call)

    def table(self, text: str, columns: Sequence[outcomes.Column], *tables: pa.RecordBatch) -> None:
        """Answer text by batches, as a SELECT."""

        async def answer(call: Call) -> outcomes.Outcome:
            return select(columns, *tables)

        self.answers[text] = answer

    def outcome(self, text: str, outcome: outcomes.Outcome) -> None:
        """Answer text by a value."""

        async def answer(call: Call) -> outcomes.Outcome:
            return outcome

        self.answers[text] = answer


def select(columns: Sequence[outcomes.Column], *batches: pa.RecordBatch) -> outcomes.Outcome:
    """A SELECT's outcome."""

    async def stream() -> AsyncIterator[pa.RecordBatch]:
        for batch in batches:
            yield batch

    return outcomes.Outcome(
        columns=columns, batches=stream(), statement_type_id=outcomes.StatementType.SELECT
    )


def one_row(**cells: tuple[outcomes.Column, pa.Array]) -> outcomes.Outcome:
    """A SELECT of one batch, from column and array by any name."""
    columns = [column for column, _ in cells.values()]
    arrays = [array for _, array in cells.values()]
    return select(columns, pa.RecordBatch.from_arrays(arrays, names=list(cells)))


async def split(text: str, *, owner: str) -> list[str]:
    """Statements of a text without quotes or comments."""
    return [part.strip() for part in text.split(";") if part.strip()]


class NoContexts:
    """Databases `lake` with schema `public`, and nothing else."""

    def resolve(
        self, principal: access.Principal, database: str, schema: str
    ) -> tuple[str | None, str | None]:
        if (database or "lake").lower().strip('"') != "lake":
            return None, None
        return "lake", "public" if (schema or "public").lower() == "public" else None


class Clock:
    """The real time, plus what a test adds; it stands still while stopped_ms is set."""

    def __init__(self) -> None:
        self.added_ms = 0
        self.stopped_ms: int | None = None

    def now_ms(self) -> int:
        now_ms = time.time_ns() // 1_000_000 if self.stopped_ms is None else self.stopped_ms
        return now_ms + self.added_ms


@dataclass
class Parts:
    """Everything between the index and the face."""

    clock: Clock
    statements: FakeStatements
    index: indexes.Index
    sessions: sessions.Sessions
    queries: queries.Queries
    face: face.Face
    exchange: exchange.Exchange
    ring: tokens.KeyRing
    shelf: shelves.Shelf


def build(
    folder: Path,
    *,
    users: Sequence[config.User] = (ALICE,),
    session_limits: sessions.Limits | None = None,
    query_limits: queries.Limits | None = None,
    answer_within_seconds: float = 40.0,
    statements: FakeStatements | None = None,
    shelf_memory_bytes_max: int = limits.RESULTS_MEMORY_BYTES_MAX,
) -> Parts:
    """Wire a face over a folder, as mini.py does."""
    clock = Clock()
    disk = disks.Disk()
    index = indexes.Index(
        path=folder / "index", disk=disk, map_size_bytes=1 << 30, reserve_bytes=1 << 16
    )
    root = rootkeys.RootKeys(access_key=ACCESS_KEY, secret_key=SECRET_KEY, created=False)
    ring = tokens.KeyRing(
        keys=(tokens.SigningKey(key_id="k1", secret=b"k" * 32),), master=b"m" * 32
    )
    known = principals.Principals(account="0" * 12, root=root, users=users)
    proofs = credentials.Credentials(principals=known, ring=ring, now_ms=clock.now_ms)
    canned = statements or FakeStatements()
    canned.table("select 1", [ONE], pa.record_batch([pa.array([1])], names=["1"]))
    all_sessions = sessions.Sessions(
        index=index,
        ring=ring,
        principal_of=proofs.principal_of,
        now_ms=clock.now_ms,
        new_id=lambda: uuid.uuid4().hex,
        limits=session_limits,
    )
    shelf = shelves.Shelf(
        folder=folder / "results",
        disk=disk,
        new_id=lambda: uuid.uuid4().hex,
        memory_bytes_max=shelf_memory_bytes_max,
    )
    all_queries = queries.Queries(
        statements=canned,
        sessions=all_sessions,
        split=split,
        shelf=shelf,
        now_ms=clock.now_ms,
        new_id=lambda: uuid.uuid4().hex,
        limits=query_limits,
    )
    snowflake = face.Face(
        face.Services(
            sessions=all_sessions,
            queries=all_queries,
            read_binds=compiler.Compiler(children=0).read_binds,
            logins=login.Logins(
                sessions=all_sessions,
                credentials=proofs,
                contexts=NoContexts(),
                now_ms=clock.now_ms,
            ),
            chunk_key=b"c" * 32,
            now_ms=clock.now_ms,
            answer_within_seconds=answer_within_seconds,
        )
    )
    application = exchange.Exchange(
        faces={"snowflake": snowflake},
        verifier=verify.Verifier(principals=known, ring=ring, now_ms=clock.now_ms),
        authoriser=decide.Authoriser(now_ms=clock.now_ms),
        now_ms=clock.now_ms,
        new_id=lambda: uuid.uuid4().hex,
        monotonic_ns=time.monotonic_ns,
        files=disk,
    )
    return Parts(
        clock=clock,
        statements=canned,
        index=index,
        sessions=all_sessions,
        queries=all_queries,
        face=snowflake,
        exchange=application,
        ring=ring,
        shelf=shelf,
    )


@dataclass
class Served:
    """A face that listens."""

    url: str
    port: int
    parts: Parts

    @property
    def statements(self) -> FakeStatements:
        return self.parts.statements


@contextmanager
def serve(folder: Path, **arguments: Any) -> Iterator[Served]:
    """Serve a face on a free port while the context lasts."""
    # With the protocol named, asyncio sets TCP_NODELAY on what it accepts: else answers take 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    made: list[Parts] = []
    ready = threading.Event()
    servers: list[uvicorn.Server] = []

    async def run() -> None:
        parts = build(folder, **arguments)
        made.append(parts)
        server = uvicorn.Server(
            uvicorn.Config(
                parts.exchange,
                http=connection.Connection,
                log_level="warning",
                lifespan="off",
                ws="none",
            )
        )
        servers.append(server)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        while not server.started and not serving.done():  # noqa: ASYNC110 - no event to wait for
            await asyncio.sleep(0.005)
        ready.set()
        await serving
        await parts.face.stop()
        parts.index.close()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert ready.wait(20), "the face did not start"
    try:
        yield Served(url=f"http://127.0.0.1:{port}", port=port, parts=made[0])
    finally:
        servers[0].should_exit = True
        thread.join(20)
        listener.close()
    assert not thread.is_alive(), "the face did not stop"
