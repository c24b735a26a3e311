"""The protocol by hand: one method per endpoint, bodies as they are on the wire."""

from __future__ import annotations

import gzip
import json
import urllib.error
import urllib.request
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.sql.rest import served


@dataclass(frozen=True, kw_only=True)
class Answer:
    """status, headers by lower-case name, and the body, decoded where it is JSON."""

    status: int
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        plain = gzip.decompress(self.raw) if self.is_gzipped else self.raw
        return json.loads(plain)

    @property
    def is_gzipped(self) -> bool:
        return self.headers.get("content-encoding") == "gzip"

    @property
    def data(self) -> Any:
        assert self.status == 200
        assert self.body["success"], self.body
        return self.body["data"]

    @property
    def code(self) -> str | None:
        assert self.status == 200
        return self.body["code"]


@dataclass
class Client:
    """A client without manners."""

    url: str
    token: str | None = None
    master_token: str | None = None
    session_id: int = 0

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 30,
    ) -> Answer:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        url = path if path.startswith("http") else self.url + path
        request = urllib.request.Request(url, data=data, method=method)
        request.add_header("Content-Type", "application/json")
        shown = token or self.token
        if shown is not None:
            request.add_header("Authorization", f'Snowflake Token="{shown}"')
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                return _answer(response.status, response.headers, response.read())
        except urllib.error.HTTPError as error:
            return _answer(error.code, error.headers, error.read())

    def login(self, *, query: str = "", **data: Any) -> Answer:
        fields = {
            "CLIENT_APP_ID": "PythonConnector",
            "CLIENT_APP_VERSION": "4.8.1",
            "ACCOUNT_NAME": "test",
            "LOGIN_NAME": served.ACCESS_KEY,
            "PASSWORD": served.SECRET_KEY,
            **data,
        }
        answer = self.send("POST", f"/session/v1/login-request?{query}", {"data": fields})
        if answer.body["success"]:
            self.token = answer.data["token"]
            self.master_token = answer.data["masterToken"]
            self.session_id = answer.data["sessionId"]
        return answer

    def renew(self, token: str | None = None) -> Answer:
        body = {"oldSessionToken": self.token, "requestType": "RENEW"}
        answer = self.send(
            "POST", "/session/token-request", body, token=token or self.master_token or "None"
        )
        if answer.body["success"]:
            self.token = answer.data["sessionToken"]
            self.master_token = answer.data["masterToken"]
        return answer

    def query(self, text: str, *, request_id: str | None = None, **more: Any) -> Answer:
        request_id = request_id or str(uuid.uuid4())
        path = f"/queries/v1/query-request?requestId={request_id}"
        return self.send("POST", path, {"sqlText": text, **more})

    def result(self, query_id: str) -> Answer:
        return self.send("GET", f"/queries/{query_id}/result")


def connected(face: served.Served, **data: Any) -> Client:
    client = Client(url=face.url)
    answer = client.login(**data)
    assert answer.body["success"], answer.body
    return client


def _answer(status: int, headers: Any, raw: bytes) -> Answer:
    return Answer(
        status=status, headers={name.lower(): value for name, value in headers.items()}, raw=raw
    )
