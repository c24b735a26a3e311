"""wiring: builds the program as a value: one ASGI application of all floors.

`build` starts nothing. The application is a Starlette; its lifespan starts and stops the background
tasks. The protocol faces are behind one `server.exchange.Exchange`, which HTTP requests reach
without a router: routing would more than double a request's cost.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass
from typing import TypeAlias

import starlette.applications
import starlette.routing
import starlette.types

from catalog import access, guard, namespaces, tables, views
from catalog import files as catalog_files
from catalog import store as catalog_store
from catalog.rest import face as rest_face
from catalog.rest import native as catalog_native
from catalog.sweep import sweeping
from program import late_sql
from s3tables import face as s3tables_face
from s3tables import labels, resources
from server import config, counters, exchange, looplag, native
from server.access import audit, decide, principals, rootkeys, tokens
from server.auth import verify
from server.s3 import face as s3_face
from server.s3 import ownership
from storage import model as storage_model
from storage import opening

Lifespan: TypeAlias = starlette.types.Lifespan[starlette.applications.Starlette]


class Application(starlette.applications.Starlette):
    """The ASGI application. entry: the exchange that answers HTTP requests, and recalls those that
    came before."""

    def __init__(self, entry: exchange.Exchange, lifespan: Lifespan) -> None:
        super().__init__(
            routes=[starlette.routing.Mount("/", app=entry)],
            lifespan=lifespan,
        )
        self._entry = entry
        self.recall = entry.recall

    async def __call__(
        self,
        scope: starlette.types.Scope,
        receive: starlette.types.Receive,
        send: starlette.types.Send,
    ) -> None:
        """Serve one ASGI scope: an HTTP request, or the lifespan."""
        if scope["type"] == "http":
            await self._entry(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    def begin(
        self,
        scope: starlette.types.Scope,
        receive: starlette.types.Receive,
        send: starlette.types.Send,
    ) -> Awaitable[None] | None:
        """Serve an HTTP request up to the first wait; return the rest, None if there is none."""
        return self._entry.begin(scope, receive, send)


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """The application, with the parts that its start, its banner and tests need."""

    application: Application
    storage: opening.Storage
    root: rootkeys.RootKeys
    ring: tokens.KeyRing
    principals: principals.Principals
    catalog: catalog_store.CatalogStore
    namespaces: namespaces.Namespaces
    tables: tables.Tables
    views: views.Views
    s3: s3_face.S3Face
    sql: late_sql.LateSql


def build(
    settings: config.Config,
    storage: opening.Storage,
    *,
    now_ms: storage_model.NowMs,
    new_id: storage_model.NewId,
) -> Program:
    """Build all floors, the lowest first. Nothing runs before the application's lifespan."""
    root = rootkeys.open_root(
        storage.path,
        disk=storage.disk,
        random_bytes=secrets.token_bytes,
        access_key=settings.access_key,
        secret_key=settings.secret_key,
    )
    ring = rootkeys.open_ring(storage.path, disk=storage.disk, random_bytes=secrets.token_bytes)
    people = principals.Principals(account=settings.account, root=root, users=settings.users)
    log = audit.Audit(folder=storage.path / "audit", disk=storage.disk, now_ms=now_ms)
    authoriser = decide.Authoriser(
        now_ms=now_ms,
        resource_sides=ownership.Ownership(buckets=storage.buckets).side_of,
        record=log.record,
    )
    catalog = catalog_store.CatalogStore(
        index=storage.index,
        buckets=storage.buckets,
        objects=storage.objects,
        blobs=storage.blobs,
        now_ms=now_ms,
        new_id=new_id,
    )
    all_namespaces = namespaces.Namespaces(store=catalog)
    all_tables = tables.Tables(store=catalog)
    all_views = views.Views(store=catalog)
    table_guard = guard.TableGuard(
        store=catalog, region=settings.region, account_id=settings.account
    )
    table_sweep = sweeping.TableSweep(
        store=catalog,
        files=catalog_files.Files(objects=storage.objects, blobs=storage.blobs, guard=table_guard),
        day_ms=settings.lifecycle_day_seconds * 1000,
    )
    catalog_access = access.Access(
        store=catalog,
        authoriser=authoriser,
        region=settings.region,
        account_id=settings.account,
    )
    counts = counters.Counters()
    sql = late_sql.LateSql(
        late_sql.Parts(
            settings=settings,
            storage=storage,
            store=catalog,
            namespaces=all_namespaces,
            tables=all_tables,
            principals=people,
            ring=ring,
            access=catalog_access,
            now_ms=now_ms,
            new_id=new_id,
        )
    )
    verifier = verify.Verifier(
        principals=people,
        ring=ring,
        now_ms=now_ms,
        domain=settings.domain,
        open_to_all=settings.no_auth,
        sigv2_header=settings.sigv2_header,
    )
    s3 = s3_face.S3Face(
        storage=storage,
        guard=table_guard,
        authoriser=authoriser,
        verifier=verifier,
        root=people.root,
        region=settings.region,
        domain=settings.domain,
    )
    entry = exchange.Exchange(
        faces={
            "s3": s3,
            "s3tables": s3tables_face.make_face(
                resources.Resources(
                    buckets=storage.buckets,
                    namespaces=all_namespaces,
                    tables=all_tables,
                    labels=labels.Labels(index=storage.index, buckets=storage.buckets),
                    index=storage.index,
                    authoriser=authoriser,
                    access=catalog_access,
                    region=settings.region,
                    account_id=settings.account,
                    seeds=settings.bucket_seeds,
                )
            ),
            "iceberg": rest_face.IcebergFace(
                store=catalog,
                namespaces=all_namespaces,
                tables=all_tables,
                views=all_views,
                authoriser=authoriser,
                principals=people,
                ring=ring,
                default_warehouse=settings.table_buckets[0],
                region=settings.region,
                account_id=settings.account,
                now_ms=now_ms,
                new_id=new_id,
            ),
            "snowflake": sql,
            "native": native.NativeFace(
                counts=counts,
                version=config.VERSION,
                refuses_writes=lambda: why_writes_are_refused(storage, log),
                floors=(
                    native.Floor(
                        rows=catalog_native.ROWS,
                        services=catalog_native.TablesServices(
                            tables=all_tables, access=catalog_access, sweep=table_sweep
                        ),
                        wire_errors=catalog_native.WIRE_ERRORS,
                    ),
                ),
                gauges=(lambda: sweeping.format_metrics(table_sweep.totals),),
            ),
        },
        verifier=verifier,
        authoriser=authoriser,
        now_ms=now_ms,
        new_id=new_id,
        monotonic_ns=time.monotonic_ns,
        files=storage.disk,
        domain=settings.domain,
        counts=counts,
        audit_log=log,
    )
    lag = looplag.LoopLag(
        counts=counts,
        request_codes=exchange.REQUEST_CODES,
        monotonic=time.monotonic,
    )

    @contextlib.asynccontextmanager
    async def lifespan(_: starlette.applications.Starlette) -> AsyncIterator[None]:
        await log.start()
        lag.start()
        chores = [asyncio.create_task(storage.sweep.run())]
        if settings.sweep_interval_seconds:
            sweeps = table_sweep.run(interval_s=settings.sweep_interval_seconds)
            chores.append(asyncio.create_task(sweeps))
        try:
            yield
        finally:
            lag.stop()
            for chore in chores:
                chore.cancel()
            await asyncio.gather(*chores, return_exceptions=True)
            await table_sweep.stop()
            await sql.stop()
            await catalog.close()
            await log.stop()

    return Program(
        application=Application(entry, lifespan),
        storage=storage,
        root=root,
        ring=ring,
        principals=people,
        catalog=catalog,
        namespaces=all_namespaces,
        tables=all_tables,
        views=all_views,
        s3=s3,
        sql=sql,
    )


def why_writes_are_refused(storage: opening.Storage, log: audit.Audit) -> str | None:
    if storage.is_full():
        return "disk full"
    return "audit log cannot be written" if log.is_stuck else None
