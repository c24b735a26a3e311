"""wiring: builds the program as a value: one ASGI application of all floors.

`build` starts nothing. The application is a Starlette; its lifespan starts and stops the background
tasks. The protocol faces are behind one `server.exchange.Exchange`, which HTTP requests reach
without a router: routing would more than double a request's cost.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import functools
import importlib.util
import os
import secrets
import shlex
import sys
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import starlette.applications
import starlette.routing
import starlette.types

from catalog import access, decoding, drops, guard, namespaces, readers, scans, tables, views
from catalog import files as catalog_files
from catalog import store as catalog_store
from catalog.mounts import mirror, mounted
from catalog.rest import face as rest_face
from catalog.rest import logged as rest_logged
from catalog.rest import native as catalog_native
from catalog.sweep import referrers, sweeping
from jobs import credentials as job_credentials
from jobs import face as jobs_face
from jobs import folder, runs, scheduler, upkeep, workers
from program import late_sql
from s3tables import face as s3tables_face
from s3tables import labels, replication, resources
from s3tables import logged as s3tables_logged
from server import (
    asgi,
    auditing,
    children,
    config,
    counters,
    exchange,
    looplag,
    native,
    receiving,
)
from server.access import (
    arns,
    audit,
    decide,
    identities,
    keyuses,
    model,
    principals,
    rootkeys,
    tokens,
)
from server.accesslogs import delivery
from server.auth import verify
from server.iam import face as iam_face
from server.iam import services as iam_services
from server.oidc import federation, keysets
from server.s3 import face as s3_face
from server.s3 import logged as s3_logged
from server.s3 import ownership
from server.sts import face as sts_face
from storage import expiry, opening
from storage import model as storage_model

Lifespan: TypeAlias = starlette.types.Lifespan[starlette.applications.Starlette]

WORKER_VARIABLES: Final = frozenset(
    {"AWS_CA_BUNDLE", "BOATHOUSE_CACHE", "JAVA_HOME", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE",
     "SPARK_SUBMIT_OPTS", "SSL_CERT_DIR", "XDG_CACHE_HOME"}
)  # fmt: skip
"""Variables that a child of the scheduler gets besides those of every child: where Java and the
jars are, options of the JVM, and which certificates to trust."""
WORKER_CONF: Final = "BOATHOUSE_CONF"
"""Tells this child the settings of Spark, quoted as in a shell."""
_OWN_POLICIES: Final = arns.policy_arn("aws", "/", "")
"""The beginning of the ARNs of the server's own policies, which belong to its account."""


class Application(starlette.applications.Starlette):
    """The ASGI application. entry: the exchange that answers HTTP requests, and recalls those that
    came before. receivers: the processes that receive large bodies."""

    def __init__(
        self, entry: exchange.Exchange, receivers: receiving.Receivers, lifespan: Lifespan
    ) -> None:
        super().__init__(
            routes=[starlette.routing.Mount("/", app=entry)],
            lifespan=lifespan,
        )
        self._entry = entry
        self.begin = entry.begin
        """Serves an HTTP request up to the first wait; returns the rest, None if there is none."""
        self.recall = entry.recall
        self.face_of_head = entry.face_of_head
        self.receivers = receivers

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
    access_logs: delivery.AccessLogs
    sql: late_sql.LateSql
    scheduler: scheduler.Scheduler


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rights:
    """What identifies callers and decides what they may do."""

    root: rootkeys.RootKeys
    ring: tokens.KeyRing
    principals: principals.Principals
    identities: identities.Identities
    key_uses: keyuses.KeyUses
    audit_log: audit.Audit
    authoriser: decide.Authoriser
    verifier: verify.Verifier


@dataclass(frozen=True, kw_only=True, slots=True)
class _Catalog:
    """The engines of the catalog."""

    store: catalog_store.CatalogStore
    namespaces: namespaces.Namespaces
    tables: tables.Tables
    views: views.Views
    guard: guard.TableGuard
    files: catalog_files.Files
    decoder: decoding.ChildDecoder
    scans: scans.Scans
    sweep: sweeping.TableSweep
    access: access.Access


def build(
    settings: config.Config,
    storage: opening.Storage,
    *,
    now_ms: storage_model.NowMs,
    new_id: storage_model.NewId,
) -> Program:
    """Build all floors, the lowest first. Nothing runs before the application's lifespan."""
    rights = _build_rights(settings, storage, now_ms)
    catalog = _build_catalog(settings, storage, rights.authoriser, now_ms, new_id)
    counts = counters.Counters()
    iam = iam_services.IamServices(
        identities=rights.identities,
        principals=rights.principals,
        authoriser=rights.authoriser,
        key_uses=rights.key_uses,
        configured=iam_services.configured_users(
            settings.users, rights.principals, settings.account
        ),
    )
    job_runs = runs.Runs(index=storage.index, now_ms=now_ms, new_id=new_id)
    sql = late_sql.LateSql(
        late_sql.Parts(
            settings=settings,
            storage=storage,
            store=catalog.store,
            namespaces=catalog.namespaces,
            tables=catalog.tables,
            views=catalog.views,
            principals=rights.principals,
            iam=iam,
            ring=rights.ring,
            access=catalog.access,
            files=catalog.files,
            scans=catalog.scans,
            runs=job_runs,
            child_variables=WORKER_VARIABLES,
            now_ms=now_ms,
            new_id=new_id,
        )
    )
    lifecycles = expiry.Expiry(
        index=storage.index,
        buckets=storage.buckets,
        blobs=storage.blobs,
        now_ms=now_ms,
        new_id=new_id,
        day_ms=settings.lifecycle_day_seconds * 1000,
    )
    host_id = _host_id(new_id)
    key_files = {url: Path(file) for url, file in settings.identity_provider_keys.items()}
    providers = federation.Federation(
        directory=rights.identities,
        key_sets=keysets.KeySets(now_ms=now_ms, files=key_files),
        now_ms=now_ms,
    )
    iceberg = _iceberg_face(settings, rights, catalog, providers, now_ms, new_id)
    access_logs = delivery.AccessLogs(
        index=storage.index,
        buckets=storage.buckets,
        objects=storage.objects,
        blobs=storage.blobs,
        authoriser=rights.authoriser,
        places_by_face={
            "s3": s3_logged.place_of,
            "s3tables": s3tables_logged.place_of,
            "iceberg": rest_logged.finder(iceberg.services),
        },
        canonical_id_of=principals.canonical_id_of,
        region=settings.region,
        host_id=host_id,
        now_ms=now_ms,
        new_id=new_id,
    )
    s3 = s3_face.S3Face(
        storage=storage,
        expiry=lifecycles,
        access_logs=access_logs,
        guard=catalog.guard,
        authoriser=rights.authoriser,
        verifier=rights.verifier,
        principals=rights.principals,
        region=settings.region,
        domain=settings.domain,
        hide_table_buckets=settings.hide_table_buckets,
        encrypted_disk=settings.encrypted_disk,
        host_id=host_id,
    )
    jobs = _build_scheduler(settings, storage, rights, catalog, job_runs, now_ms, new_id)
    entry = exchange.Exchange(
        faces={
            "s3": s3,
            "s3tables": s3tables_face.make_face(
                _s3tables_resources(settings, storage, rights, catalog, access_logs)
            ),
            "sts": sts_face.make_face(
                sts_face.Services(
                    authoriser=rights.authoriser,
                    identities=rights.identities,
                    ring=rights.ring,
                    federation=providers,
                    now_ms=now_ms,
                    new_id=new_id,
                )
            ),
            "iam": iam_face.make_face(iam),
            "iceberg": iceberg,
            "snowflake": sql,
            "native": _native_face(
                storage,
                rights,
                catalog,
                lifecycles,
                counts,
                access_logs,
                jobs_face.JobsServices(runs=job_runs, scheduler=jobs, access=catalog.access),
            ),
        },
        verifier=rights.verifier,
        authoriser=rights.authoriser,
        now_ms=now_ms,
        new_id=new_id,
        monotonic_ns=time.monotonic_ns,
        files=storage.disk,
        domain=settings.domain,
        counts=counts,
        audit_log=rights.audit_log,
        access_logs=access_logs,
        key_uses=rights.key_uses.recent,
        lines_of_face={"s3": asgi.encode_headers((("x-amz-id-2", host_id),))},
    )
    lag = looplag.LoopLag(
        counts=counts,
        request_codes=exchange.REQUEST_CODES,
        monotonic=time.monotonic,
    )
    receivers = receiving.Receivers()
    return Program(
        application=Application(
            entry,
            receivers,
            _lifespan(
                settings,
                storage,
                rights,
                catalog,
                lifecycles,
                access_logs,
                providers.key_sets,
                sql,
                lag,
                jobs,
                receivers,
            ),
        ),
        storage=storage,
        root=rights.root,
        ring=rights.ring,
        principals=rights.principals,
        catalog=catalog.store,
        namespaces=catalog.namespaces,
        tables=catalog.tables,
        views=catalog.views,
        s3=s3,
        access_logs=access_logs,
        sql=sql,
        scheduler=jobs,
    )


def _build_rights(
    settings: config.Config, storage: opening.Storage, now_ms: storage_model.NowMs
) -> _Rights:
    root = rootkeys.open_root(
        storage.path,
        disk=storage.disk,
        random_bytes=secrets.token_bytes,
        access_key=settings.access_key,
        secret_key=settings.secret_key,
    )
    ring = rootkeys.open_ring(storage.path, disk=storage.disk, random_bytes=secrets.token_bytes)
    stored = identities.Identities(
        index=storage.index,
        ring=ring,
        account=settings.account,
        canonical_id=principals.canonical_id_of(settings.account),
        random_bytes=secrets.token_bytes,
        now_ms=now_ms,
    )
    key_uses = keyuses.KeyUses(
        index=storage.index,
        region=settings.region,
        configured=frozenset({root.access_key, *(user.access_key for user in settings.users)}),
        now_ms=now_ms,
        monotonic_ns=time.monotonic_ns,
    )
    people = principals.Principals(
        account=settings.account,
        root=root,
        users=settings.users,
        stored=stored,
        key_uses=key_uses,
    )
    log = audit.Audit(folder=storage.path / "audit", disk=storage.disk, now_ms=now_ms)
    owners = ownership.Ownership(
        buckets=storage.buckets, objects=storage.objects, index=storage.index
    )

    def side_of(demand: model.Demand) -> decide.ResourceSide:
        if demand.action in sts_face.ROLE_ACTIONS:
            return stored.side_of(demand)
        if demand.resource.startswith(_OWN_POLICIES):
            return decide.ResourceSide(account=settings.account)
        if demand.resource.startswith("arn:aws:iam:"):
            side = owners.side_of(demand)
            tags = functools.partial(stored.tags_of, demand.resource)
            return dataclasses.replace(side, tags=tags)
        return owners.side_of(demand)

    return _Rights(
        root=root,
        ring=ring,
        principals=people,
        identities=stored,
        key_uses=key_uses,
        audit_log=log,
        authoriser=decide.Authoriser(
            now_ms=now_ms,
            region=settings.region,
            resource_sides=side_of,
            record=log.record,
            record_read=log.record_read if settings.audit == "all" else None,
        ),
        verifier=verify.Verifier(
            principals=people,
            ring=ring,
            now_ms=now_ms,
            domain=settings.domain,
            open_to_all=settings.no_auth,
            sigv2_header=settings.sigv2_header,
        ),
    )


def _build_catalog(
    settings: config.Config,
    storage: opening.Storage,
    authoriser: decide.Authoriser,
    now_ms: storage_model.NowMs,
    new_id: storage_model.NewId,
) -> _Catalog:
    copies = mirror.Mirror(
        blobs=storage.blobs,
        disk=storage.disk,
        scratch=storage.path / "tmp",
        new_id=new_id,
        bytes_max=settings.mount_cache_mib << 20,
    )
    mounts = None
    if settings.mounts:
        mounts = mounted.Mounts(
            settings.mounts,
            owner=settings.account,
            region=settings.region,
            copies=copies,
            local=storage.disk,
            now_ms=now_ms,
        )
        storage.buckets.reserve(dict.fromkeys(mounts.names, settings.account))
    store = catalog_store.CatalogStore(
        mounts=mounts,
        index=storage.index,
        buckets=storage.buckets,
        objects=storage.objects,
        blobs=storage.blobs,
        now_ms=now_ms,
        new_id=new_id,
        day_ms=settings.lifecycle_day_seconds * 1000,
    )
    table_guard = guard.TableGuard(store=store, region=settings.region, account_id=settings.account)
    table_files = catalog_files.Files(
        objects=storage.objects, blobs=storage.blobs, guard=table_guard, copies=copies
    )
    decoder = decoding.ChildDecoder()
    return _Catalog(
        store=store,
        namespaces=namespaces.Namespaces(store=store),
        tables=tables.Tables(store=store),
        views=views.Views(store=store),
        guard=table_guard,
        files=table_files,
        decoder=decoder,
        scans=scans.Scans(files=table_files, decoder=decoder),
        sweep=sweeping.TableSweep(
            store=store,
            files=table_files,
            day_ms=settings.lifecycle_day_seconds * 1000,
        ),
        access=access.Access(
            store=store,
            authoriser=authoriser,
            region=settings.region,
            account_id=settings.account,
        ),
    )


def _s3tables_resources(
    settings: config.Config,
    storage: opening.Storage,
    rights: _Rights,
    catalog: _Catalog,
    access_logs: delivery.AccessLogs,
) -> resources.Resources:
    return resources.Resources(
        buckets=storage.buckets,
        namespaces=catalog.namespaces,
        tables=catalog.tables,
        labels=labels.Labels(index=storage.index, buckets=storage.buckets),
        index=storage.index,
        authoriser=rights.authoriser,
        access=catalog.access,
        sweep=catalog.sweep,
        referrers=referrers.Referrers(store=catalog.store, files=catalog.files),
        access_logs=access_logs,
        region=settings.region,
        account_id=settings.account,
        seeds=settings.bucket_seeds,
        encrypted_disk=settings.encrypted_disk,
    )


def _iceberg_face(
    settings: config.Config,
    rights: _Rights,
    catalog: _Catalog,
    providers: federation.Federation,
    now_ms: storage_model.NowMs,
    new_id: storage_model.NewId,
) -> rest_face.IcebergFace:
    return rest_face.IcebergFace(
        store=catalog.store,
        namespaces=catalog.namespaces,
        tables=catalog.tables,
        views=catalog.views,
        scans=catalog.scans,
        authoriser=rights.authoriser,
        principals=rights.principals,
        federation=providers,
        ring=rights.ring,
        default_warehouse=settings.table_buckets[0],
        separator=settings.namespace_separator,
        region=settings.region,
        account_id=settings.account,
        now_ms=now_ms,
        new_id=new_id,
    )


def _native_face(
    storage: opening.Storage,
    rights: _Rights,
    catalog: _Catalog,
    lifecycles: expiry.Expiry,
    counts: counters.Counters,
    access_logs: delivery.AccessLogs,
    jobs_services: jobs_face.JobsServices,
) -> native.NativeFace:
    return native.NativeFace(
        counts=counts,
        version=config.VERSION,
        refuses_writes=lambda: why_writes_are_refused(storage, rights.audit_log),
        floors=(
            native.Floor(
                rows=catalog_native.ROWS,
                services=catalog_native.TablesServices(
                    namespaces=catalog.namespaces,
                    tables=catalog.tables,
                    views=catalog.views,
                    drops=drops.Drops(store=catalog.store),
                    access=catalog.access,
                    sweep=catalog.sweep,
                    principals=rights.principals,
                ),
                wire_errors=catalog_native.WIRE_ERRORS,
            ),
            native.Floor(
                rows=auditing.ROWS,
                services=auditing.AuditServices(log=rights.audit_log),
                wire_errors={},
            ),
            native.Floor(
                rows=jobs_face.ROWS,
                services=jobs_services,
                wire_errors=jobs_face.WIRE_ERRORS,
            ),
        ),
        gauges=(
            lambda: sweeping.format_metrics(catalog.sweep.totals),
            lambda: replication.format_metrics(storage.buckets, storage.index),
            lambda: expiry.format_metrics(lifecycles.totals),
            access_logs.format_metrics,
            rights.audit_log.format_metrics,
        ),
    )


def _build_scheduler(
    settings: config.Config,
    storage: opening.Storage,
    rights: _Rights,
    catalog: _Catalog,
    job_runs: runs.Runs,
    now_ms: storage_model.NowMs,
    new_id: storage_model.NewId,
) -> scheduler.Scheduler:
    root = rights.principals.root
    table_readers = readers.Readers(store=catalog.store, access=catalog.access)
    return scheduler.Scheduler(
        index=storage.index,
        runs=job_runs,
        folder=folder.PipelineFolder(
            Path(settings.pipelines).absolute() if settings.pipelines else None
        ),
        upkeep=upkeep.Upkeep(
            store=catalog.store,
            namespaces=catalog.namespaces,
            tables=catalog.tables,
            scans=catalog.scans,
            reader_of=lambda table: table_readers.of(root, table),
            account=settings.account,
            runs=job_runs,
        ),
        credentials=job_credentials.JobCredentials(
            principals=rights.principals, ring=rights.ring, now_ms=now_ms, new_id=new_id
        ),
        maintenance_interval_s=settings.maintenance_interval_seconds,
        may_start_spark=lambda: importlib.util.find_spec("pyspark") is not None,
        now_ms=now_ms,
    )


def begin_jobs(program: Program, settings: config.Config, url: str) -> None:
    """Let the scheduler start what is due, now that requests to url are answered."""
    program.scheduler.begin(functools.partial(_start_worker, program, settings, url))


async def _start_worker(
    program: Program, settings: config.Config, url: str, variables: Mapping[str, str]
) -> workers.Worker:
    logs = program.storage.path.absolute() / "logs"
    command = worker_command(settings, url, logs=logs, variables=variables, environment=os.environ)
    return await workers.start(command, disk=program.storage.disk, logs=logs)


def worker_command(
    settings: config.Config,
    url: str,
    *,
    logs: Path,
    variables: Mapping[str, str],
    environment: Mapping[str, str],
) -> workers.WorkerCommand:
    """Return how the scheduler's child is started. variables: those of its credentials.

    Settings of Spark may be secrets. They are variables, since other users see arguments.
    """
    kept = {name: value for name, value in environment.items() if name in WORKER_VARIABLES}
    gets = {"--cores": settings.jobs_cores, "--memory-mib": settings.jobs_memory_mib}
    return workers.WorkerCommand(
        arguments=(
            sys.executable, "-m", "pipeline", "serve",
            "--url", url,
            "--region", settings.region,
            *(f"{name}={value}" for name, value in gets.items() if value is not None),
            "--folder", str(Path.cwd()),
            "--logs", str(logs),
        ),
        variables={**kept, WORKER_CONF: shlex.join(settings.jobs_conf), **variables},
        folder=children.CHECKOUT,
    )  # fmt: skip


def _lifespan(
    settings: config.Config,
    storage: opening.Storage,
    rights: _Rights,
    catalog: _Catalog,
    lifecycles: expiry.Expiry,
    access_logs: delivery.AccessLogs,
    key_sets: keysets.KeySets,
    sql: late_sql.LateSql,
    lag: looplag.LoopLag,
    jobs: scheduler.Scheduler,
    receivers: receiving.Receivers,
) -> Lifespan:
    """Return what starts and stops the tasks beside requests."""

    @contextlib.asynccontextmanager
    async def lifespan(_: starlette.applications.Starlette) -> AsyncIterator[None]:
        await rights.audit_log.start()
        lag.start()
        access_logs.start()
        rights.key_uses.start()
        chores = [
            asyncio.create_task(storage.sweep.run()),
            asyncio.create_task(lifecycles.run()),
        ]
        if catalog.store.mounts is not None:
            chores.append(asyncio.create_task(catalog.store.mounts.list_all()))
        if settings.sweep_interval_seconds:
            sweeps = catalog.sweep.run(interval_s=settings.sweep_interval_seconds)
            chores.append(asyncio.create_task(sweeps))
        try:
            yield
        finally:
            lag.stop()
            await jobs.stop()
            for chore in chores:
                chore.cancel()
            await asyncio.gather(*chores, return_exceptions=True)
            await access_logs.stop()
            await rights.key_uses.stop()
            await catalog.sweep.stop()
            key_sets.close()
            await sql.stop()
            if catalog.store.mounts is not None:
                catalog.store.mounts.close()
            await catalog.decoder.close()
            await receivers.close()
            await catalog.store.close()
            await rights.audit_log.stop()

    return lifespan


def _host_id(new_id: storage_model.NewId) -> str:
    """Return the name of this server's run, of the length that S3's own have."""
    return base64.b64encode(bytes.fromhex(new_id() + new_id() + new_id())).decode()


def why_writes_are_refused(storage: opening.Storage, log: audit.Audit) -> str | None:
    if storage.is_full():
        return "disk full"
    return "audit log cannot be written" if log.is_stuck else None
