"""face: the native API's drops: of tables, views and whole namespaces, and what can be restored.

A drop with `dry_run` changes nothing; it needs the rights of the drop, and answers with the files
and bytes that the drop would take away. With `purge` the next sweep frees them, else they are kept
for the time that the table bucket's setting says.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from catalog import departures, drops, errors, idents, namespaces, records, rights
from server import asgi, calls, native
from server.access import errors as access_errors

if TYPE_CHECKING:
    from catalog.rest.native import TablesServices


async def drop_table(services: TablesServices, call: calls.Call) -> asgi.Response:
    """Drop a table or view, or answer what a drop would take away."""
    ident, object_type = named(call), _type_of(call)
    purge, dry_run = flag(call, "purge"), flag(call, "dry_run")
    if purge and object_type == "view":
        raise errors.InvalidCatalogRequest("a view has no files to purge")
    actions = rights.PURGE_ACTIONS if purge else rights.DROP_ACTIONS
    access = services.access
    access.check(call.principal, access.on_table(ident, actions, object_type=object_type))
    engine = services.tables if object_type == "table" else services.views
    pointer = engine.pointer(ident)
    counted = await services.drops.measure(ident.table_bucket, [pointer])
    is_purge = _is_purge(services, ident.table_bucket, purge=purge)
    if not dry_run:
        judge = access.judge(call.principal, actions)
        by, seen = call.principal.arn, pointer
        if object_type == "table":
            pointer = await services.tables.drop(
                ident, purge=purge, by=by, via="native", judge=judge
            )
        else:
            pointer = await services.views.drop(ident, by=by, via="native", judge=judge)
        if pointer != seen:  # another table has the name, or this one has more files
            counted = await services.drops.measure(ident.table_bucket, [pointer])
    return asgi.json_response(
        _answer(dry_run, is_purge, counted, namespaces=[], items=[(ident, pointer)])
    )


async def drop_namespace(services: TablesServices, call: calls.Call) -> asgi.Response:
    """Drop a namespace with everything in it, or answer what that would take away."""
    table_bucket = call.value["warehouse"]
    namespace = levels_of(native.parameters_of(call).get("namespace", ""), "namespace")
    purge, dry_run = flag(call, "purge"), flag(call, "dry_run")
    access, principal = services.access, call.principal
    access.check(principal, (access.on_namespace(table_bucket, namespace, "DeleteNamespace"),))

    def check(ident: idents.TableIdent, pointer: records.Pointer) -> None:
        is_purged = purge and pointer.object_type == "table"
        actions = rights.PURGE_ACTIONS if is_purged else rights.DROP_ACTIONS
        try:
            access.check(principal, access.on_object(ident, pointer.object_uuid, actions))
        except access_errors.AccessDenied as error:
            raise _refusal(services, call, error, ident, of=namespace, verb="drop") from None

    def check_child(child: idents.Namespace) -> None:
        access.check(principal, (access.on_namespace(table_bucket, child, "DeleteNamespace"),))

    contents = services.namespaces.contents(table_bucket, namespace)
    await namespaces.check_contents(contents, check=check, check_child=check_child)
    counted = await services.drops.measure(table_bucket, _pointers(contents))
    is_purge = _is_purge(services, table_bucket, purge=purge)
    if not dry_run:
        seen = contents
        contents = await services.namespaces.drop_whole(
            table_bucket,
            namespace,
            check=check,
            check_child=check_child,
            purge=purge,
            by=principal.arn,
            via="native",
            judge=access.rechecking(
                principal, (access.on_namespace(table_bucket, namespace, "DeleteNamespace"),)
            ),
        )
        if _pointers(contents) != _pointers(seen):
            counted = await services.drops.measure(table_bucket, _pointers(contents))
    return asgi.json_response(_answer_contents(dry_run, is_purge, counted, contents))


def _refusal(
    services: TablesServices,
    call: calls.Call,
    denied: access_errors.AccessDenied,
    ident: idents.TableIdent,
    *,
    of: idents.Namespace,
    verb: str,
) -> access_errors.AccessDenied:
    """Return the refusal of a table or view in a namespace that is dropped or restored whole.

    It names the table only to a caller who may list the tables of its own namespace.
    """
    listing = services.access.on_namespace(ident.table_bucket, ident.namespace, "ListTables")
    if services.access.permits(call.principal, (listing,)):
        return denied
    return access_errors.AccessDenied(
        f"{call.principal.arn} is not authorized to {verb} every table and view of namespace"
        f" {idents.dotted(of)}",
        action=denied.action,
        resource=listing.resource,
    )


async def undrop_table(services: TablesServices, call: calls.Call) -> asgi.Response:
    """Restore a dropped table or view."""
    parameters = native.parameters_of(call)
    ident, object_type = named(call), _type_of(call)
    target = None
    if parameters.get("to"):
        target = _ident(call.value["warehouse"], parameters["to"], "to")
    object_uuid = parameters.get("object_uuid") or None
    engine = services.tables if object_type == "table" else services.views
    access = services.access
    judge = access.judge_undrop(call.principal)
    try:
        engine.dropped(ident, object_uuid=object_uuid)
    except errors.NotRestorable:
        # Only who may list a namespace learns what is not there.
        listing = access.on_namespace(ident.table_bucket, ident.namespace, "ListTables")
        access.check(call.principal, (listing,))
        raise
    pointer = await engine.undrop(
        ident,
        object_uuid=object_uuid,
        target=target,
        by=call.principal.arn,
        permit=access.permit(call.principal, ident.table_bucket),
        judge=judge,
    )
    restored = ident if target is None else target
    return asgi.json_response(
        {
            "namespace": list(restored.namespace),
            "name": restored.name,
            "type": object_type,
            "object_uuid": pointer.object_uuid,
            "metadata_location": pointer.metadata_location,
        }
    )


async def undrop_namespace(services: TablesServices, call: calls.Call) -> asgi.Response:
    """Restore a dropped namespace with the tables and views that were dropped with it."""
    table_bucket, access, principal = call.value["warehouse"], services.access, call.principal
    namespace = levels_of(native.parameters_of(call).get("namespace", ""), "namespace")
    creation = access.on_namespace(table_bucket, namespace, "CreateNamespace")
    access.check(principal, (creation,))

    def judge_child(child: idents.Namespace) -> None:
        access.check(principal, (access.on_namespace(table_bucket, child, "CreateNamespace"),))

    judge_undrop = access.judge_undrop(principal)

    def judge_item(
        place: records.Place,
        ident: idents.TableIdent,
        target: idents.TableIdent,
        pointer: records.Pointer,
    ) -> None:
        try:
            judge_undrop(place, ident, target, pointer)
        except access_errors.AccessDenied as error:
            raise _refusal(services, call, error, ident, of=namespace, verb="restore") from None

    restored = await services.namespaces.undrop(
        table_bucket,
        namespace,
        by=principal.arn,
        permit=access.permit(principal, table_bucket),
        judge=access.rechecking(principal, (creation,)),
        judge_item=judge_item,
        judge_child=judge_child,
    )
    return asgi.json_response(
        {
            "namespaces": [list(each) for each in restored.namespaces],
            "tables": _items(restored.items),
            "missing": list(restored.missing),
        }
    )


async def list_dropped_namespaces(services: TablesServices, call: calls.Call) -> asgi.Response:
    """Answer which dropped namespaces can be restored."""
    table_bucket, access = call.value["warehouse"], services.access
    access.check(call.principal, (access.on_bucket(table_bucket, "ListNamespaces"),))

    def is_shown(namespace: idents.Namespace) -> bool:
        demand = access.on_namespace(table_bucket, namespace, "GetNamespace")
        return access.permits(call.principal, (demand,))

    page, following = await services.drops.namespaces(
        table_bucket, after=native.parameters_of(call).get("after", ""), is_shown=is_shown
    )
    return asgi.json_response(
        {
            "dropped": [
                {
                    "namespace": list(namespace),
                    "namespaces": len(dropped.namespaces),
                    "tables": len(dropped.objects),
                    "dropped_at_ms": dropped.dropped_at_ms,
                    "dropped_by": dropped.dropped_by,
                    "kept_until_ms": dropped.kept_until_ms,
                }
                for namespace, dropped in page
            ],
            "next": following or None,
        }
    )


async def list_dropped(services: TablesServices, call: calls.Call) -> asgi.Response:
    """Answer which dropped and unregistered tables and views are kept, with their files."""
    table_bucket, access = call.value["warehouse"], services.access
    access.check(call.principal, (access.on_bucket(table_bucket, "ListTables"),))

    def is_shown(ident: idents.TableIdent, pointer: records.Pointer) -> bool:
        demands = access.on_object(ident, pointer.object_uuid, ("GetTable",))
        return access.permits(call.principal, demands)

    page = await services.drops.page(
        table_bucket, after=native.parameters_of(call).get("after", ""), is_shown=is_shown
    )
    return asgi.json_response(
        {"dropped": [_describe(each) for each in page.kept], "next": page.next or None}
    )


async def discard_table(services: TablesServices, call: calls.Call) -> asgi.Response:
    """Give up a dropped table or view: the next sweep frees its files."""
    object_uuid = native.parameters_of(call).get("object_uuid", "")
    engine = services.tables if _type_of(call) == "table" else services.views
    access, table_bucket = services.access, call.value["warehouse"]
    actions = rights.PURGE_ACTIONS

    def judge(
        place: records.Place, ident: idents.TableIdent, pointer: records.Pointer | None
    ) -> None:
        assert pointer is not None, "what is given up has a pointer"
        # The request may spell the uuid in another way, and the ARN must be the table's.
        access.check(call.principal, access.on_object(ident, pointer.object_uuid, actions))

    try:
        dropped = await engine.discard(table_bucket, object_uuid, judge=judge)
    except errors.NotRestorable:
        access.check(call.principal, (access.on_bucket(table_bucket, "ListTables"),))
        raise
    counted = await services.drops.measure(table_bucket, [dropped.pointer])
    return asgi.json_response({"object_uuid": dropped.pointer.object_uuid, **_count(counted)})


def named(call: calls.Call) -> idents.TableIdent:
    """Return the table that a request names. Raises InvalidCatalogRequest."""
    text = native.parameters_of(call).get("table", "")
    return _ident(call.value["warehouse"], text, "table")


def _ident(table_bucket: str, text: str, parameter: str) -> idents.TableIdent:
    levels = levels_of(text, parameter)
    if len(levels) < 2:
        raise errors.InvalidCatalogRequest(
            f"{parameter} must name a namespace and a table: {parameter}=ns.t"
        )
    return idents.TableIdent(table_bucket=table_bucket, namespace=levels[:-1], name=levels[-1])


def levels_of(text: str, parameter: str) -> idents.Namespace:
    """Return the levels of a name. Raises InvalidCatalogRequest."""
    levels = tuple(text.split(idents.SEPARATOR if idents.SEPARATOR in text else "."))
    if "" in levels:
        raise errors.InvalidCatalogRequest(f"{parameter} must be levels joined by dots")
    return levels


def flag(call: calls.Call, name: str) -> bool:
    """Return a parameter that is true or false, which it is by default. Raises
    InvalidCatalogRequest."""
    text = native.parameters_of(call).get(name, "false").lower()
    if text not in ("true", "false"):
        raise errors.InvalidCatalogRequest(f"{name} is true or false, not {text[:100]!r}")
    return text == "true"


def _type_of(call: calls.Call) -> idents.PointerType:
    text = native.parameters_of(call).get("type", "table")
    if text == "table":
        return "table"
    if text == "view":
        return "view"
    raise errors.InvalidCatalogRequest(f"type is table or view, not {text[:100]!r}")


def _is_purge(services: TablesServices, table_bucket: str, *, purge: bool) -> bool:
    """Return whether a drop frees files: the table bucket's setting may forbid it."""
    bucket = services.access.store.bucket(table_bucket)
    return departures.is_purge(bucket.settings, purge=purge)


def _pointers(contents: namespaces.NamespaceContents) -> list[records.Pointer]:
    return [item.entry.pointer for item in contents.items]


def _answer_contents(
    dry_run: bool, purge: bool, counted: drops.CountedFiles, contents: namespaces.NamespaceContents
) -> dict[str, Any]:
    return _answer(
        dry_run,
        purge,
        counted,
        namespaces=[list(each.namespace) for each in contents.namespaces],
        items=[(item.ident, item.entry.pointer) for item in contents.items],
    )


def _answer(
    dry_run: bool,
    purge: bool,
    counted: drops.CountedFiles,
    *,
    namespaces: list[list[str]],
    items: list[tuple[idents.TableIdent, records.Pointer]],
) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "purge": purge,
        "namespaces": namespaces,
        "tables": _items(items),
        **_count(counted),
        "listed": [{"key": key, "size_bytes": size} for key, size in counted.listed],
    }


def _items(items: Iterable[tuple[idents.TableIdent, records.Pointer]]) -> list[dict[str, Any]]:
    return [
        {
            "namespace": list(ident.namespace),
            "name": ident.name,
            "type": pointer.object_type,
            "object_uuid": pointer.object_uuid,
        }
        for ident, pointer in items
    ]


def _count(counted: drops.CountedFiles) -> dict[str, Any]:
    return {
        "files": counted.files,
        "size_bytes": counted.size_bytes,
        "is_whole": counted.is_whole,
    }


def _describe(kept: drops.KeptTable) -> dict[str, Any]:
    dropped = kept.dropped
    return {
        "namespace": list(kept.ident.namespace),
        "name": kept.ident.name,
        "type": dropped.pointer.object_type,
        "object_uuid": dropped.pointer.object_uuid,
        "how": dropped.how,
        "dropped_at_ms": dropped.dropped_at_ms,
        "dropped_by": dropped.dropped_by,
        "kept_until_ms": dropped.kept_until_ms,
        "location": dropped.pointer.location,
        **_count(kept.counted),
    }


TABLE: Final = native.QueryParameter(
    name="table",
    meaning="Levels and name, joined by dots, or by 0x1F where a name holds dots",
    required=True,
)
TYPE: Final = native.QueryParameter(name="type", meaning="table (the default) or view")
PURGE: Final = native.QueryParameter(
    name="purge", meaning="The next sweep frees the files", schema=native.FLAG
)
DRY_RUN: Final = native.QueryParameter(
    name="dry_run", meaning="List only, change nothing", schema=native.FLAG
)
_COUNT: Final = {
    "files": native.WHOLE,
    "size_bytes": native.WHOLE,
    "is_whole": native.FLAG,
}
_LEVELS: Final = native.list_of(native.TEXT)
_ITEMS: Final = native.list_of(
    native.object_of(namespace=_LEVELS, name=native.TEXT, type=native.TEXT, object_uuid=native.TEXT)
)
NAMESPACE: Final = native.QueryParameter(
    name="namespace", meaning="Levels, joined by dots or 0x1F", required=True
)
_DROP: Final = native.object_of(
    dry_run=native.FLAG,
    purge=native.FLAG,
    namespaces=native.list_of(_LEVELS),
    tables=_ITEMS,
    **_COUNT,
    listed=native.list_of(native.object_of(key=native.TEXT, size_bytes=native.WHOLE)),
)

ROWS: Final = (
    native.NativeRow(
        method="DELETE",
        template="/_api/v1/warehouses/{warehouse}/tables",
        operation=calls.Operation(name="dropTable", handler=drop_table),
        summary="Drop a table or view; a dry run lists its files",
        parameters=(TABLE, TYPE, PURGE, DRY_RUN),
        answer=_DROP,
    ),
    native.NativeRow(
        method="DELETE",
        template="/_api/v1/warehouses/{warehouse}/namespaces",
        operation=calls.Operation(name="dropNamespace", handler=drop_namespace),
        summary="Drop a namespace with everything in it, as one commit; a dry run lists it",
        parameters=(
            NAMESPACE,
            PURGE,
            DRY_RUN,
        ),
        answer=_DROP,
    ),
    native.NativeRow(
        method="POST",
        template="/_api/v1/warehouses/{warehouse}/undrop",
        operation=calls.Operation(name="undropTable", handler=undrop_table),
        summary="Restore the table or view that was dropped last under a name",
        parameters=(
            TABLE,
            TYPE,
            native.QueryParameter(name="to", meaning="The name that it gets, if not its last"),
            native.QueryParameter(
                name="object_uuid", meaning="Of one of several dropped tables of this name"
            ),
        ),
        answer=native.object_of(
            namespace=_LEVELS,
            name=native.TEXT,
            type=native.TEXT,
            object_uuid=native.TEXT,
            metadata_location=native.TEXT_OR_NULL,
        ),
    ),
    native.NativeRow(
        method="POST",
        template="/_api/v1/warehouses/{warehouse}/undrop-namespace",
        operation=calls.Operation(name="undropNamespace", handler=undrop_namespace),
        summary="Restore the namespace that was dropped last under a name, with its tables",
        parameters=(NAMESPACE,),
        answer=native.object_of(
            namespaces=native.list_of(_LEVELS), tables=_ITEMS, missing=native.list_of(native.TEXT)
        ),
    ),
    native.NativeRow(
        method="GET",
        template="/_api/v1/warehouses/{warehouse}/dropped-namespaces",
        operation=calls.Operation(name="listDroppedNamespaces", handler=list_dropped_namespaces),
        summary="Dropped namespaces that can be restored",
        parameters=(native.QueryParameter(name="after", meaning="`next` of the page before"),),
        answer=native.object_of(
            dropped=native.list_of(
                native.object_of(
                    namespace=_LEVELS,
                    namespaces=native.WHOLE,
                    tables=native.WHOLE,
                    dropped_at_ms=native.WHOLE,
                    dropped_by=native.TEXT,
                    kept_until_ms=native.WHOLE,
                )
            ),
            next=native.TEXT_OR_NULL,
        ),
    ),
    native.NativeRow(
        method="GET",
        template="/_api/v1/warehouses/{warehouse}/dropped",
        operation=calls.Operation(name="listDropped", handler=list_dropped),
        summary="Dropped and unregistered tables and views that are kept, with their files",
        parameters=(native.QueryParameter(name="after", meaning="`next` of the page before"),),
        answer=native.object_of(
            dropped=native.list_of(
                native.object_of(
                    namespace=_LEVELS,
                    name=native.TEXT,
                    type=native.TEXT,
                    object_uuid=native.TEXT,
                    how=native.TEXT,
                    dropped_at_ms=native.WHOLE,
                    dropped_by=native.TEXT,
                    kept_until_ms=native.WHOLE_OR_NULL,
                    location=native.TEXT,
                    **_COUNT,
                )
            ),
            next=native.TEXT_OR_NULL,
        ),
    ),
    native.NativeRow(
        method="DELETE",
        template="/_api/v1/warehouses/{warehouse}/dropped",
        operation=calls.Operation(name="discardTable", handler=discard_table),
        summary="Give up a dropped or unregistered table: the next sweep frees its files",
        parameters=(
            native.QueryParameter(name="object_uuid", meaning="Its object uuid", required=True),
            TYPE,
        ),
        answer=native.object_of(object_uuid=native.TEXT, **_COUNT),
    ),
)
"""The operations of this module."""
