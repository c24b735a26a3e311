"""face: the Snowflake protocol's answers to errors of every floor.

Errors of statements and sessions have status 200, because drivers retry a 5xx for seconds or
without end. Only a busy server answers 503, so that drivers retry. This module imports no engine,
so that a refusal before the first query starts none.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import orjson

from server import asgi
from server import errors as kit_errors
from server.access import errors as access_errors
from sql import errors

JSON: Final = ("content-type", "application/json")

log = logging.getLogger("boathouse.sql.face")


def fault_answer(error: errors.SqlError, query_id: str | None) -> dict[str, Any]:
    """Return the answer to a statement that failed."""
    data = {
        "internalError": False,
        "unredactedFromSecureObject": False,
        "errorCode": error.code,
        "sqlState": error.sqlstate,
        "queryId": query_id,
        "age": 0,
        "line": -1 if error.line is None else error.line,
        "pos": -1 if error.position is None else error.position,
        "type": error.phase,
    }
    return {"data": data, "success": False, "code": error.code, "message": error.message}


def refusal_answer(fault: errors.SessionFault) -> dict[str, Any]:
    """Return the answer to a refused login or token."""
    data = {
        "internalError": False,
        "errorCode": fault.code,
        "sqlState": fault.sqlstate,
        "queryId": None,
        "age": 0,
        "line": -1,
        "pos": -1,
        "type": "RUNTIME",
        "nextAction": "RETRY_LOGIN",
        "authnMethod": "USERNAME_PASSWORD",
        "signInOptions": {},
    }
    return {"data": data, "success": False, "code": fault.code, "message": fault.message}


def json_answer(answer: Mapping[str, Any], status: int = 200) -> asgi.Response:
    """Return an answer in the protocol's envelope."""
    return asgi.Response(status, (JSON,), orjson.dumps(answer))


def encode(error: Exception, request: asgi.Request) -> asgi.Response:
    """Return the answer for an error. An unknown error is logged, and answered as internal."""
    match error:
        case errors.SessionFault():
            return json_answer(refusal_answer(error))
        case errors.SqlError():
            return json_answer(fault_answer(error, None))
        case access_errors.AccessDenied():
            return json_answer(fault_answer(errors.not_authorized(str(error)), None))
        case kit_errors.ServerBusy():
            return asgi.Response(503, (("retry-after", "1"),))
        case errors.MalformedBody() | kit_errors.KitError() | RecursionError():
            return json_answer(fault_answer(errors.malformed_request(str(error)), None))
        case _:
            log.error("request %s failed", request.request_id, exc_info=error)
            return json_answer(fault_answer(errors.internal_error(request.request_id), None))
