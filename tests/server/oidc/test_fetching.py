"""Documents of providers over TLS, and from servers that mean no good."""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from server.oidc import errors, fetching, providers
from tests.server.oidc import issuers

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


@contextmanager
def answering(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port whose connections are served one after the other."""
    listener = socket.create_server(("127.0.0.1", 0))

    def work() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    serve(connection)
                except OSError:
                    continue

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A certificate that no system trusts, with its key in one file, and its thumbprint."""
    key = issuers.rsa_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "idp")])
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    path.write_bytes(
        built.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    der = built.public_bytes(serialization.Encoding.DER)
    return path, hashlib.sha1(der, usedforsecurity=False).hexdigest()


def test_a_certificate_is_trusted_by_the_system_or_by_its_thumbprint(
    certificate: tuple[Path, str],
) -> None:
    path, thumbprint = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)

    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as wrapped:
            wrapped.recv(4096)
            wrapped.sendall(ANSWER)

    with answering(serve) as port:
        target = providers.parse(f"https://127.0.0.1:{port}/keys")
        assert fetching.fetch(target, ["0" * 40, thumbprint]) == b"{}"
        for thumbprints in ([], ["0" * 40]):
            with pytest.raises(errors.ProviderUnreachable):
                fetching.fetch(target, thumbprints)


@dataclass(frozen=True, kw_only=True)
class Authority:
    """A certificate that signs others, and its key."""

    certificate: x509.Certificate
    key: rsa.RSAPrivateKey

    @property
    def thumbprint(self) -> str:
        return self.certificate.fingerprint(hashes.SHA1()).hex()

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)


def signed(
    name: str, by: Authority | None, *, address: str = "", days: tuple[int, int] = (-1, 1)
) -> Authority:
    """A certificate of an authority, of a server with an address; by: None signs itself."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if by is None else by.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + datetime.timedelta(days=days[0] - 1))
        .not_valid_after(now + datetime.timedelta(days=days[1]))
        .add_extension(x509.BasicConstraints(ca=not address, path_length=None), critical=True)
    )
    if address:
        names = [x509.IPAddress(ipaddress.ip_address(address))]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    certificate = builder.sign(key if by is None else by.key, hashes.SHA256())
    return Authority(certificate=certificate, key=key)


@pytest.fixture(scope="module")
def root() -> Authority:
    return signed("root", None)


@pytest.fixture(scope="module")
def between(root: Authority) -> Authority:
    return signed("between", root)


@contextmanager
def sending(server: Authority, *others: Authority, folder: Path) -> Iterator[providers.FetchTarget]:
    """A server that sends its certificate and others."""
    path = folder / "chain.pem"
    key = server.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(server.pem + b"".join(each.pem for each in others) + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)

    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as wrapped:
            if wrapped.recv(4096):
                wrapped.sendall(ANSWER)

    with answering(serve) as port:
        yield providers.parse(f"https://127.0.0.1:{port}/keys")


def test_a_thumbprint_of_the_top_of_the_chain_that_is_sent_is_enough(
    root: Authority, between: Authority, tmp_path: Path
) -> None:
    server = signed("server", between, address="127.0.0.1")
    with sending(server, between, folder=tmp_path) as target:
        assert fetching.fetch(target, ["0" * 40, between.thumbprint]) == b"{}"
        with pytest.raises(errors.ProviderUnreachable, match="thumbprints"):
            fetching.fetch(target, [root.thumbprint])  # which is not sent
    with sending(server, between, root, folder=tmp_path) as target:
        assert fetching.fetch(target, [root.thumbprint]) == b"{}"


@pytest.mark.parametrize("fault", ["not signed by it", "another host", "expired", "no authority"])
def test_a_thumbprint_of_a_certificate_that_proves_nothing_of_the_server_is_refused(
    root: Authority, between: Authority, tmp_path: Path, fault: str
) -> None:
    sent = between
    match fault:
        case "not signed by it":
            server = signed("server", signed("between", None), address="127.0.0.1")
        case "another host":
            server = signed("server", between, address="192.0.2.1")
        case "expired":
            server = signed("server", between, address="127.0.0.1", days=(-9, -1))
        case _:
            sent = signed("leaf", between, address="127.0.0.2")
            server = signed("server", sent, address="127.0.0.1")
    with (
        sending(server, sent, root, folder=tmp_path) as target,
        pytest.raises(errors.ProviderUnreachable, match="SSLCertVerificationError"),
    ):
        fetching.fetch(target, [sent.thumbprint])


def test_a_document_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "SECONDS_MAX", 0.3)
    ended = threading.Event()

    def serve(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        try:
            while True:
                connection.sendall(b"x: y\r\n")
                ended.wait(0.05)
        finally:
            ended.set()

    with answering(serve) as port:
        target = providers.parse(f"http://127.0.0.1:{port}/keys")
        with pytest.raises(errors.ProviderUnreachable):
            fetching.fetch(target, [])
    assert ended.is_set()


def test_a_document_that_never_ends_is_given_up_over_tls(
    certificate: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "SECONDS_MAX", 0.5)
    path, thumbprint = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    wait, finished = threading.Event(), threading.Event()

    def serve(connection: socket.socket) -> None:
        # Headers arrive so often that no wait of the client's socket is a long one.
        with context.wrap_socket(connection, server_side=True) as wrapped:
            wrapped.sendall(b"HTTP/1.1 200 OK\r\n")
            for _ in range(90):
                wrapped.sendall(b"x: y\r\n")
                wait.wait(0.05)
            wrapped.sendall(b"content-length: 2\r\n\r\n{}")
            finished.set()

    with answering(serve) as port:
        target = providers.parse(f"https://127.0.0.1:{port}/keys")
        with pytest.raises(errors.ProviderUnreachable):
            fetching.fetch(target, [thumbprint])
    assert not finished.is_set()


@pytest.mark.parametrize(
    "answer", [b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 999]
)
def test_an_answer_that_is_no_http_is_a_fault_of_the_provider(answer: bytes) -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(answer)

    with answering(serve) as port:
        target = providers.parse(f"http://127.0.0.1:{port}/keys")
        with pytest.raises(errors.ProviderUnreachable):
            fetching.fetch(target, [])


def test_a_port_that_is_closed_is_a_fault_of_the_provider() -> None:
    with answering(lambda _: None) as port:
        pass
    with pytest.raises(errors.ProviderUnreachable):
        fetching.fetch(providers.parse(f"http://127.0.0.1:{port}/keys"), [])
