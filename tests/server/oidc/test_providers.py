"""Which URLs may be a provider's, and which addresses are connected to."""

from __future__ import annotations

import pytest

from server.oidc import errors, providers


@pytest.mark.parametrize(
    "url",
    [
        "https://token.actions.githubusercontent.com",
        "https://oidc.eks.eu-west-1.amazonaws.com/id/ABC",
        "https://idp.example:8443/realms/lake/",
        "https://10.0.0.7/realms/lake",
        "http://127.0.0.1:8080/realm",
        "http://localhost:8080/realm",
        "http://[::1]:8080/realm",
    ],
)
def test_a_providers_name_is_its_url_without_the_scheme(url: str) -> None:
    assert providers.name_of(url) == url.partition("://")[2]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "http://idp.example/realm",
        "http://10.0.0.7/realm",
        "http://localhost.example/realm",
        "https://user:secret@idp.example/realm",
        "https://idp.example/realm?x=1",
        "https://idp.example/realm#x",
        "https://IDP.example/realm",
        "https://idp.example:port/realm",
        "https://idp.example/a b",
        "https://idp.example\\@127.0.0.1/",
        "https://idp.example//realm",
        "https:///realm",
        "file:///etc/passwd",
        "ftp://idp.example/",
        "https://idp.example/" + "a" * 300,
        "https://idp.example/\r\nHost: x",
    ],
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(errors.InvalidProviderUrl):
        providers.name_of(url)


LOCAL = providers.parse("http://127.0.0.1:8080/realm")
REMOTE = providers.parse("https://idp.example/realm")


@pytest.mark.parametrize(
    ("address", "is_local", "is_remote"),
    [
        ("127.0.0.1", True, False),
        ("127.8.8.8", True, False),
        ("::1", True, False),
        ("::ffff:127.0.0.1", True, False),
        ("203.0.113.7", False, True),
        ("10.0.0.7", False, True),
        ("2001:db8::7", False, True),
        ("169.254.169.254", False, False),
        ("::ffff:169.254.169.254", False, False),
        ("64:ff9b::a9fe:a9fe", False, False),
        ("64:ff9b:1::a9fe:a9fe", False, False),
        ("2002:a9fe:a9fe::1", False, False),
        ("64:ff9b::cb00:7107", False, True),
        ("fe80::1%eth0", False, False),
        ("fd00:ec2::254", False, False),
        ("100.100.100.200", False, False),
        ("0.0.0.0", False, False),
        ("::", False, False),
        ("224.0.0.1", False, False),
        ("not an address", False, False),
    ],
)
def test_no_provider_leads_to_this_machine_or_to_a_metadata_service(
    address: str, is_local: bool, is_remote: bool
) -> None:
    assert providers.may_connect(LOCAL, address) is is_local
    assert providers.may_connect(REMOTE, address) is is_remote


@pytest.mark.parametrize(
    ("url", "provider", "is_allowed"),
    [
        ("https://keys.example/jwks", REMOTE, True),
        ("http://keys.example/jwks", REMOTE, False),
        ("http://127.0.0.1:5253/_api/v1", REMOTE, False),
        ("https://localhost/keys", REMOTE, False),
        ("http://localhost:8080/keys", LOCAL, True),
        ("https://keys.example/jwks", LOCAL, False),
        ("file:///etc/passwd", LOCAL, False),
        (7, REMOTE, False),
        (None, LOCAL, False),
    ],
)
def test_keys_are_read_by_https_or_from_this_machine_for_a_provider_on_it(
    url: object, provider: providers.FetchTarget, is_allowed: bool
) -> None:
    if is_allowed:
        assert providers.parse_keys_url(url, provider)
        return
    with pytest.raises(errors.ProviderUnreachable):
        providers.parse_keys_url(url, provider)
