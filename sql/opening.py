"""wiring: builds the services that run statements.

`open_statements` returns the statements for `sql.queries` and the engine behind them, which must be
closed. `Compiler.split` is the Split of `sql.queries`. Nothing starts here: the first query starts
the first child.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from catalog import (
    access,
    appends,
    files,
    namespace_clones,
    namespaces,
    readers,
    scans,
    sequences,
    staging,
    table_buckets,
    tables,
)
from catalog import store as catalog_store
from catalog import views as catalog_views
from catalog.sweep import referrers
from jobs import runs as job_runs
from server.access import tokens
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
    engine,
    engine_spark,
    foreign_keys,
    granting,
    information_schema,
    inserts,
    loading,
    multi_inserts,
    numbering,
    offsets,
    places,
    planning,
    relations,
    replacements,
    replays,
    roles,
    schema_clones,
    schemas,
    show,
    staged_reads,
    staged_statements,
    stages,
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
from storage import opening as storage_opening


@dataclass(frozen=True, kw_only=True, slots=True)
class SqlEngines:
    """Statements, and what must be closed after them."""

    statements: statements.Statements
    engine: engine.Engine
    spark: tuple[engine_spark.SparkEngine, ...]
    compiler: compiler.Compiler
    transactions: transactions.Transactions
    stages: stages.Stages
    temporary: temporary_tables.TemporaryTables

    async def close(self) -> None:
        """End every child, and delete all temporary tables."""
        await self.transactions.stop()
        await self.stages.stop()
        await self.temporary.stop()
        for spark in self.spark:
            await spark.close()
        await self.engine.close()
        await self.compiler.close()


def open_statements(
    *,
    storage: storage_opening.Storage,
    store: catalog_store.CatalogStore,
    namespaces: namespaces.Namespaces,
    tables: tables.Tables,
    catalog_views: catalog_views.Views,
    access: access.Access,
    files: files.Files,
    scans: scans.Scans,
    engine: engine.Engine,
    reading_children: int,
    default_database: str | None,
    seeds: Mapping[str, Mapping[str, Any]],
    region: str,
    version: str,
    iam: services.IamServices,
    ring: tokens.KeyRing,
    runs: job_runs.Runs,
    limits: planning.StatementLimits | None = None,
    spark: Mapping[str, engine_spark.SparkEngine] | None = None,
) -> SqlEngines:
    """Return statements over an open data folder.

    engine: a WorkerEngine, or an InlineEngine where a setting asks for no children. Its spill
    directory may be the folder's `tmp`, which every start empties. reading_children: how many read
    large statements; 0 for none. seeds: by name, the settings of a new database's table bucket.
    spark: by name, the warehouses whose queries run on Spark.
    """
    all_places = places.Places(store=store, access=access)
    table_readers = readers.Readers(store=store, access=access)
    stored = stored_views.StoredViews(views=catalog_views)
    all_temporary = temporary_tables.TemporaryTables(
        buckets=storage.buckets,
        files=files,
        namespaces=namespaces,
        tables=tables,
        region=region,
        new_id=store.new_id,
    )
    all_roles = roles.Roles(principals=iam.principals, authoriser=access.authoriser)
    all_sequences = sequences.Sequences(store=store)
    all_replays = replays.Replays(store=store)
    all_accounts = accounts.Accounts(iam=iam, roles=all_roles, replays=all_replays)
    stages_of_tables = table_stages.TableStages(
        store=store, objects=storage.objects, buckets=storage.buckets
    )
    all_stages = stages.Stages(
        of_tables=stages_of_tables,
        store=store,
        access=access,
        places=all_places,
        replays=all_replays,
        tables=tables,
        services=stages.StageServices(
            objects=storage.objects,
            buckets=storage.buckets,
            root=iam.principals.root,
            ring=ring,
            region=region,
        ),
    )
    described = information_schema.InformationSchema(
        tables=tables, views=stored, sequences=all_sequences, stages=all_stages, roles=all_roles
    )
    read = relations.Relations(
        engine=engine,
        scans=scans,
        files=files,
        links=storage.links,
    )
    all_appends = appends.Appends(
        tables=tables,
        scans=scans,
        files=files,
        readers=table_readers,
        now_ms=store.now_ms,
        new_id=store.new_id,
    )
    written = writes.Writes(
        engine=engine,
        blobs=storage.blobs,
        files=files,
        disk=storage.disk,
        scratch=storage.path / "tmp",
        tables=tables,
        appends=all_appends,
        new_id=store.new_id,
    )
    all_staging = staging.Staging(
        tables=tables,
        appends=all_appends,
        files=files,
        holds=store.holds,
        fits=offsets.are_the_same,
        now_ms=store.now_ms,
    )
    all_transactions = transactions.Transactions(
        staging=all_staging,
        tables=tables,
        writes=written,
        places=all_places,
        replays=all_replays,
        now_ms=store.now_ms,
        new_id=store.new_id,
    )
    warehouse_rows = warehouserows.WarehouseRows(index=store.index, declared=tuple(spark or ()))
    plans = planning.Planning(
        places=all_places,
        tables=tables,
        relations=read,
        readers=table_readers,
        described=described,
        transactions=all_transactions,
        views=stored,
        sequences=all_sequences,
        engine=engine,
        warehouses=warehouse_rows,
        limits=limits,
    )
    all_replacements = replacements.Replacements(
        tables=tables,
        appends=all_appends,
        staging=all_staging,
        stages=stages_of_tables,
        now_ms=store.now_ms,
    )
    reading = compiler.Compiler(children=reading_children)
    references = foreign_keys.ForeignKeys(places=all_places, tables=tables)
    column_defaults = defaults.Defaults(
        compiler=reading,
        planning=plans,
        engine=engine,
        places=all_places,
        sequences=all_sequences,
    )
    reads = staged_reads.StagedReads(
        engine=engine,
        stages=all_stages,
        links=storage.links,
        disk=storage.disk,
        scratch=storage.path / "tmp",
        now_ms=store.now_ms,
        new_id=store.new_id,
    )
    all_clones = clones.Clones(
        scans=scans,
        files=files,
        sequences=all_sequences,
        writes=written,
        new_id=store.new_id,
    )
    all_definitions = definitions.Definitions(
        planning=plans,
        places=all_places,
        writes=written,
        tables=tables,
        replays=all_replays,
        defaults=column_defaults,
        foreign_keys=references,
        replacements=all_replacements,
        temporary=all_temporary,
        clones=all_clones,
        stages=all_stages,
    )
    all_schema_clones = schema_clones.SchemaClones(
        places=all_places,
        planning=plans,
        compiler=reading,
        definitions=all_definitions,
        clones=all_clones,
        writes=written,
        namespace_clones=namespace_clones.NamespaceClones(
            store=store, namespaces=namespaces, views=catalog_views
        ),
        tables=tables,
        views=catalog_views,
        readers=table_readers,
        appends=all_appends,
        files=files,
    )
    all_statements = statements.Statements(
        engine=engine,
        compiler=reading,
        places=all_places,
        tables=tables,
        relations=read,
        inserts=inserts.Inserts(
            planning=plans,
            places=all_places,
            writes=written,
            transactions=all_transactions,
            defaults=column_defaults,
        ),
        changes=changes.Changes(
            engine=engine,
            places=all_places,
            relations=read,
            planning=plans,
            writes=written,
            transactions=all_transactions,
            defaults=column_defaults,
            disk=storage.disk,
            scratch=storage.path / "tmp",
            new_id=store.new_id,
        ),
        multi_inserts=multi_inserts.MultiInserts(
            engine=engine,
            planning=plans,
            places=all_places,
            writes=written,
            transactions=all_transactions,
            defaults=column_defaults,
        ),
        shows=show.Shows(
            places=all_places,
            described=described,
            accounts=all_accounts,
            runs=runs,
            access=access,
            warehouses=warehouse_rows,
            default_database=default_database,
            engines=(engine, *(spark or {}).values()),
        ),
        planning=plans,
        definitions=all_definitions,
        schemas=schemas.Schemas(
            places=all_places,
            namespaces=namespaces,
            replays=all_replays,
            temporary=all_temporary,
            clones=all_schema_clones,
        ),
        databases=databases.Databases(
            places=all_places,
            table_buckets=table_buckets.TableBuckets(
                store=store,
                namespaces=namespaces,
                referrers=referrers.Referrers(store=store, files=files),
                region=region,
                seeds=seeds,
            ),
            replays=all_replays,
            clones=all_schema_clones,
        ),
        warehouses=warehouses.Warehouses(
            index=store.index, access=access, replays=all_replays, now_ms=store.now_ms
        ),
        numbering=numbering.Numbering(
            places=all_places, sequences=all_sequences, replays=all_replays
        ),
        alterations=alterations.Alterations(
            places=all_places,
            tables=tables,
            replays=all_replays,
            defaults=column_defaults,
            foreign_keys=references,
            stages=all_stages,
            backfills=backfills.Backfills(
                readers=table_readers,
                relations=read,
                planning=plans,
                writes=written,
                replacements=all_replacements,
                now_ms=store.now_ms,
            ),
        ),
        transactions=all_transactions,
        views=views.ViewStatements(
            planning=plans,
            places=all_places,
            views=catalog_views,
            replays=replays.Replays(store=store),
        ),
        staged_reads=reads,
        staged_statements=staged_statements.StagedStatements(
            stages=all_stages,
            loading=loading.Loading(
                engine=engine,
                compiler=reading,
                store=store,
                places=all_places,
                planning=plans,
                defaults=column_defaults,
                stages=all_stages,
                reads=reads,
                writes=written,
                transactions=all_transactions,
            ),
            unloading=unloading.Unloading(
                engine=engine,
                compiler=reading,
                planning=plans,
                stages=all_stages,
                blobs=storage.blobs,
                disk=storage.disk,
                scratch=storage.path / "tmp",
                new_id=store.new_id,
            ),
        ),
        roles=all_roles,
        accounts=all_accounts,
        user_tokens=user_tokens.UserTokens(iam=iam, roles=all_roles, replays=all_replays),
        ddl_texts=ddl_texts.DdlTexts(places=all_places, described=described),
        granting=granting.Granting(
            iam=iam,
            places=all_places,
            accounts=all_accounts,
            roles=all_roles,
            replays=all_replays,
        ),
        now_ms=store.now_ms,
        about=statements.About(version=version, region=region),
        spark=spark,
    )
    return SqlEngines(
        statements=all_statements,
        engine=engine,
        spark=tuple((spark or {}).values()),
        compiler=reading,
        transactions=all_transactions,
        stages=all_stages,
        temporary=all_temporary,
    )
