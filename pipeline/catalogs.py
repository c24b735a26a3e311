"""engine: the server's Iceberg catalog, as PyIceberg opens it."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from pipeline import errors, loads, settings

ANSWER_SECONDS = 120
"""How long the catalog may take to answer one request."""
REASON_MAX = 200
TRIES_MAX = 5
"""How often a request is made of a catalog that answers 429."""
PAUSE_SECONDS = 1
"""The pause after a 429 that names none."""
PAUSE_SECONDS_MAX = 30
UNREAD_TYPE = re.compile(r"Unsupported field type: '(\w+)'")
"""How PyIceberg 0.12 refuses a table with a column of a type that it does not have."""


def opened(server: settings.ServerEndpoint, warehouse: str) -> Any:
    """Return the catalog of a warehouse; each of its requests waits ANSWER_SECONDS at most."""
    return _bounded_catalog(
        warehouse,
        uri=server.iceberg,
        warehouse=warehouse,
        **settings.catalog_credentials(server),
    )


def opened_at(uri: str, warehouse: str, *, access_key: str, secret_key: str) -> Any:
    """Return a REST catalog of another server, as `opened` does."""
    return _bounded_catalog(
        warehouse,
        uri=uri,
        warehouse=warehouse,
        **{
            "credential": f"{access_key}:{secret_key}",
            "oauth2-server-uri": f"{uri}/v1/oauth/tokens",
        },
    )


@contextlib.contextmanager
def failures() -> Iterator[None]:
    """Turn what PyIceberg raises in the block into the pipeline's own errors."""
    # Imported here: jobs of Spark need none of them.
    import requests
    from pyiceberg.exceptions import RESTError

    try:
        yield
    except requests.RequestException as error:
        raise errors.NoServer(f"the server does not answer: {error}") from error
    except RESTError as error:
        raise errors.PipelineError(f"the server refused: {error}") from error
    except OSError as error:
        reason = " ".join(str(error).split())[:REASON_MAX]
        raise errors.NoServer(f"the rows could not be written to the server: {reason}") from error
    except ValueError as error:
        unread = unread_type(error)
        if unread is None:
            raise
        raise errors.PipelineError(
            f"the table has a column of {unread}, which PyIceberg does not read"
        ) from error


def unread_type(error: ValueError) -> str | None:
    """Return the Iceberg type for which PyIceberg refuses a table; None for another error."""
    match = UNREAD_TYPE.search(str(error))
    return None if match is None else match[1]


@dataclass(frozen=True, kw_only=True, slots=True)
class CatalogChange:
    """One table's part of a commit, as the REST catalog takes it."""

    table: settings.TargetTable
    requirements: Sequence[Any]
    updates: Sequence[Any]


def change_of(table: settings.TargetTable, transaction: Any) -> CatalogChange:
    """Return what one of PyIceberg's transactions would commit."""
    # Imported here: jobs of Spark need none of them.
    from pyiceberg.table import CreateTableTransaction
    from pyiceberg.table.update import AssertCreate, AssertTableUUID

    if isinstance(transaction, CreateTableTransaction):
        requirements: tuple[Any, ...] = (AssertCreate(),)
    else:
        uuid = transaction.table_metadata.table_uuid
        requirements = (*transaction._requirements, AssertTableUUID(uuid=uuid))  # noqa: SLF001 - PyIceberg commits one table alone
    return CatalogChange(
        table=table,
        requirements=[json.loads(each.model_dump_json()) for each in requirements],
        updates=[json.loads(each.model_dump_json()) for each in transaction._updates],  # noqa: SLF001 - the same
    )


def commit(catalog: Any, changes: Sequence[CatalogChange]) -> None:
    """Commit changes of several tables at once, or none of them. The first is the load's own.

    Raises Overtaken, OutcomeUnknown, PipelineError.
    """
    # Imported here: jobs of Spark need none of them.
    import requests

    body = {
        "table-changes": [
            {
                "identifier": {"namespace": change.table.namespace, "name": change.table.name},
                "requirements": change.requirements,
                "updates": change.updates,
            }
            for change in changes
        ]
    }
    table = changes[0].table.full
    try:
        answer = posted(catalog, "transactions/commit", body)
    except requests.RequestException as error:
        raise errors.outcome_unknown(table) from error
    if answer.ok:
        return
    try:
        message = str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        message = answer.text[:300]
    if answer.status_code == 409:
        raise errors.overtaken(table, message, is_taken=loads.ALREADY_TAKEN in message)
    # A 507 is for what certainly did not happen, and no other attempt mends.
    if answer.status_code >= 500 and answer.status_code != HTTPStatus.INSUFFICIENT_STORAGE:
        raise errors.outcome_unknown(table)
    raise errors.PipelineError(f"the server refused: {message}")


def posted(catalog: Any, path: str, body: Any) -> Any:
    """Return a REST catalog's answer to a request that PyIceberg does not make.

    A job can last longer than its token: after a 401, which changes nothing, it asks for another
    and repeats the request once, as PyIceberg does for its own. After a 429, which changes nothing
    either, it repeats the request when the server says. Raises requests.RequestException.
    """
    is_renewed, tries = False, 0
    while True:
        tries += 1
        answer = catalog._session.post(catalog.url(path), json=body)  # noqa: SLF001 - PyIceberg's
        if answer.status_code == HTTPStatus.UNAUTHORIZED and not is_renewed:
            catalog._refresh_token()  # noqa: SLF001 - PyIceberg's
            is_renewed = True
        elif answer.status_code == HTTPStatus.TOO_MANY_REQUESTS and tries < TRIES_MAX:
            time.sleep(_pause_seconds(answer.headers.get("Retry-After", "")))
        else:
            return answer


def _pause_seconds(retry_after: str) -> float:
    """Return how long to wait, by a Retry-After header; one that is a date counts as absent."""
    is_seconds = retry_after.isascii() and retry_after.isdecimal() and len(retry_after) <= 9
    return min(int(retry_after), PAUSE_SECONDS_MAX) if is_seconds else PAUSE_SECONDS


def _bounded_adapter() -> Any:
    """Return a transport for requests that waits ANSWER_SECONDS at most for an answer."""
    # Imported here: jobs of Spark need none of them.
    from requests.adapters import HTTPAdapter

    class BoundedAdapter(HTTPAdapter):
        def send(self, request: Any, *arguments: Any, **options: Any) -> Any:
            return super().send(request, *arguments, **{**options, "timeout": ANSWER_SECONDS})

    return BoundedAdapter()


def _bounded_catalog(name: str, **properties: str) -> Any:
    """Return a REST catalog each of whose requests waits ANSWER_SECONDS at most for an answer."""
    # Imported here: jobs of Spark need none of them.
    from pyiceberg.catalog.rest import RestCatalog

    class BoundedCatalog(RestCatalog):
        # PyIceberg would wait for an answer without end, and has no setting for it. It calls this
        # for each session before the session's first request, which is the one for a token.
        def _create_legacy_oauth2_auth_manager(self, session: Any) -> Any:
            for scheme in ("http://", "https://"):
                session.mount(scheme, _bounded_adapter())
            return super()._create_legacy_oauth2_auth_manager(session)

    return BoundedCatalog(name, **properties)
