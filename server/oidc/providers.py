"""rule: the URLs of identity providers, and which addresses may be fetched for them.

A provider's URL is https; http is for this machine alone. Keys are fetched by https from any host
that the provider names, or from the provider's own origin. Addresses that only this machine or its
network segment can reach, where metadata services are, are fetched for a provider on this machine
alone.
"""

from __future__ import annotations

import ipaddress
import re
import urllib.parse
from dataclasses import dataclass
from typing import Final, TypeAlias

from server.oidc import errors

NAME_CHARACTERS_MAX: Final = 255
URL_CHARACTERS_MAX: Final = 2_048
DISCOVERY: Final = "/.well-known/openid-configuration"
LOCALHOST: Final = "localhost"

_HOST: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:]+\]")
_PATH: Final = re.compile(r"(?:/[A-Za-z0-9._~%!$&'()*+,;=:@-]+)*/?")

IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, kw_only=True, slots=True)
class FetchTarget:
    """A URL in its parts. is_local: it may, and must, be at an address of this machine."""

    scheme: str
    host: str
    port: int
    path: str
    is_local: bool


def name_of(url: str) -> str:
    """Return a provider's name: its URL without the scheme, as ARNs and condition keys have it.

    Raises InvalidProviderUrl.
    """
    parse(url)
    if len(url) > NAME_CHARACTERS_MAX:
        raise _invalid(url)
    return url.partition("://")[2]


def parse(url: str) -> FetchTarget:
    """Return a URL's parts. Raises InvalidProviderUrl."""
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError:
        raise _invalid(url) from None
    host = parts.hostname or ""
    shown = f"[{host}]" if ":" in host else host
    if (
        parts.scheme not in ("https", "http")
        or _HOST.fullmatch(shown) is None
        or parts.netloc not in (shown, f"{shown}:{port}")
        or _PATH.fullmatch(parts.path) is None
        or url != f"{parts.scheme}://{parts.netloc}{parts.path}"
        or len(url) > URL_CHARACTERS_MAX
    ):
        raise _invalid(url)
    is_local = _is_local(host)
    if parts.scheme == "http" and not is_local:
        raise errors.InvalidProviderUrl(
            "The URL of an identity provider begins with https://; http:// is for this machine."
        )
    return FetchTarget(
        scheme=parts.scheme,
        host=host,
        port=port or (443 if parts.scheme == "https" else 80),
        path=parts.path or "/",
        is_local=is_local,
    )


def parse_keys_url(url: object, provider: FetchTarget) -> FetchTarget:
    """Return the parts of the URL where a provider says its keys are.

    Raises ProviderUnreachable for one that is not fetched.
    """
    try:
        target = parse(url if isinstance(url, str) else "")
    except errors.InvalidProviderUrl:
        raise errors.ProviderUnreachable(
            "The identity provider's jwks_uri is not a URL that this server fetches."
        ) from None
    if target.is_local != provider.is_local:
        raise errors.ProviderUnreachable(
            "The identity provider's jwks_uri is on this machine, and the provider is not, or the "
            "reverse."
        )
    return target


def may_connect(target: FetchTarget, address: str) -> bool:
    """Return whether an address to which a host resolves may be connected to."""
    try:
        numeric: IpAddress = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(numeric, ipaddress.IPv6Address):
        numeric = _ipv4_in(numeric) or numeric
    if numeric.is_loopback:
        return target.is_local
    forbidden = numeric.is_link_local or numeric.is_multicast or numeric.is_unspecified
    return not target.is_local and not forbidden and str(numeric) not in _METADATA


def _ipv4_in(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address that an IPv6 address leads to, mapped or by a translator."""
    if any(address in network for network in _TRANSLATED):
        return ipaddress.IPv4Address(address.packed[-4:])
    return address.ipv4_mapped or address.sixtofour


def _is_local(host: str) -> bool:
    if host == LOCALHOST:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _invalid(url: str) -> errors.InvalidProviderUrl:
    return errors.InvalidProviderUrl(
        f"{url[:NAME_CHARACTERS_MAX]!r} is not the URL of an identity provider: https, a host in "
        "lower case and a path, without query and fragment."
    )


_TRANSLATED: Final = (
    ipaddress.IPv6Network("64:ff9b::/96"),
    ipaddress.IPv6Network("64:ff9b:1::/48"),
)
"""Prefixes of NAT64, with an IPv4 address at the end (RFC 6052 and 8215)."""
_METADATA: Final = frozenset({"fd00:ec2::254", "100.100.100.200"})
"""Metadata services of clouds that are not at link-local addresses."""
