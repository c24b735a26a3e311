"""rule: URLs and IP addresses as objects, as PARSE_URL and PARSE_IP give them.

Raises ValueError with the words of Snowflake's error; a permissive call gives it as a member.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any

URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?P<authority>//[^/?#]*)?(?P<path>[^?#]*)"
    r"(?:\?(?P<query>[^#]*))?(?:#(?P<fragment>.*))?",
    re.DOTALL,
)
PORT = re.compile(r"(?P<host>.*):(?P<port>\d*)", re.DOTALL)


def parse_url(text: str) -> dict[str, Any]:
    """Return the parts of a URL; null for one that it does not have. Nothing is decoded."""
    match = URL.fullmatch(text)
    if match is None:
        raise ValueError("scheme not specified")
    authority, query, path = match["authority"], match["query"], match["path"]
    host = port = None
    if authority is not None:
        host = authority[2:]
        with_port = PORT.fullmatch(host)
        if with_port is not None:
            host, port = with_port["host"], with_port["port"]
    parameters = None
    if query:
        pairs = (pair.partition("=") for pair in query.split("&"))
        parameters = {name: value for name, _, value in pairs}
    return {
        "fragment": match["fragment"],
        "host": host,
        "parameters": parameters,
        "path": path.removeprefix("/") if path or authority is None else None,
        "port": port,
        "query": query,
        "scheme": match["scheme"],
    }


def parse_ip(text: str, ip_type: str) -> dict[str, Any]:
    """Return the parts of an IP address. ip_type: inet, which may have a prefix's length; host."""
    host, slash, prefix = text.strip().partition("/")
    if slash and (ip_type == "host" or not re.fullmatch(r"\d{1,3}", prefix)):
        raise ValueError(f"invalid prefix length '{prefix}'")
    try:
        address = ipaddress.ip_address(host)
        network = ipaddress.ip_network(f"{host}/{prefix}", strict=False) if slash else None
    except ValueError:
        raise ValueError(f"invalid address '{text[:100]}'") from None
    number = int(address)
    parts: dict[str, Any] = {
        "family": address.version,
        "host": host,
        "ip_type": ip_type,
        "netmask_prefix_length": int(prefix) if slash else None,
        "snowflake$type": "ip_address",
    }
    if address.version == 4:
        parts |= {"ip_fields": [number, 0, 0, 0], "ipv4": number}
        if network is not None:
            parts |= {
                "ipv4_range_start": int(network.network_address),
                "ipv4_range_end": int(network.broadcast_address),
            }
        return parts
    words = [number >> shift & 0xFFFF_FFFF for shift in (96, 64, 32, 0)]
    parts |= {"ip_fields": words, "hex_ipv6": f"{number:032X}"}
    if network is not None:
        parts |= {
            "hex_ipv6_range_start": f"{int(network.network_address):032X}",
            "hex_ipv6_range_end": f"{int(network.broadcast_address):032X}",
        }
    return parts
