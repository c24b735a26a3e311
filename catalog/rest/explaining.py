"""face: the native API's explanation of access decisions.

The demand is made as the other doors make it: a table, a namespace or a table bucket is named, and
the catalog adds the ARN and the condition keys. Only a caller with `iam:SimulatePrincipalPolicy` on
the principal may ask.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from catalog import errors, idents
from catalog.access import Access
from server import asgi, calls, native
from server.access import actions, decide, explain, model, principals

if TYPE_CHECKING:
    from catalog.rest.native import TablesServices

PRINCIPALS_AT_ONCE: Final = 20
"""Users and roles that are judged between two turns of the event loop."""
S3TABLES: Final = "s3tables:"
NAMED_RESOURCES: Final = (S3TABLES, "lake:")
"""The services whose resources may be named as the catalog names them."""


async def explain_access(services: TablesServices, call: calls.Call) -> asgi.Response:
    """Answer whether a principal may do something, and why."""
    parameters = native.parameters_of(call)
    for name in ("principal", "action", "resource"):
        if not parameters.get(name):
            raise errors.InvalidCatalogRequest(f"the parameter {name} is missing")
    people = services.principals
    name = parameters["principal"]
    services.access.check(
        call.principal, (model.Demand(action=decide.SIMULATION, resource=people.arn_of(name)),)
    )
    person = people.described(name)
    if person is None:
        raise errors.InvalidCatalogRequest(f"there is no user or role {name[:100]!r}")
    principal = principals.in_context(person.principal, parameters.get("source_ip", ""))
    action = actions.spelled(parameters["action"])
    demand = _demand_of(services.access, call.principal, action, parameters["resource"])
    authoriser = services.access.authoriser
    return asgi.json_response(
        explain.explain(
            principal,
            demand,
            authoriser.decide(principal, demand),
            authoriser.side_of(demand),
            names=person.policy_names,
            now_ms=authoriser.now_ms(),
            region=authoriser.region,
        )
    )


async def find_allowed(services: TablesServices, call: calls.Call) -> asgi.Response:
    """Answer which users and roles may do something."""
    parameters = native.parameters_of(call)
    for name in ("action", "resource"):
        if not parameters.get(name):
            raise errors.InvalidCatalogRequest(f"the parameter {name} is missing")
    demand = _demand_of(
        services.access,
        call.principal,
        actions.spelled(parameters["action"]),
        parameters["resource"],
    )
    source_ip = parameters.get("source_ip", "")
    authoriser = services.access.authoriser
    allowed: list[str] = []
    for number, name in enumerate(services.principals.names(), 1):
        person = services.principals.described(name)
        if person is not None:
            principal = principals.in_context(person.principal, source_ip)
            if authoriser.decide(principal, demand).allow:
                allowed.append(name)
        if number % PRINCIPALS_AT_ONCE == 0:
            await asyncio.sleep(0)
    return asgi.json_response(
        {"action": demand.action, "resource": demand.resource, "allowed": allowed}
    )


def _demand_simulation(services: TablesServices, call: calls.Call) -> tuple[model.Demand, ...]:
    return (model.Demand(action=decide.SIMULATION, resource="*"),)


def _demand_of(access: Access, caller: model.Principal, action: str, resource: str) -> model.Demand:
    """Return the demand for an action on an ARN, or on what the catalog has under a name.

    Raises InvalidCatalogRequest and what looking a table up raises: AccessDenied for a table that
    the caller may not know of.
    """
    if resource == "*" or resource.startswith("arn:"):
        return model.Demand(action=action, resource=resource)
    if not action.startswith(NAMED_RESOURCES):
        raise errors.InvalidCatalogRequest(f"for {action[:100]} the resource is an ARN or *")
    verb = action.removeprefix(S3TABLES)
    bucket, *rest = resource.split("/", 2)
    if not rest:
        return access.on_bucket(bucket, verb)
    namespace = tuple(rest[0].split("."))
    if len(rest) == 1:
        return access.on_namespace(bucket, namespace, verb)
    ident = idents.TableIdent(table_bucket=bucket, namespace=namespace, name=rest[1])
    access.check(caller, access.on_table(ident, ("GetTable",)))
    demand = access.on_table(ident, (verb,))[0]
    if demand.action != action:
        raise errors.NoSuchTable(f"Table does not exist: {resource[:200]}")
    return demand


ALLOWED_ROW: Final = native.NativeRow(
    method="GET",
    template="/_api/v1/access/allowed",
    operation=calls.Operation(name="findAllowed", handler=find_allowed, demands=_demand_simulation),
    summary="Which users and roles may do something",
    parameters=(
        native.QueryParameter(name="action", meaning="As for explain", required=True),
        native.QueryParameter(name="resource", meaning="As for explain", required=True),
        native.QueryParameter(name="source_ip", meaning="The caller's address, for conditions"),
    ),
    answer=native.object_of(
        action=native.TEXT, resource=native.TEXT, allowed=native.list_of(native.TEXT)
    ),
)
_STATEMENT: Final = native.object_of(statement=native.TEXT, effect=native.TEXT, applies=native.FLAG)
ROW: Final = native.NativeRow(
    method="GET",
    template="/_api/v1/access/explain",
    operation=calls.Operation(name="explainAccess", handler=explain_access),
    summary="Whether a principal may do something, and which policies say so",
    parameters=(
        native.QueryParameter(
            name="principal", meaning="`root`, a user's name, or `role/NAME`", required=True
        ),
        native.QueryParameter(
            name="action", meaning="An action of a policy: `s3tables:GetTableData`", required=True
        ),
        native.QueryParameter(
            name="resource",
            meaning="An ARN, `*`, or for s3tables `BUCKET`, `BUCKET/NAMESPACE` or "
            "`BUCKET/NAMESPACE/TABLE`, with a namespace's levels joined by dots",
            required=True,
        ),
        native.QueryParameter(name="source_ip", meaning="The caller's address, for conditions"),
    ),
    answer=native.object_of(
        principal=native.TEXT,
        action=native.TEXT,
        resource=native.TEXT,
        context=native.ANY_OBJECT,
        allow=native.FLAG,
        reason=native.TEXT,
        statements=native.list_of(native.TEXT),
        policies=native.list_of(
            native.object_of(policy=native.TEXT, statements=native.list_of(_STATEMENT))
        ),
        missing={"type": ["object", "null"]},
        note={"type": ["string", "null"]},
    ),
)
