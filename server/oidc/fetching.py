"""engine: reads a small document of an identity provider, over TLS or from this machine.

One request per document: no redirect, no proxy, no credentials, an address that
`providers.may_connect` allows, a bound on its size and one on the time of each connection. A server
that the system does not trust is accepted if the provider's thumbprints, SHA-1 digests as AWS takes
them, have its own certificate, or one above it in the chain that it sends. The latter then is the
only authority for a further connection, on which chain, validity and host name are verified: to
send an authority's certificate proves nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import socket
import ssl
import sys
import threading
from collections.abc import Sequence
from typing import Any, Final

from server.oidc import errors, providers

SECONDS_MAX: Final = 10.0
"""How long one document may take, from the connection to the last byte."""
DOCUMENT_BYTES_MAX: Final = 256 * 1024


def fetch(target: providers.FetchTarget, thumbprints: Sequence[str]) -> bytes:
    """Return the document at a target. Blocks. Raises ProviderUnreachable.

    thumbprints: SHA-1 digests of certificates, in lower-case hexadecimal.
    """
    try:
        return _fetch(target, ssl.create_default_context())
    except ssl.SSLCertVerificationError as error:
        if not thumbprints:
            raise _unreachable(target, error) from error
    except (OSError, http.client.HTTPException, UnicodeError) as error:
        raise _unreachable(target, error) from error
    try:
        try:
            return _fetch(target, None, frozenset(thumbprints))
        except _ByAuthorities as sent:
            return _fetch(target, _trusting(sent.authorities))
    except (OSError, http.client.HTTPException, UnicodeError) as error:
        raise _unreachable(target, error) from error


class _ByAuthorities(Exception):
    """The thumbprints have certificates above the server's own. authorities: they, as DER."""

    def __init__(self, authorities: Sequence[bytes]) -> None:
        super().__init__("another connection has to verify the chain")
        self.authorities = authorities


def _fetch(
    target: providers.FetchTarget,
    context: ssl.SSLContext | None,
    thumbprints: frozenset[str] = frozenset(),
) -> bytes:
    """context: verifies the server; None accepts one whose own certificate has a thumbprint."""
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
            connection = stack.enter_context(
                _wrap_by_thumbprint(plain, target.host, thumbprints)
                if context is None
                else context.wrap_socket(plain, server_hostname=target.host)
            )
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


def _wrap_by_thumbprint(
    plain: socket.socket, host: str, thumbprints: frozenset[str]
) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    wrapped = context.wrap_socket(plain, server_hostname=host)
    try:
        chain = _sent_chain(wrapped)
        has_thumbprint = [
            hashlib.sha1(each, usedforsecurity=False).hexdigest() in thumbprints for each in chain
        ]
        if not any(has_thumbprint):
            raise errors.ProviderUnreachable(
                f"The certificate of {host} is neither trusted nor among the provider's"
                " thumbprints."
            )
        if not has_thumbprint[0]:
            named = zip(chain, has_thumbprint, strict=True)
            raise _ByAuthorities([each for each, is_named in named if is_named])
    except BaseException:
        wrapped.close()
        raise
    return wrapped


def _sent_chain(connection: ssl.SSLSocket) -> list[bytes]:
    """Return the certificates that a server has sent as DER, its own first."""
    if sys.version_info >= (3, 13):
        return list(connection.get_unverified_chain())
    inner: Any = connection._sslobj  # type: ignore[attr-defined]  # noqa: SLF001 - public from 3.13
    return [ssl.PEM_cert_to_DER_cert(each.public_bytes()) for each in inner.get_unverified_chain()]


def _trusting(authorities: Sequence[bytes]) -> ssl.SSLContext:
    """Return a context with these authorities alone. Each ends a chain, if it is no root, too."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=b"".join(authorities))
    return context


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
