"""engine: finds the running server, and watches it while Spark works.

A server writes its address to `running.json` in its data folder and its root key pair to
`root.json`. A job on another machine gets the URL as an argument and the keys from the environment.
`watched` polls the server's health, because Spark's clients retry for minutes when the server has
died.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pipeline import errors, jars, settings

DEFAULT_REGION = "us-east-1"
RUNNING_FILE = "running.json"
SILENCE_SECONDS = 30.0
"""How long a server may fail to answer before a job ends."""

ASK_SECONDS = 2.0
ANSWER_SECONDS = 5.0
CERTIFICATES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "AWS_CA_BUNDLE")
"""Variables that name a file of certificates: OpenSSL's, those of requests and of AWS's SDKs."""


def find(
    *, url: str | None, data: str, environment: Mapping[str, str], region: str | None
) -> settings.ServerEndpoint:
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
        running = _read(folder / RUNNING_FILE, data, needs=("url",))
        url = running["url"]
        region = region or running.get("region")
    if access_key is None or secret_key is None:
        keys = _read(folder / "root.json", data, needs=("access_key", "secret_key"))
        access_key, secret_key = keys["access_key"], keys["secret_key"]
    return settings.ServerEndpoint(
        url=url.rstrip("/"),
        access_key=access_key,
        secret_key=secret_key,
        region=region or DEFAULT_REGION,
        session_token=environment.get("BOATHOUSE_SESSION_TOKEN", ""),
        bearer=environment.get("BOATHOUSE_TOKEN", ""),
    )


def trust(data: str, environment: MutableMapping[str, str]) -> None:
    """Let this process and its children trust the certificate of the server of a data folder.

    A server with a certificate names a file with it in its `running.json`. Where variables of
    environment name other files, a file with the certificates of all is written into the cache.
    Raises NoServer if one of them cannot be read.
    """
    try:
        running = _read(Path(data) / RUNNING_FILE, data, needs=("certificates",))
    except errors.NoServer:
        return  # no server runs there, or it has no certificate
    bundle = Path(running["certificates"])
    named = [environment.get(name) for name in CERTIFICATES]
    files = dict.fromkeys([bundle, *(Path(file) for file in named if file)])
    try:
        if len(files) > 1:
            content = b"\n".join(file.read_bytes() for file in files)
            cache = jars.cache_folder(environment)
            bundle = cache / f"certificates-{hashlib.sha256(content).hexdigest()[:16]}.pem"
            if not bundle.exists():
                cache.mkdir(parents=True, exist_ok=True)
                partial = bundle.with_suffix(f".{os.getpid()}.partial")
                partial.write_bytes(content)
                partial.replace(bundle)
    except OSError as error:
        raise errors.NoServer(
            f"the certificates of {error.filename} cannot be used: {error.strerror or error}"
        ) from error
    environment.update(dict.fromkeys(CERTIFICATES, str(bundle)))


@contextlib.contextmanager
def watched(server: settings.ServerEndpoint, *, give_up: Callable[[], None]) -> Iterator[None]:
    """Call give_up, from a thread, once the server has not answered for SILENCE_SECONDS.

    An error that the block raises after that becomes NoServer with the server's URL and what to do,
    and so do SparkFailed and the NoServer of a single request while the server does not answer.
    """
    ended, gave_up = threading.Event(), threading.Event()

    def watch() -> None:
        answered = time.monotonic()
        while not ended.wait(ASK_SECONDS):
            if answers(server):
                answered = time.monotonic()
            elif time.monotonic() - answered >= SILENCE_SECONDS and not ended.is_set():
                gave_up.set()
                give_up()
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    except Exception as error:
        may_be_gone = isinstance(error, errors.SparkFailed | errors.NoServer)
        if not gave_up.is_set() and not (may_be_gone and not answers(server)):
            raise
        raise errors.NoServer(
            f"the server at {server.url} does not answer; start it and run the same command "
            "again: it continues with what is missing"
        ) from error
    finally:
        ended.set()
        thread.join()


def answers(server: settings.ServerEndpoint) -> bool:
    """Return whether a server answers now."""
    try:
        with urllib.request.urlopen(f"{server.url}/_health", timeout=ANSWER_SECONDS):
            return True
    except urllib.error.HTTPError:
        return True
    except (OSError, http.client.HTTPException):
        return False


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise errors.BadArgument(f"--url {url!r} is not a URL: write http://HOST:PORT")


def _read(path: Path, data: str, *, needs: tuple[str, ...]) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        raise errors.NoServer(
            f"no server runs on the data folder {data!r} (it has no {path.name}); start one "
            "with `make run`, or name another folder with --data, or a server with --url and its "
            "keys in BOATHOUSE_ACCESS_KEY and BOATHOUSE_SECRET_KEY"
        ) from None
    except (OSError, ValueError) as error:
        raise errors.NoServer(f"{path} cannot be read: {error}") from error
    if not isinstance(content, dict) or not all(isinstance(content.get(n), str) for n in needs):
        raise errors.NoServer(f"{path} does not hold {' and '.join(needs)} in a JSON object")
    return content
