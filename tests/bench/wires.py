"""The Snowflake protocol by hand, for the bench: no driver's own cost."""

from __future__ import annotations

import json
import urllib.request
import uuid
from typing import Any

from tests.kit import server as server_kit


class Wire:
    """The Snowflake protocol by hand: log in, query."""

    def __init__(self, running: server_kit.Running, *, schema: str = "") -> None:
        self.url = running.url
        self.token = "None"
        database = f"?databaseName=lake&schemaName={schema}" if schema else ""
        data = self.post(
            f"/session/v1/login-request{database}",
            {
                "data": {
                    "ACCOUNT_NAME": "bench",
                    "LOGIN_NAME": running.access_key,
                    "PASSWORD": running.secret_key,
                    "CLIENT_APP_ID": "PythonConnector",
                    "CLIENT_APP_VERSION": "4.8.1",
                    "SESSION_PARAMETERS": {},
                }
            },
        )
        self.token = data["token"]

    def query(self, text: str) -> Any:
        """Run one statement; return its data with the first rows. Chunks are read and dropped."""
        data = self.post(f"/queries/v1/query-request?requestId={uuid.uuid4()}", {"sqlText": text})
        for chunk in data.get("chunks") or ():
            with urllib.request.urlopen(chunk["url"]) as answer:
                answer.read()
        return data

    def post(self, path: str, body: Any) -> Any:
        request = urllib.request.Request(
            self.url + path,
            data=json.dumps(body).encode(),
            headers={
                "Content-Type": "application/json",
                "Accept": "application/snowflake",
                "Authorization": f'Snowflake Token="{self.token}"',
            },
        )
        with urllib.request.urlopen(request) as answer:
            said = json.loads(answer.read())
        assert said["success"], said
        return said["data"]
