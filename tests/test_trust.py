"""The file of certificates that programs of this machine trust, and what it says of a server."""

from __future__ import annotations

import ssl
from pathlib import Path
from types import SimpleNamespace

import pytest

from program import trust
from storage import disk


def block(text: str) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----"


def write(folder: Path, name: str) -> Path:
    file = folder / f"{name}.pem"
    file.write_text(f"{name}\n{block(name)}\n")
    return file


@pytest.mark.parametrize(
    ("named", "trusted"),
    [
        ((), {"own", "public"}),
        (("AWS_CA_BUNDLE",), {"own", "company", "public"}),
        (("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"), {"own", "company", "public"}),
        (trust.VARIABLES, {"own", "company"}),
    ],
)
def test_what_clients_trust_by_default_stays_trusted_where_a_variable_is_not_set(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    named: tuple[str, ...],
    trusted: set[str],
) -> None:
    """Each variable names the file from then on, also one that named none."""
    public, company, own = (write(tmp_path, name) for name in ("public", "company", "own"))
    monkeypatch.setattr(
        ssl, "get_default_verify_paths", lambda: SimpleNamespace(cafile=str(public))
    )
    environment = {**dict.fromkeys(trust.VARIABLES, ""), **dict.fromkeys(named, str(company))}
    bundle = trust.write_bundle(own, tmp_path, disk=disk.Disk(), environment=environment)
    texts = bundle.read_text()
    assert {name for name in ("own", "company", "public") if block(name) in texts} == trusted


def test_a_file_that_tls_cannot_read_is_why_a_server_is_refused(tmp_path: Path) -> None:
    said = trust.refusal("https://127.0.0.1:1", write(tmp_path, "broken"))
    assert said is not None
    assert "PEM" in said or "X509" in said
