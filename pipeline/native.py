"""engine: requests to the server's native API, `/_api/v1`."""

from __future__ import annotations

import base64
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Literal

from pipeline import errors, settings

ANSWER_SECONDS = 30.0


def ask(
    server: settings.ServerEndpoint,
    method: Literal["GET", "POST", "PATCH", "DELETE"],
    path: str,
    body: Mapping[str, Any] | None = None,
) -> Mapping[str, Any]:
    """Return the answer to a request. path: below `/_api/v1/`, quoted, with its query.

    Raises PipelineError with the server's words if it refuses, NoServer if it does not answer.
    """
    pair = f"{server.access_key}:{server.secret_key}".encode()
    request = urllib.request.Request(
        f"{server.url}/_api/v1/{path}",
        method=method,
        data=None if body is None else json.dumps(body, default=str).encode(),
        headers={
            "Authorization": "Basic " + base64.b64encode(pair).decode(),
            "Content-Type": "application/json",
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
            content: Mapping[str, Any] = json.load(answer)
            return content
    except urllib.error.HTTPError as error:
        raise errors.PipelineError(_message(error)) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise errors.NoServer(f"the server does not answer: {error}") from error


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"]["message"])
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return f"the server refused: {error}"
