"""engine: the server's Iceberg catalog, as PyIceberg opens it."""

from __future__ import annotations

from typing import Any

from pipeline import settings

ANSWER_SECONDS = 120
"""How long the catalog may take to answer one request."""


def opened(server: settings.ServerEndpoint, warehouse: str) -> Any:
    """Return the catalog of a warehouse; each of its requests waits ANSWER_SECONDS at most."""
    return _bounded_catalog(
        warehouse,
        uri=server.iceberg,
        warehouse=warehouse,
        **settings.catalog_credentials(server),
    )


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
