"""engine: another Iceberg REST catalog as a client reads it: names, tables and views. Blocks; for
threads.

Credentials are the mount's: a bearer token, client credentials that are exchanged for one, or
signatures. Each answer is checked for its shape before it is used; no field of it reaches a log.
Source: Iceberg REST catalog specification.
"""

from __future__ import annotations

import time
import urllib.parse
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from catalog import errors, idents
from catalog.mounts import overlay, transport
from server import mounts as settings
from storage import model

PAGES_MAX: Final = 10_000
TOKEN_SECONDS: Final = 300
"""How long a token without a stated lifetime is used."""

NO_VIEWS: Final = frozenset({400, 403, 404, 405, 406, 501})
"""Statuses of a listing of views by a catalog that has none, or none for these credentials."""
VIEWS_ENDPOINT: Final = "GET /v1/{prefix}/namespaces/{namespace}/views"

Listing = dict[idents.Namespace, list[str]]
"""Names by namespace."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CatalogNames:
    """The names of a catalog. Every namespace is one of tables; views may have fewer."""

    tables: Listing
    views: Listing


class LoadAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The answer to loadTable. metadata: as it was sent. storage_credentials: see `S3Access`."""

    metadata: msgspec.Raw
    metadata_location: str | None = None
    config: dict[str, str] = {}
    storage_credentials: list[dict[str, Any]] = []


class ViewAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The answer to loadView. metadata: as it was sent."""

    metadata: msgspec.Raw
    metadata_location: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Configuration:
    """What the other catalog's configuration says. prefix: of paths, quoted or empty.

    has_views: whether it says that it lists views. One that names no endpoints says so in the
    property `view-endpoints-supported`.
    """

    prefix: str
    separator: str
    has_views: bool


class OtherCatalog:
    """One catalog. Mutable: it keeps the configuration and the token. Calls may overlap."""

    def __init__(self, mount: settings.Mount, *, now_ms: model.NowMs) -> None:
        self._mount = mount
        self._now_ms = now_ms
        self._settings: _Configuration | None = None
        self._token = mount.token
        self._token_until = float("-inf") if mount.credential else float("inf")

    def listing(self) -> CatalogNames:
        """Return the tables and views of all namespaces. Raises MountUnavailable.

        A name that no table or namespace of this server could have is left out, and so is a view
        with the name of a table.
        """
        deadline = time.monotonic() + 6 * self._mount.timeout_seconds
        tables: Listing = {}
        views: Listing = {}
        waiting: list[idents.Namespace] = [()]
        names = 0
        while waiting:
            above = waiting.pop()
            for levels in self._children(above):
                if len(levels) == len(above) + 1 and levels[:-1] == above and _may_be(levels):
                    waiting.append(levels)
                    tables[levels] = []
            if above:
                tables[above] = sorted(self._names(above, "tables"))
                views[above] = sorted(set(self._views(above)).difference(tables[above]))
            names += 1 + len(tables.get(above, ())) + len(views.get(above, ()))
            if names > overlay.NAMES_MAX:
                raise self._unavailable(f"it has more than {overlay.NAMES_MAX} names")
            if time.monotonic() > deadline:
                raise self._unavailable("listing its names takes too long")
        return CatalogNames(tables=tables, views=views)

    def load_view(self, namespace: idents.Namespace, name: str) -> ViewAnswer:
        """Return a view's metadata. Raises MountUnavailable, NoSuchView."""
        path = f"{self._namespace_path(namespace)}/views/{_quoted(name)}"
        answer = self._get(path, {})
        if answer.status == 404:
            raise errors.NoSuchView(f"View does not exist: {idents.dotted((*namespace, name))}")
        self._check(answer, path)
        try:
            return msgspec.json.decode(answer.body, type=ViewAnswer)
        except msgspec.MsgspecError as error:
            raise self._unavailable(f"its answer for {path} is not a view") from error

    def load(self, namespace: idents.Namespace, name: str) -> LoadAnswer:
        """Return a table's metadata. Raises MountUnavailable, NoSuchTable."""
        path = f"{self._namespace_path(namespace)}/tables/{_quoted(name)}"
        answer = self._get(path, {}, headers={"X-Iceberg-Access-Delegation": "vended-credentials"})
        if answer.status == 404:
            raise errors.NoSuchTable(f"Table does not exist: {idents.dotted((*namespace, name))}")
        self._check(answer, path)
        try:
            return msgspec.json.decode(answer.body, type=LoadAnswer)
        except msgspec.MsgspecError as error:
            raise self._unavailable(f"its answer for {path} is not a table") from error

    def _children(self, above: idents.Namespace) -> Iterator[idents.Namespace]:
        path = f"{self._root()}/namespaces"
        query = {"parent": self._joined(above)} if above else {}
        for item in self._pages(path, query, "namespaces"):
            if isinstance(item, list) and all(isinstance(level, str) for level in item):
                yield tuple(item)

    def _views(self, namespace: idents.Namespace) -> Iterator[str]:
        self._root()
        assert self._settings is not None, "the configuration was read"
        return self._names(namespace, "views") if self._settings.has_views else iter(())

    def _names(
        self, namespace: idents.Namespace, collection: Literal["tables", "views"]
    ) -> Iterator[str]:
        path = f"{self._namespace_path(namespace)}/{collection}"
        absent = NO_VIEWS if collection == "views" else frozenset[int]()
        for item in self._pages(path, {}, "identifiers", absent=absent):
            name = item.get("name") if isinstance(item, dict) else None
            if isinstance(name, str) and _may_be((name,)) and "@" not in name:
                yield name

    def _pages(
        self,
        path: str,
        query: Mapping[str, str],
        key: str,
        *,
        absent: Collection[int] = (),
    ) -> Iterator[Any]:
        """Yield what a listing has. absent: statuses of a listing that is not there."""
        token = ""
        for _ in range(PAGES_MAX):
            answer = self._get(path, {**query, "pageToken": token})
            if answer.status == 404 or answer.status in absent:
                return  # dropped since its parent was listed, or never there
            self._check(answer, path)
            page = self._object(answer, path)
            items = page.get(key)
            if not isinstance(items, list):
                raise self._unavailable(f"its answer for {path} has no {key}")
            yield from items
            following = page.get("next-page-token")
            if not isinstance(following, str) or not following or following == token:
                return
            token = following
        raise self._unavailable(f"{path} has more than {PAGES_MAX} pages")

    # Requests

    def _root(self) -> str:
        if self._settings is None:
            query = {"warehouse": self._mount.warehouse} if self._mount.warehouse else {}
            answer = self._get("/v1/config", query)
            self._check(answer, "/v1/config")
            document = self._object(answer, "/v1/config")
            merged: dict[str, Any] = {}
            for part in ("defaults", "overrides"):
                if isinstance(document.get(part), dict):
                    merged |= document[part]
            prefix = str(merged.get("prefix") or "").strip("/")
            separator = urllib.parse.unquote(str(merged.get("namespace-separator") or "%1F"))
            endpoints = document.get("endpoints")
            has_views = (
                VIEWS_ENDPOINT in endpoints
                if isinstance(endpoints, list)
                else str(merged.get("view-endpoints-supported")).lower() == "true"
            )
            quoted = "/".join(_quoted(part) for part in prefix.split("/"))
            self._settings = _Configuration(
                prefix=f"/v1/{quoted}" if prefix else "/v1",
                separator=separator,
                has_views=has_views,
            )
        return self._settings.prefix

    def _joined(self, namespace: idents.Namespace) -> str:
        separator = idents.SEPARATOR if self._settings is None else self._settings.separator
        return separator.join(namespace)

    def _namespace_path(self, namespace: idents.Namespace) -> str:
        return f"{self._root()}/namespaces/{_quoted(self._joined(namespace))}"

    def _get(
        self, path: str, query: Mapping[str, str], *, headers: Mapping[str, str] | None = None
    ) -> transport.HttpAnswer:
        answer = self._get_once(path, query, headers or {})
        if answer.status == 401 and self._mount.credential:
            self._token_until = float("-inf")  # it may have been revoked
            answer = self._get_once(path, query, headers or {})
        return answer

    def _get_once(
        self, path: str, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> transport.HttpAnswer:
        encoded = urllib.parse.urlencode(query, quote_via=urllib.parse.quote)
        url = self._mount.uri.rstrip("/") + path + (f"?{encoded}" if encoded else "")
        every = {"accept": "application/json", **headers}
        bearer = self._bearer()
        if bearer:
            every["authorization"] = f"Bearer {bearer}"
        return transport.fetch(self._target(url), headers=every, keys=self._keys())

    def _keys(self) -> transport.Keys | None:
        mount = self._mount
        if not mount.sigv4:
            return None
        return transport.Keys(
            access_key=mount.access_key,
            secret_key=mount.secret_key,
            session_token=mount.session_token,
            region=mount.region,
            service=mount.sigv4,
        )

    def _bearer(self) -> str:
        if self._mount.credential and time.monotonic() > self._token_until - 30:
            url = self._mount.oauth2_uri or self._mount.uri.rstrip("/") + "/v1/oauth/tokens"
            client_id, _, client_secret = self._mount.credential.rpartition(":")
            form = {
                "grant_type": "client_credentials",
                "client_id": client_id,
                "client_secret": client_secret,
                "scope": self._mount.scope or "catalog",
            }
            answer = transport.fetch(
                self._target(url),
                method="POST",
                headers={"content-type": "application/x-www-form-urlencoded"},
                body=urllib.parse.urlencode({k: v for k, v in form.items() if v}).encode(),
            )
            self._check(answer, "its token endpoint")
            document = self._object(answer, "its token endpoint")
            token, seconds = document.get("access_token"), document.get("expires_in")
            if not isinstance(token, str) or not token.isascii() or not token.isprintable():
                raise self._unavailable("its token endpoint gave no token")
            lifetime = seconds if isinstance(seconds, int) and seconds > 0 else TOKEN_SECONDS
            self._token, self._token_until = token, time.monotonic() + lifetime
        return self._token

    def _target(self, url: str) -> transport.RequestTarget:
        return transport.RequestTarget(
            mount=self._mount.name,
            url=url,
            timeout_seconds=self._mount.timeout_seconds,
            now_ms=self._now_ms(),
        )

    def _check(self, answer: transport.HttpAnswer, path: str) -> None:
        if answer.status in (401, 403):
            raise self._unavailable(f"it refuses the mount's credentials for {path}")
        if answer.status != 200:
            raise self._unavailable(f"{path} answers with status {answer.status}")

    def _object(self, answer: transport.HttpAnswer, path: str) -> dict[str, Any]:
        try:
            document = msgspec.json.decode(answer.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise self._unavailable(f"{path} answers with no JSON object")
        return document

    def _unavailable(self, reason: str) -> errors.MountUnavailable:
        return errors.MountUnavailable(f"The mount {self._mount.name} is not available: {reason}")


def _may_be(levels: tuple[str, ...]) -> bool:
    try:
        idents.check_namespace(levels)
    except errors.InvalidName:
        return False
    return True


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")
