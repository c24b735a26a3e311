"""engine: finds the running server, through its data folder or as told.

A server started with a data folder leaves its address in `running.json` there and its root key
pair in `root.json`; a job on another machine is told the URL and takes the keys from the
environment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pipeline import errors, settings

DEFAULT_REGION = "us-east-1"


def find(
    *, url: str | None, data: str, environment: Mapping[str, str], region: str | None
) -> settings.Server:
    """Return the server to work with. Raises BadArgument, NoServer."""
    access_key = environment.get("BOATHOUSE_ACCESS_KEY")
    secret_key = environment.get("BOATHOUSE_SECRET_KEY")
    if (access_key is None) != (secret_key is None):
        raise errors.BadArgument(
            "BOATHOUSE_ACCESS_KEY and BOATHOUSE_SECRET_KEY go together; one of them is not set"
        )
    if url is not None:
        _check_url(url)
    folder = Path(data)
    region = region or environment.get("BOATHOUSE_REGION")
    if url is None:
        running = _read(folder / "running.json", data, needs=("url",))
        url = running["url"]
        region = region or running.get("region")
    if access_key is None or secret_key is None:
        keys = _read(folder / "root.json", data, needs=("access_key", "secret_key"))
        access_key, secret_key = keys["access_key"], keys["secret_key"]
    return settings.Server(
        url=url.rstrip("/"),
        access_key=access_key,
        secret_key=secret_key,
        region=region or DEFAULT_REGION,
    )


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise errors.BadArgument(f"--url {url!r} is not a URL: write http://HOST:PORT")


def _read(path: Path, data: str, *, needs: tuple[str, ...]) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        raise errors.NoServer(
            f"no server runs on the data folder {data!r} ({path.name} is not there); start one "
            "with `make run`, or say --data DIR, or --url with BOATHOUSE_ACCESS_KEY and "
            "BOATHOUSE_SECRET_KEY in the environment"
        ) from None
    except (OSError, ValueError) as error:
        raise errors.NoServer(f"{path} cannot be read: {error}") from error
    if not isinstance(content, dict) or not all(isinstance(content.get(n), str) for n in needs):
        raise errors.NoServer(f"{path} does not hold {' and '.join(needs)} in a JSON object")
    return content
