"""engine: resolves a statement's names to databases, schemas and tables, with the caller's rights.

A statement looks up all its names in one `CatalogView`, which reads the index in one transaction,
so the statement sees all or nothing of each commit. A missing object and one that the caller may
not see give the same error (002003), whose message names the last part of the name that the caller
may see.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from catalog import access as catalog_access
from catalog import departures, idents, owners, records, rights, sequences, table_buckets
from catalog import errors as catalog_errors
from catalog import store as catalog_store
from jobs import visibility
from server.access import arns
from server.access import errors as access_errors
from server.access import model as access_model
from sql import errors, limits, sessions, temporary_names
from sql.dialect import names
from storage import batch

INFORMATION_SCHEMA = "information_schema"


@dataclass(frozen=True, kw_only=True, slots=True)
class Schema:
    """A schema that a name refers to. namespace is empty for INFORMATION_SCHEMA."""

    database: str
    name: str
    namespace: idents.Namespace


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedTable:
    """A table that a name refers to. pointer: as of the view; the table may have no metadata."""

    ident: idents.TableIdent
    pointer: records.Pointer

    @property
    def is_temporary(self) -> bool:
        return temporary_names.is_temporary(self.ident)


@dataclass(frozen=True, kw_only=True, slots=True)
class SchemaContents:
    """All that a schema holds, whether or not the caller may read it.

    sequences: their stored rows, by name.
    """

    properties: Mapping[str, str]
    tables: tuple[NamedTable, ...]
    views: tuple[NamedTable, ...]
    sequences: Mapping[str, Any]


class Places:
    """Resolves names against the catalog. Stateless."""

    def __init__(self, *, store: catalog_store.CatalogStore, access: catalog_access.Access) -> None:
        self._store = store
        self._access = access

    async def refresh_mounts(self, text: str, session: sessions.Session) -> None:
        """List the mounts again that a statement may name."""
        if self._store.mounts is not None:
            await self._store.mounts.refresh_named(text, session.database)

    def check_drop(
        self,
        principal: access_model.Principal,
        table: NamedTable,
        *,
        actions: Sequence[str] = rights.DROP_ACTIONS,
    ) -> None:
        """Raise SqlError 003001 unless principal may drop a table of a schema that is dropped."""
        demands = self._access.on_object(table.ident, table.pointer.object_uuid, actions)
        try:
            self._access.check(principal, demands)
        except access_errors.AccessDenied:
            raise errors.not_authorized(
                f"{principal.arn} is not authorized to drop every table of schema"
                f" {idents.dotted(table.ident.namespace)}"
            ) from None

    def judge_namespace(
        self,
        principal: access_model.Principal,
        database: str,
        namespace: idents.Namespace,
        action: str,
    ) -> owners.Recheck:
        """Return the check that principal is still allowed an action on a schema."""
        demands = (self._access.on_namespace(database, namespace, action),)
        return self._rejudge_demands(principal, demands)

    def is_mount(self, database: str) -> bool:
        """Return whether a database is that of another catalog."""
        return self._store.is_mount(database)

    def bucket_arn(self, database: str) -> str:
        """Return the ARN of a database's table bucket."""
        return self._access.bucket_arn(database)

    def ident_of(self, database: str, object_uuid: str) -> idents.TableIdent | None:
        """Return the present name of a table or view; None if it is gone."""
        try:
            place = self._store.place(database)
            with self._store.view() as view:
                name = self._store.name_of_object(view, place, object_uuid)
                if name is None:
                    return None
                namespace = self._store.namespace_of(view, place, name.namespace_id)
        except (catalog_errors.CatalogError, ValueError):
            return None
        return idents.TableIdent(table_bucket=database, namespace=namespace, name=name.name)

    def judge_database(
        self, principal: access_model.Principal, database: str, actions: Sequence[str]
    ) -> owners.Recheck:
        """Return the check that principal is still allowed actions on a database."""
        return self._judge_demands(
            principal, [self._access.on_bucket(database, action) for action in actions]
        )

    def judge_new_database(
        self, principal: access_model.Principal, database: str
    ) -> owners.Recheck:
        """Return the check that principal may create a database."""
        arn = arns.table_bucket_arn(self._access.region, principal.account_id, database)
        demand = rights.demand("CreateTableBucket", rights.of_bucket(arn))
        return self._judge_demands(principal, [demand])

    def _judge_demands(
        self, principal: access_model.Principal, demands: Sequence[access_model.Demand]
    ) -> owners.Recheck:
        def check() -> None:
            with refused_as_sql():
                self._access.check(principal, demands)

        return check

    def _rejudge_demands(
        self, principal: access_model.Principal, demands: Sequence[access_model.Demand]
    ) -> owners.Recheck:
        def check() -> None:
            with refused_as_sql():
                self._access.recheck(principal, demands)

        return check

    def judge_new_name(
        self, principal: access_model.Principal, ident: idents.TableIdent
    ) -> owners.Recheck:
        """Return the check that principal may still give a table or view this name."""
        demands = self._access.on_new_table(ident)[:1]
        return self._rejudge_demands(principal, demands)

    def judge(self, principal: access_model.Principal, actions: Sequence[str]) -> owners.Judge:
        """Return the check that principal may do actions with a table, or create it.

        A session may do everything with its temporary tables, and finds no other ones.
        """
        check_access = self._access.judge(principal, actions)

        def check(
            place: records.Place, ident: idents.TableIdent, pointer: records.Pointer | None
        ) -> None:
            if temporary_names.is_temporary(ident):
                return
            with refused_as_sql():
                check_access(place, ident, pointer)

        return check

    def judge_rename(
        self, principal: access_model.Principal, target: idents.TableIdent
    ) -> owners.Judge:
        """Return the check that principal may rename a table to target."""
        judge_source = self.judge(principal, ("RenameTable",))
        naming = self._access.on_new_table(target)[:1]

        def check(
            place: records.Place, ident: idents.TableIdent, pointer: records.Pointer | None
        ) -> None:
            judge_source(place, ident, pointer)
            if temporary_names.is_temporary(target):
                return
            with refused_as_sql():
                self._access.recheck(principal, naming)

        return check

    def permit(self, principal: access_model.Principal, database: str) -> owners.Permit:
        """Return the check that principal may have a location of a database."""
        check_access = self._access.permit(principal, database)

        def check(path: str, owner: owners.LocationOwner | None) -> None:
            with refused_as_sql():
                check_access(path, owner)

        return check

    def judge_undrop(
        self, principal: access_model.Principal, *, missing: errors.SqlError
    ) -> owners.Undrop:
        """Return the check that principal may restore a table.

        missing: the error for one who may not know what the schema holds.
        """
        check_access = self._access.judge_undrop(principal)

        def check(
            place: records.Place,
            ident: idents.TableIdent,
            target: idents.TableIdent,
            pointer: records.Pointer,
        ) -> None:
            try:
                check_access(place, ident, target, pointer)
            except access_errors.AccessDenied as denied:
                listing = self._access.on_namespace(
                    ident.table_bucket, ident.namespace, "ListTables"
                )
                if not self._access.permits(principal, (listing,)):
                    raise missing from None
                raise errors.not_authorized(str(denied)) from None

        return check

    def judge_sequence(
        self, principal: access_model.Principal, *demanded: tuple[idents.TableIdent, str]
    ) -> owners.Recheck:
        """Return the check that principal is allowed actions, each on the sequence beside it.

        For policies a sequence is a table of its name without a uuid.
        """
        demands = [
            demand
            for ident, action in demanded
            for demand in self._access.on_sequence(ident, action)
        ]

        return self._judge_demands(principal, demands)

    @contextmanager
    def view(
        self, principal: access_model.Principal, *, temporary_bucket: str | None = None
    ) -> Iterator[CatalogView]:
        """Open one statement's view of the catalog. The caller awaits nothing while it is open.

        temporary_bucket: of the session whose temporary tables the statement meets.
        """
        with self._store.view() as reading:
            yield CatalogView(
                store=self._store,
                access=self._access,
                principal=principal,
                reading=reading,
                temporary_bucket=temporary_bucket,
            )

    def view_of(self, session: sessions.Session) -> AbstractContextManager[CatalogView]:
        """Open the view of a session's statement, which meets the session's temporary tables."""
        return self.view(session.principal, temporary_bucket=session.temporary_bucket)


@contextmanager
def refused_as_sql() -> Iterator[None]:
    """Raise a refusal of access control as SqlError 003001."""
    try:
        yield
    except access_errors.AccessDenied as denied:
        raise errors.not_authorized(str(denied)) from None


@dataclass(frozen=True, kw_only=True, slots=True)
class DroppedSchema:
    """A dropped namespace that can be restored. row: as it was."""

    namespace: idents.Namespace
    row: records.NamespaceRow
    dropped_at_ms: int


class CatalogView:
    """The catalog at one moment, limited to what one principal may see."""

    def __init__(
        self,
        *,
        store: catalog_store.CatalogStore,
        access: catalog_access.Access,
        principal: access_model.Principal,
        reading: batch.Reading,
        temporary_bucket: str | None = None,
    ) -> None:
        self._temporary_bucket = temporary_bucket
        self._store = store
        self._access = access
        self._principal = principal
        self._reading = reading

    # Listings, filtered by what the caller may see

    def databases(self) -> list[str]:
        """Return the table buckets that the caller may see, in byte order."""
        return [name for name in self._table_buckets() if self._may_know_database(name)]

    def schemas(self, database: str) -> list[idents.Namespace]:
        """Return all namespaces of a database, at any depth, that the caller may see."""
        if not self._permits(self._access.on_bucket(database, "ListNamespaces")):
            return []
        return [
            namespace
            for namespace in sorted(self._namespaces(database))
            if self._permits(self._access.on_namespace(database, namespace, "GetNamespace"))
        ]

    def dropped_schemas(self, database: str) -> Iterator[DroppedSchema]:
        """Yield the dropped namespaces of a database that UNDROP can restore and the caller may
        see, each path's in the order of their drops."""
        place = self._place(database)
        if place is None or not self._permits(self._access.on_bucket(database, "ListNamespaces")):
            return
        prefix = records.dropped_namespace_range(place)
        rows = self._reading.scan(batch.Store.POINTERS, prefix, records.stop_after(prefix))
        for _, value in rows:
            dropped = records.decode(value, records.DroppedNamespace)
            namespace, row = dropped.namespaces[0]
            demand = self._access.on_namespace(database, namespace, "GetNamespace")
            if self._permits(demand):
                yield DroppedSchema(
                    namespace=namespace, row=row, dropped_at_ms=dropped.dropped_at_ms
                )

    def dropped_tables(
        self, database: str, namespace: idents.Namespace
    ) -> Iterator[tuple[NamedTable, int]]:
        """Yield the dropped tables of a namespace that UNDROP can restore, and when they were
        dropped, in Unix milliseconds; none unless the caller may list the tables."""
        place = self._place(database)
        demand = self._access.on_namespace(database, namespace, "ListTables")
        if place is None or not self._permits(demand):
            return
        namespace_id = self._store.namespace_id(self._reading, place, namespace)
        if not namespace_id:
            return
        prefix = records.dropped_range(place, namespace_id)
        rows = self._reading.scan(batch.Store.POINTERS, prefix, records.stop_after(prefix))
        for key, value in rows:
            dropped = records.decode(value, records.Dropped)
            if dropped.pointer.object_type != "table" or dropped.how != "drop":
                continue
            ident = idents.TableIdent(
                table_bucket=database, namespace=namespace, name=records.dropped_name(key)[1]
            )
            yield NamedTable(ident=ident, pointer=dropped.pointer), dropped.dropped_at_ms

    def lists_schema(self, database: str, namespace: idents.Namespace) -> bool:
        """Return whether a namespace is among `schemas`, without listing them."""
        place = self._place(database)
        return (
            place is not None
            and self._store.find_namespace(self._reading, place, namespace) is not None
            and self._permits(self._access.on_bucket(database, "ListNamespaces"))
            and self._permits(self._access.on_namespace(database, namespace, "GetNamespace"))
        )

    def tables(
        self,
        database: str,
        namespace: idents.Namespace,
        object_type: idents.PointerType = "table",
    ) -> list[idents.TableIdent]:
        """Return the tables, or views, of a namespace that the caller may list, in byte order.

        The session's temporary tables come last.
        """
        listed: list[idents.TableIdent] = []
        if self._permits(self._access.on_namespace(database, namespace, "ListTables")):
            listed = [
                idents.TableIdent(table_bucket=database, namespace=namespace, name=name)
                for name in self._table_names(database, namespace, object_type=object_type)
            ]
        if object_type == "view" or self._temporary_bucket is None:
            return listed
        home = temporary_names.namespace(database, idents.dotted(namespace))
        bucket = self._temporary_bucket
        return listed + [
            idents.TableIdent(table_bucket=bucket, namespace=home, name=name)
            for name in self._table_names(bucket, home)
        ]

    def find(
        self, ident: idents.TableIdent, object_type: idents.PointerType = "table"
    ) -> NamedTable | None:
        """Return a table, or an Iceberg view, by its stored name."""
        place = self._place(ident.table_bucket)
        row = None
        if place is not None:
            row = self._store.find_pointer(self._reading, place, object_type, ident)
        return None if row is None else NamedTable(ident=ident, pointer=row.pointer)

    def whole_schema(self, schema: Schema, *, most: int) -> SchemaContents:
        """Return all that a schema holds; its tables have no temporary ones among them.

        Raises SqlError 003001 unless the caller may list its tables; 000625 for more than most
        tables and views.
        """
        self.check((self._access.on_namespace(schema.database, schema.namespace, "ListTables"),))
        place = self._place(schema.database)
        row = None
        if place is not None:
            row = self._store.find_namespace(self._reading, place, schema.namespace)
        if place is None or row is None:
            raise _no_schema(names.shown_database(schema.database), names.Ident(text=schema.name))
        held: dict[str, tuple[NamedTable, ...]] = {}
        object_types: tuple[idents.PointerType, ...] = ("table", "view")
        for object_type in object_types:
            listed = self._store.names(
                self._reading, place, object_type, row.row.namespace_id, limit=most + 1
            )
            entries = [
                self.find(
                    idents.TableIdent(
                        table_bucket=schema.database, namespace=schema.namespace, name=name
                    ),
                    object_type,
                )
                for name in listed
            ]
            held[object_type] = tuple(each for each in entries if each is not None)
        if len(held["table"]) + len(held["view"]) > most:
            raise errors.too_complex(f"a schema has more than {most:,} tables and views")
        return SchemaContents(
            properties=row.row.properties,
            tables=held["table"],
            views=held["view"],
            sequences=sequences.stored_rows(self._reading, place.bucket_id, row.row),
        )

    def has_nested_schemas(self, schema: Schema) -> bool:
        """Return whether a schema has others below it, visible or hidden."""
        place = self._place(schema.database)
        if place is None:
            return False
        row = self._store.find_namespace(self._reading, place, schema.namespace)
        if row is None:
            return False
        prefix = records.pointer_range(place, "namespace", row.row.namespace_id)
        below = self._reading.scan(batch.Store.POINTERS, prefix, records.stop_after(prefix))
        return any(True for _ in below)

    def all_schemas(self, database: str) -> list[Schema]:
        """Return the schemas of a database, parents before their children.

        Raises SqlError 003001 unless the caller may list and see all of them.
        """
        self.check((self._access.on_bucket(database, "ListNamespaces"),))
        namespaces = sorted(self._namespaces(database))
        self.check(
            [self._access.on_namespace(database, each, "GetNamespace") for each in namespaces]
        )
        return [
            Schema(database=database, name=idents.dotted(each), namespace=each)
            for each in namespaces
        ]

    def sees_all_statements(self) -> bool:
        """Return whether the caller sees the statements of all users: who administers all."""
        return self._access.permits(self._principal, (visibility.ADMIN,))

    def may_describe(self, table: NamedTable) -> bool:
        """Return whether the caller may load a table; else it may know its name and times alone."""
        if table.is_temporary:
            return True
        return self._access.permits(self._principal, self._demands(table, rights.LOAD_ACTIONS))

    def created_at_ms(self, database: str, namespace: idents.Namespace = ()) -> int:
        """Return when a table bucket, or a namespace in it, was created; 0 if it does not exist."""
        place = self._place(database)
        if place is None:
            return 0
        if not namespace:
            return place.bucket.created_at_ms
        row = self._store.find_namespace(self._reading, place, namespace)
        return 0 if row is None else row.row.created_at_ms

    def comment(self, database: str, namespace: idents.Namespace = ()) -> str:
        """Return the comment of a database, or of a schema, where it is a property."""
        place = self._place(database)
        if place is None:
            return ""
        if not namespace:
            return str(place.bucket.settings.get(table_buckets.COMMENT, ""))
        row = self._store.find_namespace(self._reading, place, namespace)
        return "" if row is None else row.row.properties.get("comment", "")

    def dropped_table_days(self, database: str) -> int:
        """Return for how many days a database keeps a table that is dropped."""
        place = self._place(database)
        return departures.dropped_table_days({} if place is None else place.bucket.settings)

    # Names. Resolving a name checks no right; callers check the rights of what they then do.

    def database(self, ident: names.Ident) -> str:
        """Return the table bucket that ident refers to; raises SqlError 002003."""
        database = self._find_database(ident)
        if database is None:
            raise _no_database(ident.folded)
        return database

    def schema(self, name: names.Name, *, database: str | None, exactly: bool) -> Schema:
        """Return the schema that a name of one or two parts refers to; raises SqlError.

        database: the session's. exactly: as for `find_table`.
        """
        ident = name[-1]
        if len(name) == 2:
            database = self._find_database(name[0])
            if database is None:
                raise self.hidden(name, database=None)
        if database is None:
            raise errors.no_current_database()
        if names.find(ident, [INFORMATION_SCHEMA]):
            if len(name) == 2 and not self._may_know_database(database):
                raise self.hidden(name, database=database)
            return Schema(database=database, name=INFORMATION_SCHEMA, namespace=())
        namespace = self._find_namespace(database, ident, exactly=exactly)
        if namespace is None:
            raise self.hidden(name, database=database)
        return Schema(database=database, name=idents.dotted(namespace), namespace=namespace)

    def schema_of(
        self, name: names.Name, *, database: str | None, schema: str | None, exactly: bool
    ) -> Schema:
        """Return the schema in which a table's name lies; database and schema: the session's.

        exactly: as for `find_table`.
        """
        if len(name) > 1:
            return self.schema(name[:-1], database=database, exactly=exactly)
        if database is None:
            raise errors.no_current_database()
        if schema is None:
            raise errors.no_current_schema()
        namespace = () if schema == INFORMATION_SCHEMA else tuple(schema.split("."))
        return Schema(database=database, name=schema, namespace=namespace)

    def has_schema(self, database: str, ident: names.Ident) -> bool:
        """Return whether a database has a schema of exactly that name, visible or hidden."""
        is_information = bool(names.find(ident, [INFORMATION_SCHEMA]))
        return is_information or self._find_namespace(database, ident, exactly=True) is not None

    def find_table(
        self,
        place: Schema,
        ident: names.Ident,
        *,
        object_type: idents.PointerType = "table",
        exactly: bool = False,
        only_lasting: bool = False,
    ) -> NamedTable | None:
        """Return the table, or the Iceberg view, that ident refers to in a schema, or None.

        A temporary table of the session hides a lasting one. exactly: an unquoted ident does not
        refer to a name that is stored in mixed case. Statements that change something look names
        up so, because for them such a name is another one. only_lasting: no temporary table is
        meant.
        """
        if object_type == "table" and not only_lasting:
            temporary = self.find_temporary(place, ident, exactly=exactly)
            if temporary is not None:
                return temporary
        for spelling in names.spellings(ident):
            table = self.find(
                idents.TableIdent(
                    table_bucket=place.database, namespace=place.namespace, name=spelling
                ),
                object_type,
            )
            if table is not None:
                return table
        if ident.quoted or exactly:
            return None
        stored = self._table_names(
            place.database, place.namespace, limits.NAMES_COMPARED_MAX, object_type
        )
        positions = names.find(ident, stored)
        if not positions:
            return None
        return self.find(
            idents.TableIdent(
                table_bucket=place.database,
                namespace=place.namespace,
                name=stored[positions[0]],
            ),
            object_type,
        )

    def find_temporary(
        self, place: Schema, ident: names.Ident, *, exactly: bool = False
    ) -> NamedTable | None:
        """Return the session's temporary table that ident refers to in a schema, or None."""
        if self._temporary_bucket is None or not self._has_namespace(place):
            return None
        home = temporary_names.namespace(place.database, place.name)
        within = Schema(database=self._temporary_bucket, name=home[0], namespace=home)
        return self.find_table(within, ident, exactly=exactly, only_lasting=True)

    def count_temporary(self, place: Schema) -> int:
        """Return the number of the session's temporary tables in a schema."""
        if self._temporary_bucket is None:
            return 0
        home = temporary_names.namespace(place.database, place.name)
        return len(self._table_names(self._temporary_bucket, home))

    def _has_namespace(self, place: Schema) -> bool:
        stored = self._place(place.database)
        return (
            stored is not None
            and self._store.find_namespace(self._reading, stored, place.namespace) is not None
        )

    def find_object(
        self, place: Schema, ident: names.Ident, *, only_lasting: bool = False
    ) -> NamedTable | None:
        """Return the table or view that CREATE or DROP of ident refers to in a schema, or None.

        Tables and views have one space of names. only_lasting: no temporary table is meant.
        """
        table = self.find_table(place, ident, exactly=True, only_lasting=only_lasting)
        return table or self.find_table(place, ident, object_type="view", exactly=True)

    def table(
        self,
        name: names.Name,
        *,
        database: str | None,
        schema: str | None,
        exactly: bool,
        actions: Sequence[str] = rights.READ_ACTIONS,
    ) -> NamedTable:
        """Return a table, if the caller may do actions with it. exactly: as for `find_table`.

        Raises SqlError 002003 for a table that does not exist, or that the caller may neither list
        nor use; 003001 for one that the caller may list, without the right to these actions.
        """
        table = self.relation(
            name, database=database, schema=schema, exactly=exactly, actions=actions
        )
        if table.pointer.object_type == "view":
            raise errors.of_other_type("VIEW", "TABLE")
        return table

    def relation(
        self,
        name: names.Name,
        *,
        database: str | None,
        schema: str | None,
        exactly: bool,
        actions: Sequence[str] = rights.READ_ACTIONS,
        only_lasting: bool = False,
    ) -> NamedTable:
        """Return a table or a view; its pointer says which. Raises SqlError as `table` does.

        actions: with a table. A view has no data, so reading one takes the right to load it.
        exactly, only_lasting: as for `find_table`.
        """
        place = self.schema_of(name, database=database, schema=schema, exactly=exactly)
        missing = self.no_table(place, name)
        table = self.find_table(place, name[-1], exactly=exactly, only_lasting=only_lasting)
        if table is None:
            view = self.find_table(place, name[-1], object_type="view", exactly=exactly)
            if view is None:
                raise missing
            needed = rights.LOAD_ACTIONS if tuple(actions) == rights.READ_ACTIONS else actions
            self.check_table(view, needed, missing=missing)
            return view
        self.check_table(table, actions, missing=missing)
        if table.pointer.metadata_location is None:
            raise errors.unsupported(f"table {names.dotted(name)}, which has no metadata yet")
        return table

    def visible_database(self, ident: names.Ident) -> str:
        """Return the table bucket that ident refers to. Raises SqlError 002003 if it is hidden."""
        database = self.database(ident)
        if not self._may_know_database(database):
            raise _no_database(ident.folded)
        return database

    def visible_schema(self, name: names.Name, *, database: str | None, exactly: bool) -> Schema:
        """Return the schema that a name refers to. Raises SqlError 002003 if it is hidden.

        exactly: as for `find_table`.
        """
        place = self.schema(name, database=database, exactly=exactly)
        if place.namespace:
            demand = self._access.on_namespace(place.database, place.namespace, "GetNamespace")
            visible = self._permits(demand)
        else:
            visible = self._may_know_database(place.database)
        if not visible:
            raise self.hidden(name, database=place.database)
        return place

    # Errors for what is absent or hidden: both get the same one

    def hidden(self, name: names.Name, *, database: str | None) -> errors.SqlError:
        """Return the error of a schema's name, absent or hidden. database: None if absent."""
        ident = name[-1]
        if len(name) == 1:
            return _no_schema(names.shown_database(database or ""), ident)
        wanted = names.table_bucket_of(name[0]) if database is None else database
        shown = name[0].folded
        namespace = tuple(ident.stored.split("."))
        if self._may_know_schema(wanted, namespace) or self._may_know_database(wanted):
            return _no_database(shown) if database is None else _no_schema(shown, ident)
        return _no_database(shown)

    def no_table(
        self, place: Schema, name: names.Name, *, object_type: str = "Object"
    ) -> errors.SqlError:
        """Return the error of a table's name in a schema, absent or hidden."""
        is_visible = self._may_know_schema(place.database, place.namespace)
        if len(name) == 1 or is_visible or not place.namespace:
            return errors.does_not_exist(object_type, names.dotted(name))
        return self.hidden(name[:-1], database=place.database)

    def _may_know_database(self, database: str) -> bool:
        return self._permits(self._access.on_bucket(database, "GetTableBucket"))

    def _may_know_schema(self, database: str, namespace: idents.Namespace) -> bool:
        return any(
            self._permits(self._access.on_namespace(database, namespace, action))
            for action in ("GetNamespace", "ListTables")
        )

    # Rights

    def check(self, demands: Sequence[access_model.Demand]) -> None:
        """Raise SqlError 003001 unless the caller has all demanded permissions."""
        with refused_as_sql():
            self._access.check(self._principal, demands)

    def check_database(self, ident: names.Ident, database: str, actions: Sequence[str]) -> None:
        """Raise SqlError unless the caller may do actions; 002003 for a hidden database."""
        try:
            self.check([self._access.on_bucket(database, action) for action in actions])
        except errors.SqlError:
            if not self._may_know_database(database):
                raise _no_database(ident.folded) from None
            raise

    def check_new_schema(self, name: names.Name, database: str) -> None:
        """Raise SqlError unless the caller may create a schema of this name."""
        namespace = tuple(name[-1].stored.split("."))
        try:
            self.check((self._access.on_namespace(database, namespace, "CreateNamespace"),))
        except errors.SqlError:
            is_visible = self._may_know_database(database) or self._may_know_schema(
                database, namespace
            )
            if len(name) == 2 and not is_visible:
                raise _no_database(name[0].folded) from None
            raise

    def check_schema(self, name: names.Name, place: Schema, action: str) -> None:
        """Raise SqlError unless the caller may do action; 002003 if the schema is hidden."""
        try:
            self.check((self._access.on_namespace(place.database, place.namespace, action),))
        except errors.SqlError:
            if not self._may_know_schema(place.database, place.namespace):
                raise self.hidden(name, database=place.database) from None
            raise

    def check_table(
        self, table: NamedTable, actions: Sequence[str], *, missing: errors.SqlError
    ) -> None:
        """Raise SqlError 003001 unless the caller may do actions; missing for a hidden table."""
        if table.is_temporary:
            return
        try:
            self.check(self._demands(table, actions))
        except errors.SqlError:
            ident = table.ident
            listing = self._access.on_namespace(ident.table_bucket, ident.namespace, "ListTables")
            if not self._permits(listing):
                raise missing from None
            raise

    def check_sequence(
        self, ident: idents.TableIdent, action: str, *, missing: errors.SqlError
    ) -> None:
        """Raise SqlError 003001 unless the caller may do action; missing for a hidden sequence."""
        try:
            self.check(self._access.on_sequence(ident, action))
        except errors.SqlError:
            if not self.lists_sequences(ident.table_bucket, ident.namespace):
                raise missing from None
            raise

    def check_new_sequence(
        self, ident: idents.TableIdent, action: str, *, missing: errors.SqlError | None
    ) -> None:
        """Raise SqlError 003001 unless the caller may create a sequence.

        missing: raised instead if the sequence's schema is hidden.
        """
        self._check_new(ident, self._access.on_sequence(ident, action), missing=missing)

    def lists_sequences(self, database: str, namespace: idents.Namespace) -> bool:
        """Return whether the caller may list a schema's sequences, as it may list its tables."""
        return self._permits(self._access.on_namespace(database, namespace, "ListTables"))

    def may_describe_sequence(self, ident: idents.TableIdent) -> bool:
        """Return whether the caller may know more of a sequence than its name and times."""
        return self._access.permits(
            self._principal, self._access.on_sequence(ident, rights.LOAD_ACTIONS[0])
        )

    def check_new_table(
        self, ident: idents.TableIdent, *, missing: errors.SqlError | None = None
    ) -> None:
        """Raise SqlError 003001 unless the caller may create a table.

        missing: raised instead if the table's schema is hidden.
        """
        self._check_new(ident, self._access.on_new_table(ident), missing=missing)

    def _check_new(
        self,
        ident: idents.TableIdent,
        demands: Sequence[access_model.Demand],
        *,
        missing: errors.SqlError | None,
    ) -> None:
        try:
            self.check(demands)
        except errors.SqlError:
            if missing is not None and not self._may_know_schema(
                ident.table_bucket, ident.namespace
            ):
                raise missing from None
            raise

    def check_new_temporary(self, place: Schema, *, missing: errors.SqlError) -> None:
        """Raise missing unless the caller may see a schema: a temporary table needs no more."""
        if not self._has_namespace(place):
            raise missing
        if not self._may_know_schema(place.database, place.namespace):
            raise missing

    def check_new_name(
        self, ident: idents.TableIdent, *, missing: errors.SqlError | None = None
    ) -> None:
        """Raise SqlError 003001 unless the caller may give a table or view this name.

        missing: raised instead if the schema of the name is hidden.
        """
        self._check_new(ident, self._access.on_new_table(ident)[:1], missing=missing)

    def _demands(
        self, table: NamedTable, actions: Sequence[str]
    ) -> tuple[access_model.Demand, ...]:
        return self._access.on_object(table.ident, table.pointer.object_uuid, actions)

    def _permits(self, demand: access_model.Demand) -> bool:
        return self._access.permits(self._principal, (demand,))

    # Rows

    def _table_buckets(self) -> list[str]:
        stored = [
            info.name for info in self._store.buckets.list(self._reading) if info.type == "table"
        ]
        mounts = self._store.mounts
        return stored if mounts is None else sorted({*stored, *mounts.names})

    def _find_database(self, ident: names.Ident) -> str | None:
        stored = self._table_buckets()
        database = names.find_database(ident, stored)
        if database is not None:
            self._check_listed(database)
        return database

    def _check_listed(self, database: str) -> None:
        """Raise MountUnavailable for a mount whose names could not be listed yet."""
        mount = None if self._store.mounts is None else self._store.mounts.find(database)
        if mount is not None:
            mount.check_listed()

    def _place(self, database: str) -> records.Place | None:
        try:
            return self._store.place(database, self._reading)
        except catalog_errors.NoSuchWarehouse:
            return None

    def _table_names(
        self,
        database: str,
        namespace: idents.Namespace,
        names_max: int | None = None,
        object_type: idents.PointerType = "table",
    ) -> list[str]:
        place = self._place(database)
        if place is None or not namespace:
            return []
        row = self._store.find_namespace(self._reading, place, namespace)
        if row is None:
            return []
        return self._store.names(
            self._reading, place, object_type, row.row.namespace_id, limit=names_max
        )

    def _find_namespace(
        self, database: str, ident: names.Ident, *, exactly: bool = False
    ) -> idents.Namespace | None:
        place = self._place(database)
        if place is None:
            return None
        self._check_listed(database)
        for spelling in names.spellings(ident):
            namespace = tuple(spelling.split("."))
            if self._store.find_namespace(self._reading, place, namespace) is not None:
                return namespace
        if exactly:
            return None
        stored = sorted(itertools.islice(self._namespaces(database), limits.NAMES_COMPARED_MAX))
        positions = names.find(ident, [idents.dotted(namespace) for namespace in stored])
        return stored[positions[0]] if positions else None

    def _namespaces(self, database: str) -> Iterator[idents.Namespace]:
        """Yield every namespace of a database, parents before their children."""
        place = self._place(database)
        if place is None:
            return
        waiting: list[tuple[idents.Namespace, int]] = [((), records.ROOT_NAMESPACE_ID)]
        while waiting:
            above, namespace_id = waiting.pop()
            prefix = records.pointer_range(place, "namespace", namespace_id)
            rows = self._reading.scan(batch.Store.POINTERS, prefix, records.stop_after(prefix))
            for key, value in rows:
                namespace = (*above, records.name_of(key))
                row = records.decode(value, records.NamespaceRow)
                waiting.append((namespace, row.namespace_id))
                yield namespace


def _no_database(shown: str) -> errors.SqlError:
    return errors.does_not_exist("Database", shown)


def _no_schema(database_shown: str, ident: names.Ident) -> errors.SqlError:
    return errors.does_not_exist("Schema", f"{database_shown}.{ident.folded}")
