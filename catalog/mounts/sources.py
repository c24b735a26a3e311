"""engine: the files of mounted tables: from S3, or from a folder that the operator names.

A URI comes from the other catalog's metadata, so it decides nothing but the path: the endpoint is
the operator's, or the other catalog's own, and a local file lies below the folder. Blocks; for
threads.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from catalog import errors, properties
from catalog.mounts import transport
from server import mounts as settings
from storage import disk, model

STEP_BYTES: Final = 1 << 20

_CREDENTIAL_KEYS: Final = (
    "s3.access-key-id", "s3.secret-access-key", "s3.session-token", "s3.endpoint", "s3.region",
    "client.region",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class StorageGrants:
    """What the other catalog says of a table's storage. entries: (prefix, settings)."""

    entries: tuple[tuple[str, Mapping[str, str]], ...] = field(default=(), repr=False)

    def of(self, uri: str) -> Mapping[str, str]:
        """Return the settings for a URI: those of the longest prefix."""
        fitting = [each for each in self.entries if uri.startswith(each[0])]
        return max(fitting, key=lambda each: len(each[0]))[1] if fitting else {}


def vended(config: Mapping[str, str], listed: Sequence[Mapping[str, Any]]) -> StorageGrants:
    """Return the storage settings of an answer to loadTable. Ill-formed entries are left out."""
    common = {key: config[key] for key in _CREDENTIAL_KEYS if key in config}
    entries: list[tuple[str, Mapping[str, str]]] = [("", common)]
    for each in listed:
        prefix, further = each.get("prefix"), each.get("config")
        if isinstance(prefix, str) and isinstance(further, dict):
            own = {key: str(further[key]) for key in _CREDENTIAL_KEYS if key in further}
            entries.append((prefix, {**common, **own}))
    return StorageGrants(entries=tuple(entries))


class FileSource:
    """Reads the files of one mount."""

    def __init__(self, mount: settings.Mount, *, local: disk.Disk, now_ms: model.NowMs) -> None:
        self._mount = mount
        self._disk = local
        self._now_ms = now_ms

    def read(
        self, uri: str, write: Callable[[bytes], None], *, vended: StorageGrants, bytes_max: int
    ) -> int:
        """Pass a file's bytes to write, and return their number.

        Raises MetadataFileMissing, MountUnavailable.
        """
        scheme, separator, rest = uri.partition("://")
        if separator and scheme in properties.SCHEMES:
            return self._from_s3(uri, rest, write, vended, bytes_max)
        return self._from_folder(uri, write, bytes_max)

    def addresses(self, uri: str, vended: StorageGrants) -> dict[str, str]:
        """Return the S3 endpoint and region of a URI as a client's settings, without keys."""
        if uri.partition("://")[0] not in properties.SCHEMES:
            return {}
        storage_settings = vended.of(uri)
        region = self._region(storage_settings)
        try:
            endpoint = self._endpoint(storage_settings, region)
        except errors.MountUnavailable:
            return {}
        return {"s3.endpoint": endpoint, "s3.region": region, "client.region": region}

    def _region(self, storage_settings: Mapping[str, str]) -> str:
        named = storage_settings.get("s3.region") or storage_settings.get("client.region")
        return self._mount.region or named or "us-east-1"

    def _from_s3(
        self,
        uri: str,
        path: str,
        write: Callable[[bytes], None],
        vended: StorageGrants,
        bytes_max: int,
    ) -> int:
        mount, storage_settings = self._mount, vended.of(uri)
        bucket, _, key = path.partition("/")
        if not bucket or not key:
            raise errors.MetadataFileMissing(f"Failed to open input stream for file: {uri}")
        region = self._region(storage_settings)
        keys = None
        if mount.access_key and not mount.sigv4:
            keys = (mount.access_key, mount.secret_key, mount.session_token)
        elif storage_settings.get("s3.access-key-id") and storage_settings.get(
            "s3.secret-access-key"
        ):
            keys = (
                storage_settings["s3.access-key-id"],
                storage_settings["s3.secret-access-key"],
                storage_settings.get("s3.session-token", ""),
            )
        elif mount.access_key:
            keys = (mount.access_key, mount.secret_key, mount.session_token)
        target = transport.RequestTarget(
            mount=mount.name,
            url=f"{self._endpoint(storage_settings, region)}/{_quoted(bucket)}/{_quoted(key)}",
            timeout_seconds=mount.timeout_seconds,
            now_ms=self._now_ms(),
        )
        signed = None
        if keys is not None:
            signed = transport.Keys(
                access_key=keys[0],
                secret_key=keys[1],
                session_token=keys[2],
                region=region,
                service="s3",
            )
        return transport.download(target, write, keys=signed, bytes_max=bytes_max)

    def _endpoint(self, storage_settings: Mapping[str, str], region: str) -> str:
        """Return the S3 endpoint: the operator's, the other catalog's own server, or AWS's.

        Another host that the catalog names is not contacted: the server could be led anywhere.
        """
        if self._mount.s3_endpoint:
            return self._mount.s3_endpoint.rstrip("/")
        named = storage_settings.get("s3.endpoint", "").rstrip("/")
        own = urllib.parse.urlsplit(self._mount.uri)
        if named and urllib.parse.urlsplit(named)[:2] == own[:2]:
            return f"{own.scheme}://{own.netloc}"
        if named and not _is_amazon(named):
            raise errors.MountUnavailable(
                f"The mount {self._mount.name} is not available: its catalog names the S3 endpoint"
                f" {named[:200]}, which is another host: set s3_endpoint if that is right"
            )
        return f"https://s3.{region}.amazonaws.com"

    def _from_folder(self, uri: str, write: Callable[[bytes], None], bytes_max: int) -> int:
        path = _local_path(uri)
        missing = errors.MetadataFileMissing(f"Failed to open input stream for file: {uri[:1000]}")
        if path is None or not self._mount.folder:
            raise missing
        try:
            root = Path(self._mount.folder).resolve(strict=True)
            real = path.resolve(strict=True)
            if not real.is_relative_to(root) or not real.is_file():
                raise missing
            descriptor = self._disk.open(real)
        except (OSError, ValueError, RuntimeError):
            raise missing from None
        try:
            done = 0
            while data := self._disk.read_at(descriptor, done, STEP_BYTES):
                done += len(data)
                if done > bytes_max:
                    raise errors.MountUnavailable(
                        f"The mount {self._mount.name} is not available: {uri[:1000]} is longer"
                        f" than {bytes_max} bytes"
                    )
                write(data)
        finally:
            self._disk.close(descriptor)
        return done


def _local_path(uri: str) -> Path | None:
    """Return the path of a file URI or of an absolute path, None for another URI."""
    if uri.startswith("file:"):
        parts = urllib.parse.urlsplit(uri)
        if parts.netloc not in ("", "localhost"):
            return None
        return Path(urllib.parse.unquote(parts.path))
    return Path(uri) if uri.startswith("/") else None


def _is_amazon(url: str) -> bool:
    try:
        host = urllib.parse.urlsplit(url).hostname or ""
    except ValueError:
        return False
    return host.endswith(".amazonaws.com")


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="/~-._")
