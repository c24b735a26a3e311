"""wiring: the Snowflake face, joined at its first request.

An idle server carries neither Arrow nor a SQL grammar: importing them costs a third of a second and
50 MB, which a server without queries does not need. So the SQL floor's modules are imported late,
in a thread, so that other requests are answered meanwhile.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import os
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from catalog.access import Access
from catalog.files import Files
from catalog.namespaces import Namespaces
from catalog.scans import Scans
from catalog.store import CatalogStore
from catalog.tables import Tables
from catalog.views import Views
from jobs.runs import Runs
from server import asgi, calls
from server.access.principals import Principals
from server.access.tokens import KeyRing
from server.auth import callers
from server.config import Config
from server.iam.services import IamServices
from server.warehouses import CONNECT, Warehouse
from storage.model import NewId, NowMs
from storage.opening import Storage

if TYPE_CHECKING:
    from sql.engine import Engine
    from sql.engine_spark import SparkEngine

CONNECT_TOKEN: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
"""The variable in which PySpark looks for the token of a Spark Connect server."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """The arguments that the SQL floor is built from.

    child_variables: names of variables that children with Spark get.
    """

    settings: Config
    storage: Storage
    store: CatalogStore
    namespaces: Namespaces
    tables: Tables
    views: Views
    principals: Principals
    iam: IamServices
    ring: KeyRing
    access: Access
    files: Files
    scans: Scans
    runs: Runs
    child_variables: frozenset[str]
    now_ms: NowMs
    new_id: NewId


class LateSql:
    """The Snowflake protocol's face. Mutable: it keeps the SQL face after the first request."""

    name = "snowflake"

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._face: Any = None
        self._close: Callable[[], Awaitable[None]] | None = None
        self._importing: asyncio.Future[None] | None = None
        self._operation = calls.Operation(
            name="any", handler=self._answer, authentication=callers.Authentication.SELF
        )

    @property
    def services(self) -> Any:
        """The services of the SQL face; None before the first request."""
        return None if self._face is None else self._face.services

    def identify(self, request: asgi.Request) -> calls.Call:
        """Return the call that the SQL face identifies, or one that first opens the SQL face."""
        if self._face is not None:
            call: calls.Call = self._face.identify(request)
            return call
        return calls.Call(self._operation, None, request)

    def refuse_unimplemented(self, operation: calls.Operation) -> Exception:
        """Never called: every row has a handler."""
        raise AssertionError(operation.name)

    def encode_error(self, error: Exception, request: asgi.Request) -> asgi.Response:
        """Return the response for an error, before and after the SQL face is open."""
        from sql.rest import refusals

        return refusals.encode(error, request)

    async def stop(self) -> None:
        """End queries and workers; write the state that sessions keep."""
        if self._face is not None:
            await self._face.stop()
        if self._close is not None:
            await self._close()

    def join(self, face: Any, close: Callable[[], Awaitable[None]] | None) -> None:
        """Answer by face from now on. close: ends what runs its statements, after the face."""
        self._face = face
        self._close = close

    async def _answer(self, services: Any, call: calls.Call) -> asgi.Response:
        """Open the SQL face, then answer the call with its own row."""
        if self._face is None:
            if self._importing is None:
                self._importing = asyncio.ensure_future(asyncio.to_thread(_import_sql))
            try:
                await asyncio.shield(self._importing)
            except Exception:
                self._importing = None  # the next request tries again
                raise
        if self._face is None:
            self._open()
        joined = self._face.identify(call.request)
        joined.caller = call.caller
        response: asgi.Response = await joined.operation.handler(self._face.services, joined)
        return response

    def _open(self) -> None:
        from sql import limits, opening, planning, sessions
        from sql.rest import opening as face_opening

        parts = self._parts
        engine = _sql_engine(parts.settings, parts.storage)
        default_database = parts.settings.table_buckets[0]
        opened = opening.open_statements(
            storage=parts.storage,
            store=parts.store,
            namespaces=parts.namespaces,
            tables=parts.tables,
            catalog_views=parts.views,
            access=parts.access,
            files=parts.files,
            scans=parts.scans,
            engine=engine,
            spark=_spark_engines(parts, engine),
            reading_children=limits.READERS_MAX if parts.settings.sql_workers else 0,
            default_database=default_database,
            seeds=parts.settings.bucket_seeds,
            region=parts.settings.region,
            version=sessions.SERVER_VERSION,
            iam=parts.iam,
            ring=parts.ring,
            runs=parts.runs,
            limits=planning.StatementLimits(
                timeout_seconds=parts.settings.sql_timeout_seconds,
                memory_bytes=parts.settings.sql_memory_mib << 20,
            ),
        )
        face = face_opening.open_face(
            storage=parts.storage,
            namespaces=parts.namespaces,
            statements=opened.statements,
            split=opened.compiler.split,
            read_binds=opened.compiler.read_binds,
            end_transaction=opened.transactions.abandon,
            end_temporary=opened.temporary.end,
            principals=parts.principals,
            ring=parts.ring,
            access=parts.access,
            default_database=default_database,
            timeout_seconds=parts.settings.sql_timeout_seconds,
            idle_seconds=parts.settings.sql_idle_seconds,
            results_bytes_max=parts.settings.sql_results_mib << 20,
            open_to_all=parts.settings.no_auth,
            chunk_key=secrets.token_bytes(32),
            now_ms=parts.now_ms,
            new_id=parts.new_id,
        )
        all_sessions = face.services.sessions
        all_sessions.add_opening(engine.start_ahead)
        all_sessions.add_chore(lambda: opened.stages.sweep_soon(all_sessions.exists))
        self.join(face, opened.close)


def _import_sql() -> None:
    """Import every module of the SQL floor."""
    from sql import opening
    from sql.rest import opening as face_opening

    assert opening
    assert face_opening


def _sql_engine(settings: Config, storage: Storage) -> Engine:
    """Return an engine of child processes, or of this process where `sql_workers` is 0."""
    from sql import engine

    spill_directory = storage.path / "tmp"
    if settings.sql_workers:
        return engine.WorkerEngine(
            workers=settings.sql_workers,
            spill_directory=spill_directory,
            disk=storage.disk,
            memory_bytes=settings.sql_memory_mib << 20,
        )
    from sql import engine_inline

    return engine_inline.InlineEngine(spill_directory=spill_directory)


def _is_installed(warehouse: Warehouse) -> bool:
    """Return whether what a warehouse's process imports is there."""
    is_remote = warehouse.master.startswith(CONNECT)
    packages = ("pyspark", "grpc") if is_remote else ("pyspark",)
    return all(importlib.util.find_spec(name) is not None for name in packages)


def _spark_engines(parts: Parts, engine: Engine) -> dict[str, SparkEngine]:
    """Return the engines of declared warehouses, by name. No process starts before a query."""
    from sql import engine_spark

    names = {*parts.child_variables, CONNECT_TOKEN}
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return {
        warehouse.name: engine_spark.SparkEngine(
            engine_spark.SparkWarehouse(
                master=warehouse.master,
                memory_mib=warehouse.heap_mib,
                idle_seconds=warehouse.idle_seconds,
                cores=warehouse.cores,
                executor_memory_mib=warehouse.executor_memory_mib,
                executor_cores=warehouse.executor_cores,
            ),
            local=engine,
            disk=parts.storage.disk,
            scratch=parts.storage.path / "tmp",
            variables=kept,
            is_installed=functools.partial(_is_installed, warehouse),
            new_id=parts.new_id,
        )
        for warehouse in parts.settings.warehouses
    }
