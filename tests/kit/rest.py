"""A bare client of the Iceberg REST catalog: one connection, JSON in and out, nothing hidden."""

from __future__ import annotations

import http.client
import json
import urllib.parse
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from tests.kit.server import Running

SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}],
}


class Client:
    """One keep-alive connection. Use one per thread."""

    def __init__(self, server: Running, *, token: str | None = None) -> None:
        self._connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
        self.token = token or self._login(server)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def ask(
        self,
        method: str,
        path: str,
        value: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Return the status and the JSON of the answer, None if it has no body."""
        status, _, body = self.raw(method, path, value, headers)
        return status, json.loads(body) if body else None

    def raw(
        self,
        method: str,
        path: str,
        value: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body of the answer to a request below the prefix `lake`."""
        body = None if value is None else json.dumps(value).encode()
        self._connection.request(
            method,
            f"/iceberg/v1/lake/{path}",
            body,
            {"authorization": f"Bearer {self.token}", **(headers or {})},
        )
        answer = self._connection.getresponse()
        return answer.status, {n.lower(): v for n, v in answer.getheaders()}, answer.read()

    def _login(self, server: Running) -> str:
        form = urllib.parse.urlencode(
            {
                "grant_type": "client_credentials",
                "client_id": server.access_key,
                "client_secret": server.secret_key,
            }
        )
        self._connection.request("POST", "/iceberg/v1/oauth/tokens", form.encode())
        answer = self._connection.getresponse()
        content = json.loads(answer.read())
        assert answer.status == 200, content
        return str(content["access_token"])

    def make_table(self, namespace: str, name: str, **properties: str) -> Any:
        self.ask("POST", "namespaces", {"namespace": [namespace]})
        status, created = self.ask(
            "POST",
            f"namespaces/{namespace}/tables",
            {"name": name, "schema": SCHEMA, "properties": properties},
        )
        assert status == 200, created
        return created

    def commit(
        self, namespace: str, name: str, updates: Any, requirements: Any = ()
    ) -> tuple[int, Any]:
        return self.ask(
            "POST",
            f"namespaces/{namespace}/tables/{name}",
            {"requirements": list(requirements), "updates": list(updates)},
        )


def append(metadata: Any, snapshot_id: int) -> tuple[list[Any], list[Any]]:
    """Return the updates and requirements of an append to a table seen like this."""
    parent = metadata.get("current-snapshot-id")
    snapshot = {
        "snapshot-id": snapshot_id,
        "sequence-number": metadata["last-sequence-number"] + 1,
        "timestamp-ms": metadata["last-updated-ms"] + 1,
        "manifest-list": f"{metadata['location']}/metadata/snap-{snapshot_id}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    if parent is not None and parent != -1:
        snapshot["parent-snapshot-id"] = parent
    else:
        parent = None
    updates = [
        {"action": "add-snapshot", "snapshot": snapshot},
        {
            "action": "set-snapshot-ref",
            "ref-name": "main",
            "type": "branch",
            "snapshot-id": snapshot_id,
        },
    ]
    requirements = [
        {"type": "assert-table-uuid", "uuid": metadata["table-uuid"]},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent},
    ]
    return updates, requirements
