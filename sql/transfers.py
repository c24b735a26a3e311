"""rule: the answers of PUT and GET, by which a client uploads or downloads files itself.

The Python connector from release 5 on has a client of S3 that takes any endpoint, so it gets
temporary keys and the address of the S3 face. The clients of S3 in other drivers speak to AWS's
host names alone; these drivers get presigned URLs in the form of Google's storage, which they use
as they are. The URLs are of the S3 face as well.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from server.auth import presign, sigv4
from sql import errors

if TYPE_CHECKING:
    # The children of the server know the types of outcomes, and need no tokens: with them they
    # would load the library of signatures, a tenth of their start.
    from server.access import tokens

SECONDS: Final = 3600
"""How long the keys and the URLs of one PUT or GET hold."""
THRESHOLD_BYTES: Final = 200 << 20

Style = Literal["S3", "GCS"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Transfer:
    """The files of one PUT or GET.

    bucket, prefix: where they are; prefix ends in a slash. sources: of an upload, the client's
    path; of a download, keys below prefix. uploads: the keys that an upload may have, of which
    drivers with presigned URLs want the first.
    """

    command: Literal["UPLOAD", "DOWNLOAD"]
    style: Style
    bucket: str
    prefix: str
    sources: tuple[str, ...]
    local: str
    parallel: int
    keys: tokens.VendedKeys
    region: str
    signed_at_ms: int
    auto_compress: bool = True
    source_compression: str = "auto_detect"
    overwrite: bool = False


def style_of(client_app_id: str, client_app_version: str) -> Style:
    """Return how a driver reaches the S3 face."""
    major = client_app_version.partition(".")[0]
    is_python = client_app_id.upper() in ("PYTHONCONNECTOR", "PYTHONSNOWPARK")
    return "S3" if is_python and major.isdecimal() and int(major) >= 5 else "GCS"


def check_bound_upload(local: str, client_app_id: str, client_app_version: str) -> None:
    """Raise SqlError for a PUT of several files whose stage is a bind, by presigned URLs.

    Drivers ask for each file's URL by the text of the PUT, and without the bind they do not: they
    would upload all files to the one URL of this answer, each over the one before.
    """
    if style_of(client_app_id, client_app_version) == "GCS" and any(
        character in local for character in "*?"
    ):
        raise errors.unsupported("PUT of several files to a stage that is a bind, by this driver")


def answer(transfer: Transfer, *, origin: str) -> dict[str, Any]:
    """Return the members of a statement's answer. origin: the scheme and host of the client."""
    uploads = transfer.command == "UPLOAD"
    stage_info: dict[str, Any] = {
        "locationType": transfer.style,
        "location": f"{transfer.bucket}/{transfer.prefix}",
        "path": transfer.prefix,
        "region": transfer.region,
        "storageAccount": None,
        "isClientSideEncrypted": False,
        "creds": {},
        "presignedUrl": None,
        "endPoint": None,
        "useS3RegionalUrl": False,
        "useRegionalUrl": False,
        "useVirtualUrl": False,
    }
    presigned: list[str] = []
    if transfer.style == "S3":
        stage_info["endPoint"] = origin
        stage_info["creds"] = {
            "AWS_KEY_ID": transfer.keys.access_key,
            "AWS_SECRET_KEY": transfer.keys.secret_key,
            "AWS_TOKEN": transfer.keys.session_token,
        }
    elif uploads:
        name = file_name(transfer.sources[0])
        stage_info["presignedUrl"] = presigned_url(transfer, "PUT", name, origin=origin)
    else:
        presigned = [
            presigned_url(transfer, "GET", source, origin=origin) for source in transfer.sources
        ]
    return {
        "command": transfer.command,
        "src_locations": list(transfer.sources),
        "localLocation": None if uploads else transfer.local,
        "autoCompress": transfer.auto_compress,
        "sourceCompression": transfer.source_compression.lower(),
        "overwrite": transfer.overwrite,
        "parallel": transfer.parallel,
        "threshold": THRESHOLD_BYTES,
        "encryptionMaterial": None if uploads else [],
        "clientShowEncryptionParameter": False,
        "presignedUrls": presigned,
        "stageInfo": stage_info,
        "kind": None,
        "operation": "Node",
    }


def file_name(local: str) -> str:
    """Return the last part of a client's path."""
    return local.replace("\\", "/").rpartition("/")[2]


def presigned_url(transfer: Transfer, method: str, name: str, *, origin: str) -> str:
    """Return the URL of one file, with a signature of version 4 in its query."""
    path = urllib.parse.quote(f"/{transfer.bucket}/{transfer.prefix}{name}", safe="/~")
    timestamp = sigv4.format_timestamp(transfer.signed_at_ms)
    scope = f"{timestamp[:8]}/{transfer.region}/s3/{sigv4.TERMINATOR}"
    parameters: Mapping[str, str] = {
        "X-Amz-Algorithm": sigv4.ALGORITHM,
        "X-Amz-Credential": f"{transfer.keys.access_key}/{scope}",
        "X-Amz-Date": timestamp,
        "X-Amz-Expires": str(SECONDS),
        "X-Amz-Security-Token": transfer.keys.session_token,
        "X-Amz-SignedHeaders": "host",
    }
    query = urllib.parse.urlencode(sorted(parameters.items()), quote_via=urllib.parse.quote)
    if method == "GET":
        query += f"&{presign.ALSO_HEAD.decode()}"  # the Go driver asks for the size with HEAD
    host = urllib.parse.urlsplit(origin).netloc
    canonical = sigv4.canonical_request(
        method=method,
        path=path.encode(),
        query=sigv4.canonical_query(query.encode()),
        headers=sigv4.canonical_headers({b"host": host.encode()}, (b"host",)),
        names=(b"host",),
        payload_hash="UNSIGNED-PAYLOAD",
    )
    key = sigv4.signing_key(
        transfer.keys.secret_key, date=timestamp[:8], region=transfer.region, service="s3"
    )
    signature = sigv4.sign(key, sigv4.string_to_sign(timestamp, scope, canonical))
    return f"{origin}{path}?{query}&X-Amz-Signature={signature}"
