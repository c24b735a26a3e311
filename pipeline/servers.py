"""engine: finds the running server, through its data folder or as told.

A server started with a data folder leaves its address in `running.json` there and its root key
pair in `root.json`; a job on another machine is told the URL and takes the keys from the
environment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pipeline import errors, settings

DEFAULT_REGION = "us-east-1"


def find(
    *, url: str | None, data: str, environment: Mapping[str, str], region: str | None
) -> settings.Server:
    """Return the server to work with. Raises NoServer."""
    access_key = environment.get("BOATHOUSE_ACCESS_KEY")
    secret_key = environment.get("BOATHOUSE_SECRET_KEY")
    folder = Path(data)
    if url is None:
        url = str(_read(folder / "running.json", data)["url"])
    if access_key is None or secret_key is None:
        keys = _read(folder / "root.json", data)
        access_key, secret_key = str(keys["access_key"]), str(keys["secret_key"])
    return settings.Server(
        url=url.rstrip("/"),
        access_key=access_key,
        secret_key=secret_key,
        region=region or environment.get("BOATHOUSE_REGION", DEFAULT_REGION),
    )


def _read(path: Path, data: str) -> Mapping[str, object]:
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
    if not isinstance(content, dict):
        raise errors.NoServer(f"{path} does not hold a JSON object")
    return content
