"""engine: the key files of a data folder, created at first start.

`root.json` holds the root key pair, for the operator; `keys.json` the keys that sign tokens and
derive secrets. Both are written by the disk's one recipe, mode 0600. A key pair from the
environment takes precedence over root.json and is not stored.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from server.access import errors, tokens

ROOT_FILE: Final = "root.json"
KEYS_FILE: Final = "keys.json"
FORMAT: Final = 1

RandomBytes: TypeAlias = Callable[[int], bytes]
"""A source of secrets: that many unpredictable bytes."""


class KeyDisk(Protocol):
    """The methods of `storage.disk.Disk` that this module uses."""

    def exists(self, path: Path) -> bool: ...

    def read_file(self, path: Path) -> bytes: ...

    def write_file(self, path: Path, data: bytes, *, mode: int = ...) -> None: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class RootKeys:
    """The root key pair. created: whether this start created it, so that it is shown once."""

    access_key: str
    secret_key: str
    created: bool


def open_root(
    folder: Path,
    *,
    disk: KeyDisk,
    random_bytes: RandomBytes,
    access_key: str | None = None,
    secret_key: str | None = None,
) -> RootKeys:
    """Return the root key pair: the arguments, or root.json's, or a new one, which is stored.

    Raises CorruptKeys.
    """
    if access_key is not None and secret_key is not None:
        return RootKeys(access_key=access_key, secret_key=secret_key, created=False)
    path = folder / ROOT_FILE
    if disk.exists(path):
        match _read(disk, path):
            case {"access_key": str(stored_key), "secret_key": str(secret)} if (
                stored_key and secret
            ):
                return RootKeys(access_key=stored_key, secret_key=secret, created=False)
        raise _corrupt(path)
    new_keys = RootKeys(
        access_key="BH" + base64.b32encode(random_bytes(12)).decode().rstrip("=")[:18],
        secret_key=base64.urlsafe_b64encode(random_bytes(30)).decode(),
        created=True,
    )
    _write(disk, path, {"access_key": new_keys.access_key, "secret_key": new_keys.secret_key})
    return new_keys


def open_ring(folder: Path, *, disk: KeyDisk, random_bytes: RandomBytes) -> tokens.KeyRing:
    """Return the signing keys of keys.json, which is created if absent. Raises CorruptKeys."""
    path = folder / KEYS_FILE
    if not disk.exists(path):
        _write(
            disk,
            path,
            {
                "signing": [{"key_id": random_bytes(8).hex(), "secret": random_bytes(32).hex()}],
                "master": random_bytes(32).hex(),
            },
        )
    try:
        match _read(disk, path):
            case {"signing": [_, *_] as signing, "master": str(master)}:
                return tokens.KeyRing(
                    keys=tuple(
                        tokens.SigningKey(
                            key_id=str(entry["key_id"]), secret=_secret(entry["secret"])
                        )
                        for entry in signing
                    ),
                    master=_secret(master),
                )
    except (KeyError, TypeError, ValueError):
        raise _corrupt(path) from None
    raise _corrupt(path)


def _secret(text: Any) -> bytes:
    secret = bytes.fromhex(text)
    if len(secret) < 32:
        raise ValueError("a signing secret has at least 32 bytes")
    return secret


def _read(disk: KeyDisk, path: Path) -> Any:
    try:
        document = json.loads(disk.read_file(path))
    except ValueError:
        raise _corrupt(path) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise _corrupt(path)
    return document


def _write(disk: KeyDisk, path: Path, content: dict[str, Any]) -> None:
    data = json.dumps({"format": FORMAT, **content}, indent=2) + "\n"
    disk.write_file(path, data.encode(), mode=0o600)


def _corrupt(path: Path) -> errors.CorruptKeys:
    return errors.CorruptKeys(
        f"{path} cannot be read; restore it from a backup, or move it away to get new keys",
        path=str(path),
    )
