"""engine: reads a small document of an identity provider, over TLS or from this machine.

One request per document: no redirect, no proxy, no credentials, an address that
`providers.may_connect` allows, a bound on its size and one on the whole time. A certificate that
the system does not trust is accepted if its SHA-1 digest is among the provider's thumbprints, as
AWS accepts those of private authorities.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import socket
import ssl
import threading
from collections.abc import Sequence
from typing import Final

from server.oidc import errors, providers

SECONDS_MAX: Final = 10.0
"""How long one document may take, from the connection to the last byte."""
DOCUMENT_BYTES_MAX: Final = 256 * 1024


def fetch(target: providers.FetchTarget, thumbprints: Sequence[str]) -> bytes:
    """Return the document at a target. Blocks. Raises ProviderUnreachable.

    thumbprints: SHA-1 digests of certificates, in lower-case hexadecimal.
    """
    try:
        return _fetch(target, None)
    except ssl.SSLCertVerificationError as error:
        if not thumbprints:
            raise _unreachable(target, error) from error
    except (OSError, http.client.HTTPException, UnicodeError) as error:
        raise _unreachable(target, error) from error
    try:
        return _fetch(target, frozenset(thumbprints))
    except (OSError, http.client.HTTPException, UnicodeError) as error:
        raise _unreachable(target, error) from error


def _fetch(target: providers.FetchTarget, thumbprints: frozenset[str] | None) -> bytes:
    with contextlib.ExitStack() as stack:
        plain = stack.enter_context(_connect(target))
        # A sender of single bytes meets no timeout of the socket, but this one. It ends the
        # connection by a descriptor of its own: TLS takes that of the plain socket.
        is_over = threading.Event()
        ending = stack.enter_context(plain.dup())
        timer = threading.Timer(SECONDS_MAX, _shut, (ending, is_over))
        timer.daemon = True
        timer.start()
        stack.callback(timer.cancel)
        connection: socket.socket = plain
        if target.scheme == "https":
            connection = stack.enter_context(_wrap(plain, target.host, thumbprints))
        client = http.client.HTTPConnection(target.host, target.port)
        client.sock = connection
        stack.callback(client.close)
        client.request("GET", target.path, headers={"Accept": "application/json"})
        response = client.getresponse()
        if response.status != 200:
            raise errors.ProviderUnreachable(
                f"The identity provider answered {response.status} for {_shown(target)}; "
                "redirects are not followed."
            )
        data = response.read(DOCUMENT_BYTES_MAX + 1)
        if is_over.is_set():
            raise errors.ProviderUnreachable(
                f"The document {_shown(target)} took longer than {SECONDS_MAX:g} seconds."
            )
        if len(data) > DOCUMENT_BYTES_MAX:
            raise errors.ProviderUnreachable(
                f"The document {_shown(target)} is longer than {DOCUMENT_BYTES_MAX} bytes."
            )
        return data


def _connect(target: providers.FetchTarget) -> socket.socket:
    addresses = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    allowed = [each for each in addresses if providers.may_connect(target, str(each[4][0]))]
    if not allowed:
        raise errors.ProviderUnreachable(
            f"The host {target.host} has no address that this server connects to."
        )
    family, socket_type, protocol, _, address = allowed[0]
    connection = socket.socket(family, socket_type, protocol)
    try:
        connection.settimeout(SECONDS_MAX)
        connection.connect(address)
    except BaseException:
        connection.close()
        raise
    return connection


def _wrap(plain: socket.socket, host: str, thumbprints: frozenset[str] | None) -> ssl.SSLSocket:
    context = ssl.create_default_context()
    if thumbprints is None:
        return context.wrap_socket(plain, server_hostname=host)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    wrapped = context.wrap_socket(plain, server_hostname=host)
    certificate = wrapped.getpeercert(binary_form=True) or b""
    digest = hashlib.sha1(certificate, usedforsecurity=False).hexdigest()
    if digest not in thumbprints:
        wrapped.close()
        raise errors.ProviderUnreachable(
            f"The certificate of {host} is neither trusted nor among the provider's thumbprints."
        )
    return wrapped


def _shut(connection: socket.socket, is_over: threading.Event) -> None:
    is_over.set()
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _shown(target: providers.FetchTarget) -> str:
    return f"{target.scheme}://{target.host}:{target.port}{target.path}"


def _unreachable(target: providers.FetchTarget, error: Exception) -> errors.ProviderUnreachable:
    return errors.ProviderUnreachable(
        f"The document {_shown(target)} cannot be read: {type(error).__name__}."
    )
