"""An identity provider of a test: keys, tokens, and its documents on a port of this machine."""

from __future__ import annotations

import base64
import functools
import hmac
import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

CLIENT = "boathouse-test"


@functools.cache
def rsa_key(number: int = 1, bits: int = 2048) -> rsa.RSAPrivateKey:
    """One of several keys, which are made once."""
    assert number
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


@functools.cache
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def jwk(key: Any, key_id: str | None = "k1", **members: Any) -> dict[str, Any]:
    """The public half of a key as a JSON Web Key."""
    algorithm = jwt.algorithms.RSAAlgorithm
    if isinstance(key, ec.EllipticCurvePrivateKey):
        algorithm = jwt.algorithms.ECAlgorithm
    entry: dict[str, Any] = json.loads(algorithm.to_jwk(key.public_key()))
    return {**entry, **({} if key_id is None else {"kid": key_id}), **members}


def pem(key: Any) -> bytes:
    return bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )


def encode_part(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def forged(header: dict[str, Any], claims: dict[str, Any], secret: bytes | None) -> str:
    """A token with any header; signed by HMAC-SHA256, or not at all."""
    signed = f"{encode_part(header)}.{encode_part(claims)}"
    if secret is None:
        return f"{signed}."
    return f"{signed}.{encode_part(hmac.digest(secret, signed.encode(), 'sha256'))}"


@dataclass
class Issuer:
    """A provider. keys: its key set. documents: in place of its own, by path. fetches: of each."""

    port: int
    now_s: int
    keys: list[dict[str, Any]] = field(default_factory=lambda: [jwk(rsa_key())])
    documents: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    fetches: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/realm"

    @property
    def name(self) -> str:
        return f"127.0.0.1:{self.port}/realm"

    @property
    def arn(self) -> str:
        return f"arn:aws:iam::000000000000:oidc-provider/{self.name}"

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Claims of a valid token; a change to None leaves the claim out."""
        whole = {
            "iss": self.url,
            "sub": "job-7",
            "aud": CLIENT,
            "iat": self.now_s,
            "exp": self.now_s + 600,
            **changes,
        }
        return {name: value for name, value in whole.items() if value is not None}

    def token(self, *, headers: dict[str, Any] | None = None, **changes: Any) -> str:
        """A token, signed by the first key."""
        return jwt.encode(
            self.claims(**changes),
            rsa_key(),
            algorithm="RS256",
            headers={"kid": "k1", **(headers or {})},
        )

    def answer(self, path: str) -> tuple[int, bytes]:
        self.fetches.append(path)
        if path in self.documents:
            return self.documents[path]
        if path == "/realm/.well-known/openid-configuration":
            document = {"issuer": self.url, "jwks_uri": f"http://127.0.0.1:{self.port}/keys"}
            return 200, json.dumps(document).encode()
        if path == "/keys":
            return 200, json.dumps({"keys": self.keys}).encode()
        return 404, b""


@contextmanager
def serving(now_s: int) -> Iterator[Issuer]:
    """Serve a provider's documents on a free port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = issuer.answer(self.path)
            self.send_response(status)
            if status == 302:
                self.send_header("location", body.decode())
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Write nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer = Issuer(port=server.server_address[1], now_s=now_s)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
