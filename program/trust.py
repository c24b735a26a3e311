"""wiring: programs of this machine trust the certificate of the server that they are clients of.

Jobs, the load of samples, `mini.py sql` and pipelines run by hand reach the server by its URL. With
a certificate that the server's owner signed, no authority's list holds it, so each of them would
refuse the server that it belongs to. They get one file with the certificates that they trust anyway
and the server's own.
"""

from __future__ import annotations

import importlib.util
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from server import config

if TYPE_CHECKING:
    from storage.disk import Disk

VARIABLES: Final = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "AWS_CA_BUNDLE")
"""Variables that name a file of certificates: OpenSSL's, those of requests and of AWS's SDKs."""

HANDSHAKE_SECONDS: Final = 5.0

_CERTIFICATE: Final = re.compile(
    rb"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----", re.ASCII
)

BUNDLE_FILE: Final = "certificates.pem"
"""The file in the data folder, while a server with a certificate runs."""


def check_pair(certificate: str, key: str) -> None:
    """Raise InvalidConfig, naming the flags, for files that TLS cannot be served with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # An empty password, so that an encrypted key is an error and no question at the terminal.
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:
        raise config.InvalidConfig(
            f"--tls-cert {certificate} and --tls-key {key} are no certificate and its key, in PEM "
            f"and not encrypted: {error}"
        ) from None


def write_bundle(
    certificate: Path, folder: Path, *, disk: Disk, environment: Mapping[str, str]
) -> Path:
    """Write the file; return its absolute path, for each of VARIABLES.

    certificate: the server's chain, in PEM; a key that stands beside it stays out. folder: gets
    BUNDLE_FILE. environment: its VARIABLES name what is trusted beside; where it lacks one, that is
    also what OpenSSL and requests trust by default, because each of VARIABLES names this file from
    now on. Raises InvalidConfig if a file has no certificate or cannot be read.
    """
    own = _certificates(certificate, "--tls-cert")
    named = [(environment.get(name), name) for name in VARIABLES]
    others = {Path(file): name for file, name in named if file}
    if not all(file for file, _ in named):
        others |= dict(_defaults())
    texts = [text for file, name in others.items() for text in _certificates(file, name)]
    path = folder.absolute() / BUNDLE_FILE
    disk.write_file(path, b"\n".join(dict.fromkeys([*own, *texts])) + b"\n")
    return path


def refusal(url: str, bundle: Path) -> str | None:
    """Return why a client that trusts the file refuses the server at url; None if it does not.

    Shakes hands with it once, so not on the event loop that serves.
    """
    place = urlsplit(url)
    host = place.hostname or ""
    try:
        trusted = ssl.create_default_context(cafile=str(bundle))
        with (
            socket.create_connection((host, place.port), HANDSHAKE_SECONDS) as plain,
            trusted.wrap_socket(plain, server_hostname=host),
        ):
            return None
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except OSError as error:
        return str(error)


def _defaults() -> Iterator[tuple[Path, str]]:
    """Yield files of certificates that are trusted where no variable names one, if they exist."""
    system = ssl.get_default_verify_paths().cafile
    if system and Path(system).is_file():
        yield Path(system), "OpenSSL's default"
    # The package that requests reads its certificates from; this program needs only that file.
    package = importlib.util.find_spec("certifi")
    for folder in (package and package.submodule_search_locations) or ():
        if (file := Path(folder) / "cacert.pem").is_file():
            yield file, "certifi's"


def _certificates(file: Path, name: str) -> list[bytes]:
    try:
        texts = _CERTIFICATE.findall(file.read_bytes())
    except OSError as error:
        raise config.InvalidConfig(
            f"{name} {file} cannot be read: {error.strerror or error}"
        ) from error
    if not texts:
        raise config.InvalidConfig(f"{name} {file} holds no certificate")
    return texts
