"""face: request and answer bodies of the Snowflake protocol, as values.

Every answer is `{"data", "success", "code", "message"}`. Answers of errors always have `data`,
because without it a driver reports no SQLSTATE. Bodies are gzipped or plain; a gzipped body is
inflated up to its bound. This module reads no session and runs no statement.
"""

from __future__ import annotations

import gzip
import ipaddress
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import orjson

from sql import (
    bindings,
    chunks,
    errors,
    limits,
    parameters,
    queries,
    results,
    rowtypes,
    sessions,
    transfers,
)
from sql.dialect import names

JSON_CLIENTS = frozenset({"JAVASCRIPT", ".NET", "BOATHOUSESHELL"})
"""Clients that read no Arrow, by CLIENT_APP_ID in upper case."""

FORMAT_PARAMETERS: Mapping[str, str] = {
    "PYTHONCONNECTOR": "PYTHON_CONNECTOR_QUERY_RESULT_FORMAT",
    "GO": "GO_QUERY_RESULT_FORMAT",
    "JDBC": "JDBC_QUERY_RESULT_FORMAT",
    "ODBC": "ODBC_QUERY_RESULT_FORMAT",
}
"""The parameter of each client's result format."""

EVERY_FORMAT = "QUERY_RESULT_FORMAT"
"""The parameter of the result format of every client that reads Arrow."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LoginRequest:
    """The body of a login. authenticator: upper case; "SNOWFLAKE" if it names none."""

    authenticator: str
    login_name: str
    password: str
    token: str
    account_name: str
    client_app_id: str
    client_app_version: str
    session_parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryRequest:
    """The body of a query request. raw_bindings: decoded JSON; `sql.bindings` parses them.

    large_bindings: instead of these, the JSON text of large ones; `sql.compiler` decodes it.
    """

    text: str
    is_async: bool = False
    describe_only: bool = False
    raw_bindings: Mapping[str, Any] | None = None
    large_bindings: bytes | None = None
    raw_parameters: Mapping[str, Any] = field(default_factory=dict)
    bind_stage: str | None = None


# Requests


def inflate(body: bytes, encoding: str | None, *, limit_bytes: int) -> bytes:
    """Return the body without its content coding. Raises MalformedBody, or BodyTooLong of it."""
    coding = (encoding or "identity").strip().lower()
    if coding in ("", "identity"):
        return body
    if coding != "gzip":
        raise errors.MalformedBody(f"the content coding {coding[:20]!r} is not read here")
    inflater = zlib.decompressobj(wbits=31)
    try:
        plain = inflater.decompress(body, limit_bytes + 1)
    except zlib.error:
        raise errors.MalformedBody("the body is not gzip") from None
    if len(plain) > limit_bytes:
        raise errors.BodyTooLong(f"the body is longer than {limit_bytes} bytes")
    if not inflater.eof:
        raise errors.MalformedBody("the gzipped body ends too early")
    return plain


def parse_login(body: bytes) -> LoginRequest:
    """Return a login's body. Raises MalformedBody."""
    data = _object(_loaded(body).get("data"), "data")
    return LoginRequest(
        authenticator=_text(data, "AUTHENTICATOR").upper() or "SNOWFLAKE",
        login_name=_text(data, "LOGIN_NAME"),
        password=_text(data, "PASSWORD"),
        token=_text(data, "TOKEN"),
        account_name=_text(data, "ACCOUNT_NAME"),
        client_app_id=_text(data, "CLIENT_APP_ID"),
        client_app_version=_text(data, "CLIENT_APP_VERSION"),
        session_parameters=_object(data.get("SESSION_PARAMETERS") or {}, "SESSION_PARAMETERS"),
    )


def parse_query(body: bytes) -> QueryRequest:
    """Return a query request's body. Raises MalformedBody."""
    small = len(body) <= limits.QUERY_BODY_HERE_BYTES_MAX
    data = _loaded(body) if small else _loaded_in_parts(body)
    raw = data.get("bindings")
    return QueryRequest(
        text=_text(data, "sqlText"),
        is_async=data.get("asyncExec") is True,
        describe_only=data.get("describeOnly") is True,
        raw_bindings=None if raw is None or isinstance(raw, bytes) else _object(raw, "bindings"),
        large_bindings=raw if isinstance(raw, bytes) else None,
        raw_parameters=_object(data.get("parameters") or {}, "parameters"),
        bind_stage=_text(data, "bindStage") or None,
    )


def parse_abort(body: bytes) -> str:
    """Return the requestId that an abort names. Raises MalformedBody."""
    return _text(_loaded(body), "requestId")


def session_token(authorization: str | None) -> str | None:
    """Return the token of `Snowflake Token="..."`, or None. Logins send the word None."""
    if authorization is None:
        return None
    scheme, _, rest = authorization.strip().partition(" ")
    name, _, value = rest.strip().partition("=")
    if scheme.lower() != "snowflake" or name.strip().lower() != "token":
        return None
    token = value.strip().strip('"')
    return None if token in ("", "None") else token


def submission(
    request: QueryRequest,
    request_id: str,
    session: sessions.Session,
    bound: Mapping[str, bindings.Binding] | None = None,
) -> queries.Submission:
    """Return the submission. Raises SqlError for an invalid text, bind or parameter.

    bound: the parsed large bindings.
    """
    if len(request.text) > limits.TEXT_LENGTH_MAX:
        raise errors.too_complex(f"its text has more than {limits.TEXT_LENGTH_MAX:,} characters")
    if request.bind_stage:
        raise errors.unsupported("bind values on a stage")
    settings = parameters.from_statement(request.raw_parameters)
    return queries.Submission(
        text=request.text,
        request_id=request_id,
        bindings=bindings.parse(request.raw_bindings) if bound is None else bound,
        parameters=settings,
        describe_only=request.describe_only,
        is_async=request.is_async,
        select_format=select_format(session, settings),
    )


def select_format(
    session: sessions.Session, settings: Mapping[str, parameters.Value]
) -> results.Format:
    """Return the format of this client's SELECT results."""
    client = session.client_app_id.upper()
    if client in JSON_CLIENTS:
        return "json"
    name = FORMAT_PARAMETERS.get(client, FORMAT_PARAMETERS["PYTHONCONNECTOR"])
    named = (settings.get(name), settings.get(EVERY_FORMAT), session.parameter(EVERY_FORMAT))
    value = next(filter(None, named), session.parameter(name))
    return "json" if value == "JSON" else "arrow"


def _loaded(body: bytes) -> Mapping[str, Any]:
    try:
        return _object(orjson.loads(body or b"{}"), "the body")
    except orjson.JSONDecodeError:
        raise errors.MalformedBody("the body is not JSON") from None


def _loaded_in_parts(body: bytes) -> Mapping[str, Any]:
    """Like `_loaded` for a query request, but decode one member and one bind after the other.

    A decoder holds the interpreter until it ends, so a thread alone would block the event loop.
    Unknown members are not decoded, and large bindings stay JSON text.
    """
    try:
        members = MEMBERS.decode(body)
        if len(members.parameters) > limits.QUERY_PARAMETERS_BYTES_MAX:
            raise errors.MalformedBody(
                f"parameters are longer than {limits.QUERY_PARAMETERS_BYTES_MAX} bytes"
            )
        data = {name: _loaded_part(getattr(members, name)) for name in SMALL_MEMBERS}
        data["bindings"] = _loaded_bindings(memoryview(members.bindings))
        return data
    except msgspec.ValidationError:
        raise errors.MalformedBody("the body or its bindings are not an object") from None
    except (msgspec.DecodeError, orjson.JSONDecodeError, UnicodeDecodeError):
        raise errors.MalformedBody("the body is not JSON") from None


def _loaded_bindings(part: memoryview) -> Any:
    if len(part) > limits.BINDS_THREAD_BYTES_MAX:
        return bytes(part)
    if part.tobytes() == b"null":
        return None
    listed = BINDS.decode(part)
    if len(listed) > limits.BINDS_MAX:
        raise errors.bad_binding("list", f"has more than {limits.BINDS_MAX} names")
    return {name: orjson.loads(memoryview(each)) for name, each in listed.items()}


def _loaded_part(part: msgspec.Raw) -> Any:
    view = memoryview(part)
    if len(view) > limits.QUERY_PARAMETERS_BYTES_MAX and view[0] != ord('"'):
        return ()  # neither a text nor a flag nor parameters
    return orjson.loads(view)


class _Members(msgspec.Struct):
    """The members of a query request that are read, each as its JSON text."""

    sqlText: msgspec.Raw = msgspec.Raw(b"null")  # noqa: N815 - the protocol's names
    asyncExec: msgspec.Raw = msgspec.Raw(b"null")  # noqa: N815
    describeOnly: msgspec.Raw = msgspec.Raw(b"null")  # noqa: N815
    bindStage: msgspec.Raw = msgspec.Raw(b"null")  # noqa: N815
    parameters: msgspec.Raw = msgspec.Raw(b"null")
    bindings: msgspec.Raw = msgspec.Raw(b"null")


SMALL_MEMBERS = tuple(name for name in _Members.__struct_fields__ if name != "bindings")
MEMBERS = msgspec.json.Decoder(_Members)
BINDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _object(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise errors.MalformedBody(f"{name} is not an object")
    return value


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise errors.MalformedBody(f"{name} is not text")
    return value


# Answers


def success(data: Any, *, code: str | None = None, message: str | None = None) -> dict[str, Any]:
    """Return the envelope of a successful answer."""
    return {"data": data, "success": True, "code": code, "message": message}


def login_answer(grant: sessions.SessionGrant, limits: sessions.SessionLifetimes) -> dict[str, Any]:
    """Return the answer to a login."""
    session = grant.session
    return success(
        {
            "token": grant.token,
            "masterToken": grant.master_token,
            "sessionId": session.id,
            "validityInSeconds": limits.token_seconds,
            "masterValidityInSeconds": limits.master_seconds,
            "displayUserName": names.shown(session.login.name),
            "serverVersion": sessions.SERVER_VERSION,
            "firstLogin": False,
            "healthCheckInterval": 45,
            "newClientForUpgrade": None,
            "remMeToken": None,
            "remMeValidityInSeconds": 0,
            "idToken": None,
            "idTokenValidityInSeconds": 0,
            "mfaToken": None,
            "mfaTokenValidityInSeconds": 0,
            "responseData": None,
            "sessionInfo": {
                "databaseName": _reported_database(session.database),
                "schemaName": _reported(session.schema),
                "warehouseName": session.warehouse,
                "roleName": session.role,
            },
            "parameters": parameters.client_parameters(session.parameters),
        }
    )


def renewal_answer(
    grant: sessions.SessionGrant, limits: sessions.SessionLifetimes
) -> dict[str, Any]:
    """Return the answer to a renewal; each driver reads other names of the same numbers."""
    return success(
        {
            "sessionToken": grant.token,
            "masterToken": grant.master_token,
            "sessionId": grant.session.id,
            "validityInSecondsST": limits.token_seconds,
            "validityInSecondsMT": limits.master_seconds,
            "masterValidityInSeconds": limits.master_seconds,
        }
    )


def pending_answer(query: queries.SubmittedQuery) -> dict[str, Any]:
    """Return the answer for a query that still runs, with the URL of its result."""
    code = "333334" if query.submission.is_async else "333333"
    message = (
        "Query execution in progress. Asynchronous execution was requested."
        if query.submission.is_async
        else "Query execution in progress."
    )
    data = {
        "queryId": query.id,
        "getResultUrl": f"/queries/{query.id}/result",
        "queryAbortsAfterSecs": 300,
        "progressDesc": None,
    }
    return success(data, code=code, message=message)


def result_answer(
    query: queries.SubmittedQuery,
    result: queries.Result,
    *,
    origin: str,
    chunk_key: bytes,
    now_ms: int,
) -> dict[str, Any]:
    """Return a statement's answer. origin: the scheme and host that the client used."""
    data: dict[str, Any] = {
        "parameters": parameters.client_parameters(result.parameters),
        "rowtype": rowtypes.rowtype(result.columns),
        "total": result.total,
        "returned": result.total,
        "queryId": query.id,
        "databaseProvider": None,
        "finalDatabaseName": _reported_database(result.database),
        "finalSchemaName": _reported(result.schema),
        "finalWarehouseName": result.warehouse,
        "finalRoleName": result.role,
        "numberOfBinds": result.bind_count,
        "arrayBindSupported": result.array_bind_supported,
        "metaDataOfBinds": [],
        "statementTypeId": result.statement_type_id,
        "version": 1,
        "sendResultTime": now_ms,
        "queryResultFormat": result.format,
        "queryContext": {"entries": []},
    }
    name = "rowsetBase64" if result.format == "arrow" else "rowset"
    data[name] = orjson.Fragment(result.inline)
    if result.chunks:
        expires_at_ms = now_ms + limits.CHUNK_URL_SECONDS * 1000
        data["chunks"] = [
            {
                "url": origin + chunks.path(chunk_key, query.id, index, expires_at_ms),
                "rowCount": chunk.rows,
                "uncompressedSize": chunk.kept.size_bytes,
                "compressedSize": chunk.kept.size_bytes,
            }
            for index, chunk in enumerate(result.chunks)
        ]
        # Without an entry here, drivers take qrmk for a key and send encryption headers.
        data["chunkHeaders"] = {"x-boathouse-chunk": "1"}
        data["qrmk"] = None
    if result.stats is not None:
        data["stats"] = {
            "numRowsInserted": result.stats.rows_inserted,
            "numRowsUpdated": result.stats.rows_updated,
            "numRowsDeleted": result.stats.rows_deleted,
            "numDmlDuplicates": result.stats.dml_duplicates,
        }
    if result.children:
        data["resultIds"] = ",".join(query_id for query_id, _ in result.children)
        data["resultTypes"] = ",".join(str(type_id) for _, type_id in result.children)
    if result.transfer is not None:
        data |= transfers.answer(result.transfer, origin=origin)
    return success(data)


def monitor_answer(
    query: queries.SubmittedQuery | None, status: queries.Status | None, *, now_ms: int
) -> dict[str, Any]:
    """Return the status of a query; an empty list for an unknown query."""
    if query is None:
        return success({"queries": []})
    ended_at_ms = query.ended_at_ms if query.is_finished and query.ended_at_ms else 0
    fault = query.error
    return success(
        {
            "queries": [
                {
                    "id": query.id,
                    "status": status,
                    "state": status,
                    "errorCode": None if fault is None else fault.code,
                    "errorMessage": None if fault is None else fault.message,
                    "startTime": query.started_at_ms,
                    "endTime": ended_at_ms,
                    "totalDuration": min((ended_at_ms or now_ms) - query.started_at_ms, 2**31 - 1),
                    "sessionId": query.session_id,
                    "sqlText": query.submission.text,
                    "warehouseName": query.warehouse,
                    "warehouseId": 1,
                    "warehouseExternalSize": "X-Small",
                    "warehouseServerType": "STANDARD",
                    "clientSendTime": query.started_at_ms,
                }
            ]
        }
    )


def should_compress(size_bytes: int, accept_encoding: str | None, client_ip: str) -> bool:
    """Return whether to gzip an answer: it is large, and the client accepts gzip and is remote.

    For a client on the same machine, gzip costs time on both sides and saves no network.
    """
    if size_bytes < limits.GZIP_BYTES_MIN or accept_encoding is None:
        return False
    accepted = {part.partition(";")[0].strip().lower() for part in accept_encoding.split(",")}
    return bool(accepted & {"gzip", "*"}) and not _is_loopback(client_ip)


def compress(body: bytes) -> bytes:
    """Return the body gzipped at a fast level."""
    return gzip.compress(body, compresslevel=1, mtime=0)


def _is_loopback(client_ip: str) -> bool:
    try:
        return ipaddress.ip_address(client_ip).is_loopback
    except ValueError:
        return False


def _reported_database(table_bucket: str | None) -> str | None:
    return None if table_bucket is None else names.shown_database(table_bucket)


def _reported(stored: str | None) -> str | None:
    return None if stored is None else names.shown(stored)
