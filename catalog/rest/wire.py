"""face: bodies of the REST catalog: JSON in, JSON out.

A request's body is decoded once, with exact integers of any size, and every member is read by its
type. A response with a table is composed of the bytes of its metadata file, which are never decoded
and encoded again.
Source: Iceberg REST catalog specification, components.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from catalog import idents
from catalog.metadata import json_values
from catalog.rest import errors, wire_errors
from server import asgi, documents, limits

JSON: Final = ("content-type", "application/json")
VARY: Final = ("vary", "X-Iceberg-Access-Delegation")
TABLE_LINES: Final = asgi.encode_headers((JSON, VARY))
"""The headers of every answer with a table, as lines of its head."""

COMMIT_BYTES_MAX: Final = 8 * 1024 * 1024
"""Largest body of a commit, a transaction or a new table's definition."""
VIEW_BYTES_MAX: Final = 1024 * 1024
"""Largest body of a view's definition or replacement."""
NAMESPACE_BYTES_MAX: Final = 512 * 1024
"""A namespace's properties are 64 Ki characters at most; JSON may write each as six bytes."""
NAMES_BYTES_MAX: Final = 64 * 1024
"""Largest body that only contains names."""
PLAN_BYTES_MAX: Final = 256 * 1024
"""Largest body of a scan's plan: most of it is the filter."""
PLAN_TASK_BYTES_MAX: Final = 512 * 1024
"""Largest body with a plan task, which contains the filter."""
SIGN_BYTES_MAX: Final = 2 * 1024 * 1024
"""Largest request for a signature; one for a deletion has the names of up to 1,000 objects."""
REPORT_BYTES_MAX: Final = 128 * 1024
ETAGS_MAX: Final = 100


def parse_object(body: bytes) -> json_values.Json:
    """Return a request's JSON object. Raises MalformedJson."""
    if documents.has_too_many_values(body):
        raise errors.MalformedJson(
            f"Malformed request: the body holds more than {limits.JSON_VALUES_MAX} JSON values"
        )
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise errors.MalformedJson(f"Malformed request: the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise errors.MalformedJson("Malformed request: the body is not a JSON object")
    return value


def get_texts(source: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return a member that maps names to text; empty if it is absent. Raises BadUpdate."""
    if source.get(name) is None:
        return {}
    return json_values.get_text_map(source, name)


def get_flag(source: Mapping[str, Any], name: str) -> bool:
    """Return a member that is true or false; false if it is absent. Raises MalformedJson."""
    value = source.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise errors.MalformedJson(f"Cannot parse to a boolean value: {name}")
    return value


def get_namespace(source: Mapping[str, Any], name: str = "namespace") -> idents.Namespace:
    """Return a member that is a namespace. Raises BadUpdate."""
    return tuple(json_values.get_texts(source, name))


def get_ident(source: Mapping[str, Any], name: str, *, table_bucket: str) -> idents.TableIdent:
    """Return a member that identifies a table or view. Raises BadUpdate."""
    value = json_values.get_object(source, name)
    return idents.TableIdent(
        table_bucket=table_bucket,
        namespace=get_namespace(value),
        name=json_values.get_text(value, "name"),
    )


def check_ident(source: Mapping[str, Any], ident: idents.TableIdent) -> None:
    """Raise MalformedBody if a body names another table or view than the path.

    A body without an identifier passes. Raises BadUpdate for a malformed one.
    """
    if source.get("identifier") is None:
        return
    named = get_ident(source, "identifier", table_bucket=ident.table_bucket)
    if named != ident:
        raise errors.MalformedJson(
            f"Malformed request: the body is about {named.dotted()}, the path about"
            f" {ident.dotted()}"
        )


def encode(value: object, *headers: tuple[str, str], status: int = 200) -> asgi.Response:
    """Return a JSON answer."""
    return asgi.Response(status, (JSON, *headers), msgspec.json.encode(value))


def encode_listing(name: str, items: Sequence[bytes], token: str | None) -> asgi.Response:
    """Return one page of a listing. items: parts of its array, encoded, without brackets."""
    head, tail = b'{"%s":[' % name.encode(), b'],"next-page-token":%s}' % msgspec.json.encode(token)
    if len(items) < 2:
        return asgi.Response(200, (JSON,), b"".join((head, *items, tail)))
    pieces = [piece for item in items for piece in (b",", item)]
    return asgi.Response(200, (JSON,), (head, *pieces[1:], tail))


def encode_items(items: Sequence[Any]) -> bytes:
    """Return part of an array, without brackets."""
    return msgspec.json.encode(items)[1:-1]


def no_content() -> asgi.Response:
    """Return a response without a body."""
    return asgi.Response(204)


def encode_table(
    *,
    metadata_location: str | None,
    data: bytes,
    config: Mapping[str, str],
    credentials: Sequence[Mapping[str, Any]] = (),
    signing: Mapping[str, Any] | None = None,
    etag: str | None,
) -> asgi.Response:
    """Return the response of load, create and register. data: the metadata's JSON.

    signing: the remote-signing-config, None for clients whose requests are not signed here.
    """
    before = b'{"metadata":'
    if metadata_location is not None:
        location = msgspec.json.encode(metadata_location)
        before = b"".join((b'{"metadata-location":', location, b',"metadata":'))
    after = [b',"config":', msgspec.json.encode(config)]
    if credentials:
        after += [b',"storage-credentials":', msgspec.json.encode(credentials)]
    if signing is not None:
        after += [b',"remote-signing-config":', msgspec.json.encode(signing)]
    after.append(b"}")
    headers = () if etag is None else (("etag", etag),)
    body = _around(before, data, b"".join(after))
    return asgi.Response(200, headers, body, prepared=TABLE_LINES)


def encode_commit(*, metadata_location: str, data: bytes, etag: str) -> asgi.Response:
    """Return the response of a commit. data: the metadata's JSON."""
    before = b"".join(
        (b'{"metadata-location":', msgspec.json.encode(metadata_location), b',"metadata":')
    )
    body = _around(before, data, b"}")
    return asgi.Response(200, (("etag", etag),), body, prepared=TABLE_LINES)


def encode_view(*, metadata_location: str, data: bytes) -> asgi.Response:
    """Return the response of a view's load, create, replace and register. data: metadata's JSON."""
    before = b"".join(
        (b'{"metadata-location":', msgspec.json.encode(metadata_location), b',"metadata":')
    )
    return asgi.Response(200, (JSON,), _around(before, data, b',"config":{}}'))


def _around(before: bytes, data: bytes, after: bytes) -> bytes | tuple[bytes, ...]:
    """Return a body; large metadata stays a separate piece, so that it is not copied here."""
    if len(data) <= limits.JOINED_BODY_BYTES_MAX:
        return b"".join((before, data, after))
    return (before, data, after)


def format_etag(*parts: str) -> str:
    """Return the entity tag of a response that depends on nothing but parts."""
    text = "\x00".join(parts).encode("utf-8", "surrogatepass")
    return f'"{hashlib.blake2b(text, digest_size=16).hexdigest()}"'


def etag_matches(header: str | None, etag: str) -> bool:
    """Return whether an If-None-Match header, a list or `*`, contains the entity tag."""
    if header is None:
        return False
    if header.strip() == "*":
        return True
    etags = header.split(",", ETAGS_MAX)[:ETAGS_MAX]
    return any(each.strip().removeprefix("W/") == etag for each in etags)


def format_idents(names: Sequence[tuple[idents.Namespace, str]]) -> list[dict[str, Any]]:
    """Return the names of tables or views as in listings."""
    return [{"namespace": namespace, "name": name} for namespace, name in names]


def encode_error(status: int, error_type: str, message: str) -> asgi.Response:
    """Return an error as clients expect it."""
    content = {"error": {"message": message, "type": error_type, "code": status}}
    headers = [JSON]
    if status == 401:
        headers.append(("www-authenticate", "Bearer"))
    if status == 429:
        headers.append(("retry-after", str(wire_errors.RETRY_AFTER_SECONDS)))
    return asgi.Response(status, tuple(headers), msgspec.json.encode(content))


def encode_oauth(
    status: int, error: str, description: str, *, retry_after_seconds: int | None = None
) -> asgi.Response:
    """Return a refusal of the token endpoint, in OAuth's form (RFC 6749, section 5.2)."""
    content = {"error": error, "error_description": description}
    headers = [JSON, ("cache-control", "no-store")]
    if status == 401:
        headers.append(("www-authenticate", 'Basic realm="Boathouse"'))
    if retry_after_seconds is not None:
        headers.append(("retry-after", str(retry_after_seconds)))
    return asgi.Response(status, tuple(headers), msgspec.json.encode(content))
