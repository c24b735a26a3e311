"""The program, with a Snowflake face over statements that answer from a table.

Only what runs SQL is replaced, so that a test decides every cell, delay and fault.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from program import application
from server import config
from server.access import decide, tokens
from server.access import model as access
from sql import (
    authentication,
    bindings,
    compiler,
    errors,
    limits,
    outcomes,
    queries,
    roles,
    sessions,
    shelves,
    warehouserows,
)
from sql.rest import face, login
from storage import index as indexes
from tests.kit import programs

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
    flow_ids: Sequence[str] = ()


Answer = Callable[[Call], Awaitable[outcomes.Outcome]]


@dataclass
class FakeStatements:
    """Answers by text; an unknown text is a syntax error. calls: everything that arrived.

    waiting_texts: those whose statements wait for a child.
    """

    answers: dict[str, Answer] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    waiting_texts: set[str] = field(default_factory=set)

    def waiting(self) -> frozenset[str]:
        return frozenset(call.query_id for call in self.calls if call.text in self.waiting_texts)

    async def execute(
        self,
        session: sessions.Session,
        text: str,
        *,
        bindings: Mapping[str, bindings.Binding],
        parameters: Mapping[str, Any],
        describe_only: bool,
        query_id: str,
        results: Any,
        flow_ids: Sequence[str] = (),
    ) -> outcomes.Outcome:
        call = Call(
            session=session,
            text=text.strip(),
            bindings=bindings,
            parameters=parameters,
            describe_only=describe_only,
            query_id=query_id,
            flow_ids=flow_ids,
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
    face: face.SqlFace
    ring: tokens.KeyRing
    shelf: shelves.Shelf


@contextmanager
def opened(folder: Path, **arguments: Any) -> Iterator[Parts]:
    """A program over a folder with the parts joined to it, which nothing serves."""
    with _joined(folder, **arguments) as (_, _, parts):
        yield parts


@contextmanager
def _joined(
    folder: Path, *, users: Sequence[config.User] = (ALICE,), **arguments: Any
) -> Iterator[tuple[application.Program, config.Config, Parts]]:
    clock = Clock()
    with programs.opened(
        folder / "data",
        now_ms=clock.now_ms,
        users=users,
        access_key=ACCESS_KEY,
        secret_key=SECRET_KEY,
    ) as (program, settings):
        parts = _parts(folder, clock, program, **arguments)
        program.sql.join(parts.face, None)
        yield program, settings, parts


def _parts(
    folder: Path,
    clock: Clock,
    program: application.Program,
    *,
    session_limits: sessions.SessionLifetimes | None = None,
    query_limits: queries.ResultLimits | None = None,
    answer_within_seconds: float = 40.0,
    shelf_memory_bytes_max: int = limits.RESULTS_MEMORY_BYTES_MAX,
) -> Parts:
    proofs = authentication.Authenticator(
        principals=program.principals, ring=program.ring, now_ms=clock.now_ms
    )
    all_roles = roles.Roles(
        principals=program.principals, authoriser=decide.Authoriser(now_ms=clock.now_ms)
    )
    canned = FakeStatements()
    canned.table("select 1", [ONE], pa.record_batch([pa.array([1])], names=["1"]))
    all_sessions = sessions.Sessions(
        index=program.storage.index,
        ring=program.ring,
        principal_of=proofs.principal_of,
        in_role=all_roles.in_role,
        now_ms=clock.now_ms,
        new_id=programs.random_id,
        limits=session_limits,
    )
    shelf = shelves.Shelf(
        folder=folder / "results",
        disk=program.storage.disk,
        new_id=programs.random_id,
        memory_bytes_max=shelf_memory_bytes_max,
    )
    all_queries = queries.Queries(
        statements=canned,
        sessions=all_sessions,
        split=split,
        shelf=shelf,
        now_ms=clock.now_ms,
        new_id=programs.random_id,
        warehouses=warehouserows.WarehouseRows(index=program.storage.index),
        limits=query_limits,
    )
    snowflake = face.SqlFace(
        face.SqlServices(
            sessions=all_sessions,
            queries=all_queries,
            read_binds=compiler.Compiler(children=0).read_binds,
            logins=login.Logins(
                sessions=all_sessions,
                credentials=proofs,
                roles=all_roles,
                contexts=NoContexts(),
                now_ms=clock.now_ms,
            ),
            chunk_key=b"c" * 32,
            now_ms=clock.now_ms,
            answer_within_seconds=answer_within_seconds,
        )
    )
    return Parts(
        clock=clock,
        statements=canned,
        index=program.storage.index,
        sessions=all_sessions,
        queries=all_queries,
        face=snowflake,
        ring=program.ring,
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
    """Serve the program on a free port while the context lasts."""
    with (
        _joined(folder, **arguments) as (program, settings, parts),
        programs.serving(program, settings) as serving,
    ):
        yield Served(url=f"http://127.0.0.1:{serving.port}", port=serving.port, parts=parts)
