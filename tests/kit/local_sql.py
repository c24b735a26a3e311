"""The SQL engine over a catalog of its own, without a server: what mini.py wires, for tests."""

from __future__ import annotations

import asyncio
import secrets
import time
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from catalog import access as catalog_access
from catalog import (
    appends,
    files,
    guard,
    namespace_clones,
    readers,
    scans,
    sequences,
    staging,
    table_buckets,
)
from catalog.sweep import referrers
from jobs import runs
from server.access import (
    arns,
    decide,
    identities,
    keyuses,
    model,
    policies,
    principals,
    rootkeys,
    tokens,
)
from server.iam import services
from sql import (
    accounts,
    alterations,
    backfills,
    changes,
    clones,
    compiler,
    databases,
    ddl_texts,
    defaults,
    definitions,
    encode,
    engine,
    engine_inline,
    errors,
    foreign_keys,
    granting,
    information_schema,
    inserts,
    loading,
    multi_inserts,
    numbering,
    offsets,
    outcomes,
    places,
    planning,
    relations,
    replacements,
    replays,
    results,
    roles,
    schema_clones,
    schemas,
    sessions,
    shelves,
    show,
    staged_reads,
    staged_statements,
    stages,
    statement_log,
    statements,
    stored_views,
    table_stages,
    temporary_tables,
    transactions,
    unloading,
    user_tokens,
    views,
    warehouserows,
    warehouses,
    writes,
)
from storage import disk
from storage import model as storage_model
from tests.kit import lakes, manifestfiles

Result = TypeVar("Result")
ROOT = lakes.ROOT
RING = tokens.KeyRing(keys=(tokens.SigningKey(key_id="k", secret=b"s" * 32),), master=b"m" * 32)


class KeptResults:
    """Results that a test keeps, by query id, in the form in which a client gets them."""

    def __init__(self) -> None:
        self.kept: dict[str, results.StoredResult] = {}

    async def stored(self, session: sessions.Session, query_id: str) -> results.StoredResult:
        if query_id not in self.kept:
            raise errors.result_scan_unknown(query_id)
        return self.kept[query_id]

    def recorded(
        self, session: sessions.Session, *, sees_all: bool
    ) -> list[statement_log.RecordedStatement]:
        return []

    async def keep(self, query_id: str, outcome: outcomes.Outcome, *, chunks: int = 1) -> None:
        """Keep an outcome as a client gets it. chunks: how many parts its batches are cut into."""
        columns = outcome.columns
        parts: list[bytes] = []
        if outcome.rows is not None:
            parts.append(encode.json_list(encode.json_cells(outcome.rows, columns)))
        else:
            assert outcome.batches is not None
            batches = [batch async for batch in outcome.batches]
            for number in range(chunks):
                parts.append(encode.arrow_stream(batches[number::chunks], columns))
        self.kept[query_id] = results.StoredResult(
            columns=columns,
            format="json" if outcome.rows is not None else "arrow",
            inline=parts[0],
            chunks=tuple(shelves.ShelvedBytes(part, len(part)) for part in parts[1:]),
        )


@dataclass(kw_only=True)
class LocalSql:
    """Statements over a folder, with one session."""

    lake: lakes.Lake
    statements: statements.Statements
    engine: engine.Engine
    session: sessions.Session
    appends: appends.Appends
    scans: scans.Scans
    files: files.Files
    readers: readers.Readers
    stages: stages.Stages
    transactions: transactions.Transactions
    temporary: temporary_tables.TemporaryTables
    iam: services.IamServices
    roles: roles.Roles
    runs: runs.Runs
    last_id: str = ""
    results: KeptResults = field(default_factory=lambda: KeptResults())

    async def run(self, text: str, **more: Any) -> outcomes.Outcome:
        self.last_id = str(uuid.uuid4())
        arguments: dict[str, Any] = {
            "bindings": {},
            "parameters": {},
            "describe_only": False,
            "query_id": self.last_id,
            "results": self.results,
            **more,
        }
        outcome = await self.statements.execute(self.session, text, **arguments)
        if not arguments["describe_only"]:
            self.session.query_ids.append(self.last_id)
        return outcome

    def log_in(self, name: str, role: str = "PUBLIC") -> None:
        """Make the session that of a stored user, as it is now, in a role."""
        entry = self.iam.principals.by_name(name)
        assert entry is not None
        self.session.user, self.session.principal = None, entry.principal
        self.roles.enter(self.session, role)

    def reader(self, dotted: str) -> readers.Reader:
        """Return a table as the session's principal reads its files."""
        return self.readers.of(self.session.principal, self.lake.load(self.lake.ident(dotted)))

    async def rows(self, text: str, **more: Any) -> list[tuple[Any, ...]]:
        """Return all rows of a statement as Python tuples."""
        return await rows_of(await self.run(text, **more))

    async def one(self, text: str, **more: Any) -> Any:
        """Return the one cell of a statement's one row."""
        ((cell,),) = await self.rows(text, **more)
        return cell


async def put_file(local: LocalSql, location: str, name: str, data: bytes) -> None:
    """Store a file where the client that runs PUT would. location: of a stage, as in SQL."""
    outcome = await local.run(f"PUT file:///tmp/{name} {location}")
    assert outcome.transfer is not None
    received = await local.lake.storage.blobs.store(data, digests=frozenset({"md5"}))
    await local.lake.storage.objects.put(
        outcome.transfer.bucket,
        outcome.transfer.prefix + name,
        received,
        attributes=storage_model.ObjectAttributes(),
    )


async def rows_of(outcome: outcomes.Outcome) -> list[tuple[Any, ...]]:
    """Return all rows of a statement that has run, which ends its query."""
    if outcome.rows is not None:
        return [tuple(row) for row in outcome.rows]
    rows: list[tuple[Any, ...]] = []
    assert outcome.batches is not None
    async for batch in outcome.batches:
        rows += list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    return rows


@asynccontextmanager
async def opened(
    path: Path, *, made_engine: engine.Engine | None = None, clock: lakes.Clock | None = None
) -> AsyncIterator[LocalSql]:
    """Build it at path; the table bucket `lake` with the schema `ns` is its session's."""
    await asyncio.to_thread(_prepare, path)
    with lakes.opened(path, clock=clock, first_id=1 << 40) as lake:
        the_engine = made_engine or engine.WorkerEngine(
            workers=1, spill_directory=lake.storage.path / "tmp", disk=lake.storage.disk
        )
        local = build(lake, the_engine)
        if not lake.namespaces.exists("lake", ("ns",)):
            await lake.namespaces.create("lake", ("ns",), by=lakes.BY)
        try:
            yield local
        finally:
            if made_engine is None:
                await the_engine.close()


@asynccontextmanager
async def opened_inline(path: Path) -> AsyncIterator[LocalSql]:
    """As `opened`, with queries in this process: for a module's fixture."""
    spill = path / "spill"
    await asyncio.to_thread(spill.mkdir, parents=True, exist_ok=True)
    local_engine = engine_inline.InlineEngine(spill_directory=spill)
    try:
        async with opened(path, made_engine=local_engine) as local:
            yield local
    finally:
        await local_engine.close()


def _prepare(path: Path) -> None:
    # lakes.opened makes its bucket with asyncio.run, which no running loop allows.
    with lakes.opened(path):
        pass


def build(lake: lakes.Lake, the_engine: engine.Engine) -> LocalSql:
    stored_identities = identities.Identities(
        index=lake.storage.index,
        ring=RING,
        account=lakes.ACCOUNT,
        canonical_id="c" * 64,
        random_bytes=secrets.token_bytes,
        now_ms=lake.clock,
    )

    def side_of(demand: model.Demand) -> decide.ResourceSide:
        if demand.action == roles.ASSUME_ROLE:
            return stored_identities.side_of(demand)
        return decide.NO_POLICY

    authoriser = decide.Authoriser(now_ms=lake.clock, resource_sides=side_of)
    iam = services.IamServices(
        identities=stored_identities,
        principals=principals.Principals(
            account=lakes.ACCOUNT,
            root=rootkeys.RootKeys(access_key="AKROOT", secret_key="root-secret", created=False),
            stored=stored_identities,
        ),
        authoriser=authoriser,
        key_uses=keyuses.KeyUses(
            index=lake.storage.index,
            region="us-east-1",
            configured=frozenset(),
            now_ms=lake.clock,
            monotonic_ns=time.monotonic_ns,
        ),
        configured={},
    )
    job_runs = runs.Runs(index=lake.storage.index, now_ms=lake.clock, new_id=lake.store.new_id)
    access = catalog_access.Access(
        store=lake.store,
        authoriser=authoriser,
        region="us-east-1",
        account_id=lakes.ACCOUNT,
    )
    new_id = lake.store.new_id
    file_store = files.Files(
        objects=lake.storage.objects,
        blobs=lake.storage.blobs,
        guard=guard.TableGuard(store=lake.store, region="us-east-1", account_id=lakes.ACCOUNT),
    )
    planned = scans.Scans(files=file_store, decoder=manifestfiles.InlineDecoder())
    resolver = places.Places(store=lake.store, access=access)
    table_readers = readers.Readers(store=lake.store, access=access)
    committed = appends.Appends(
        tables=lake.tables,
        scans=planned,
        files=file_store,
        readers=table_readers,
        now_ms=lake.clock,
        new_id=new_id,
    )
    stored = stored_views.StoredViews(views=lake.views)
    all_roles = roles.Roles(principals=iam.principals, authoriser=access.authoriser)
    all_sequences = sequences.Sequences(store=lake.store)
    stages_of_tables = table_stages.TableStages(
        store=lake.store, objects=lake.storage.objects, buckets=lake.storage.buckets
    )
    all_stages = stages.Stages(
        of_tables=stages_of_tables,
        store=lake.store,
        access=access,
        places=resolver,
        replays=replays.Replays(store=lake.store),
        tables=lake.tables,
        services=stages.StageServices(
            objects=lake.storage.objects,
            buckets=lake.storage.buckets,
            root=ROOT,
            ring=RING,
            region="us-east-1",
        ),
    )
    described = information_schema.InformationSchema(
        tables=lake.tables,
        views=stored,
        sequences=all_sequences,
        stages=all_stages,
        roles=all_roles,
    )
    read = relations.Relations(
        engine=the_engine,
        scans=planned,
        files=file_store,
        links=lake.storage.links,
    )
    written = writes.Writes(
        engine=the_engine,
        blobs=lake.storage.blobs,
        files=file_store,
        disk=lake.storage.disk,
        scratch=lake.storage.path / "tmp",
        tables=lake.tables,
        appends=committed,
        new_id=new_id,
    )
    reads = staged_reads.StagedReads(
        engine=the_engine,
        stages=all_stages,
        links=lake.storage.links,
        disk=lake.storage.disk,
        scratch=lake.storage.path / "tmp",
        now_ms=lake.clock,
        new_id=new_id,
    )
    reading = compiler.Compiler(children=0)
    stored_replays = replays.Replays(store=lake.store)
    all_accounts = accounts.Accounts(iam=iam, roles=all_roles, replays=stored_replays)
    staged = staging.Staging(
        tables=lake.tables,
        appends=committed,
        files=file_store,
        holds=lake.store.holds,
        fits=offsets.are_the_same,
        now_ms=lake.clock,
    )
    open_transactions = transactions.Transactions(
        staging=staged,
        tables=lake.tables,
        writes=written,
        places=resolver,
        replays=stored_replays,
        now_ms=lake.clock,
        new_id=new_id,
    )
    all_temporary = temporary_tables.TemporaryTables(
        buckets=lake.storage.buckets,
        files=file_store,
        namespaces=lake.namespaces,
        tables=lake.tables,
        region="us-east-1",
        new_id=new_id,
    )
    warehouse_rows = warehouserows.WarehouseRows(index=lake.store.index)
    plans = planning.Planning(
        places=resolver,
        tables=lake.tables,
        relations=read,
        readers=table_readers,
        described=described,
        transactions=open_transactions,
        views=stored,
        sequences=all_sequences,
        engine=the_engine,
        warehouses=warehouse_rows,
    )
    all_replacements = replacements.Replacements(
        tables=lake.tables,
        appends=committed,
        staging=staged,
        stages=stages_of_tables,
        now_ms=lake.clock,
    )
    reading = compiler.Compiler(children=0)
    references = foreign_keys.ForeignKeys(places=resolver, tables=lake.tables)
    column_defaults = defaults.Defaults(
        compiler=reading,
        planning=plans,
        engine=the_engine,
        places=resolver,
        sequences=all_sequences,
    )
    all_clones = clones.Clones(
        scans=planned,
        files=file_store,
        sequences=all_sequences,
        writes=written,
        new_id=new_id,
    )
    all_definitions = definitions.Definitions(
        planning=plans,
        places=resolver,
        writes=written,
        tables=lake.tables,
        replays=stored_replays,
        defaults=column_defaults,
        foreign_keys=references,
        replacements=all_replacements,
        temporary=all_temporary,
        clones=all_clones,
        stages=all_stages,
    )
    all_schema_clones = schema_clones.SchemaClones(
        places=resolver,
        planning=plans,
        compiler=reading,
        definitions=all_definitions,
        clones=all_clones,
        writes=written,
        namespace_clones=namespace_clones.NamespaceClones(
            store=lake.store, namespaces=lake.namespaces, views=lake.views
        ),
        tables=lake.tables,
        views=lake.views,
        readers=table_readers,
        appends=committed,
        files=file_store,
    )
    runner = statements.Statements(
        engine=the_engine,
        compiler=reading,
        places=resolver,
        tables=lake.tables,
        relations=read,
        inserts=inserts.Inserts(
            planning=plans,
            places=resolver,
            writes=written,
            transactions=open_transactions,
            defaults=column_defaults,
        ),
        changes=changes.Changes(
            engine=the_engine,
            places=resolver,
            relations=read,
            planning=plans,
            writes=written,
            transactions=open_transactions,
            defaults=column_defaults,
            disk=lake.storage.disk,
            scratch=lake.storage.path / "tmp",
            new_id=new_id,
        ),
        multi_inserts=multi_inserts.MultiInserts(
            engine=the_engine,
            planning=plans,
            places=resolver,
            writes=written,
            transactions=open_transactions,
            defaults=column_defaults,
        ),
        shows=show.Shows(
            places=resolver,
            described=described,
            accounts=all_accounts,
            runs=job_runs,
            access=access,
            warehouses=warehouse_rows,
            default_database="lake",
            engines=(the_engine,),
        ),
        planning=plans,
        definitions=all_definitions,
        schemas=schemas.Schemas(
            places=resolver,
            namespaces=lake.namespaces,
            replays=stored_replays,
            temporary=all_temporary,
            clones=all_schema_clones,
        ),
        databases=databases.Databases(
            places=resolver,
            table_buckets=table_buckets.TableBuckets(
                store=lake.store,
                namespaces=lake.namespaces,
                referrers=referrers.Referrers(store=lake.store, files=file_store),
                region="us-east-1",
                seeds={},
            ),
            replays=stored_replays,
            clones=all_schema_clones,
        ),
        warehouses=warehouses.Warehouses(
            index=lake.store.index, access=access, replays=stored_replays, now_ms=lake.clock
        ),
        numbering=numbering.Numbering(
            places=resolver, sequences=all_sequences, replays=stored_replays
        ),
        alterations=alterations.Alterations(
            places=resolver,
            tables=lake.tables,
            replays=stored_replays,
            defaults=column_defaults,
            foreign_keys=references,
            stages=all_stages,
            backfills=backfills.Backfills(
                readers=table_readers,
                relations=read,
                planning=plans,
                writes=written,
                replacements=all_replacements,
                now_ms=lake.clock,
            ),
        ),
        transactions=open_transactions,
        views=views.ViewStatements(
            planning=plans,
            places=resolver,
            views=lake.views,
            replays=replays.Replays(store=lake.store),
        ),
        staged_reads=reads,
        staged_statements=staged_statements.StagedStatements(
            stages=all_stages,
            loading=loading.Loading(
                engine=the_engine,
                compiler=reading,
                store=lake.store,
                places=resolver,
                planning=plans,
                defaults=column_defaults,
                stages=all_stages,
                reads=reads,
                writes=written,
                transactions=open_transactions,
            ),
            unloading=unloading.Unloading(
                engine=the_engine,
                compiler=reading,
                planning=plans,
                stages=all_stages,
                blobs=lake.storage.blobs,
                disk=lake.storage.disk,
                scratch=lake.storage.path / "tmp",
                new_id=new_id,
            ),
        ),
        roles=all_roles,
        accounts=all_accounts,
        user_tokens=user_tokens.UserTokens(iam=iam, roles=all_roles, replays=stored_replays),
        ddl_texts=ddl_texts.DdlTexts(places=resolver, described=described),
        granting=granting.Granting(
            iam=iam,
            places=resolver,
            accounts=all_accounts,
            roles=all_roles,
            replays=stored_replays,
        ),
        now_ms=lake.clock,
        about=statements.About(version="9.0.0", region="us-east-1"),
    )
    session = sessions.Session(id=1, principal=ROOT, database="lake", schema="ns")
    return LocalSql(
        lake=lake,
        statements=runner,
        engine=the_engine,
        session=session,
        appends=committed,
        scans=planned,
        files=file_store,
        readers=table_readers,
        stages=all_stages,
        transactions=open_transactions,
        temporary=all_temporary,
        iam=iam,
        roles=all_roles,
        runs=job_runs,
    )


def run_local(
    path: Path, work: Callable[[LocalSql], Coroutine[Any, Any, Result]], *, workers: int = 0
) -> Result:
    """Run work with a LocalSql over path: queries in this process, or in workers children."""

    spill = path.absolute() / "spill"
    spill.mkdir(parents=True, exist_ok=True)

    async def inside() -> Result:
        local_engine: engine.Engine
        if workers:
            local_engine = engine.WorkerEngine(
                workers=workers, spill_directory=spill, disk=disk.Disk()
            )
        else:
            local_engine = engine_inline.InlineEngine(spill_directory=spill)
        try:
            async with opened(path, made_engine=local_engine) as local:
                return await work(local)
        finally:
            await local_engine.close()

    return asyncio.run(inside())


def user(name: str, statements: list[dict[str, Any]]) -> model.Principal:
    """Return a user whose only policy has these statements."""
    document = {"Version": "2012-10-17", "Statement": statements}
    return model.Principal(
        type="user",
        name=name,
        arn=f"arn:aws:iam::{lakes.ACCOUNT}:user/{name}",
        account_id=lakes.ACCOUNT,
        canonical_id="u",
        display_name=name,
        policies=(policies.parse_policy(document, policy_type="identity"),) if statements else (),
    )


def table_arn(local: LocalSql, dotted: str) -> str:
    pointer = local.lake.tables.pointer(local.lake.ident(dotted))
    return arns.table_arn("us-east-1", lakes.ACCOUNT, "lake", pointer.object_uuid)
