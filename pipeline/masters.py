"""rule: the addresses of Spark Connect servers, which stand where other masters of Spark stand."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pipeline import errors

CONNECT_BEGINNING, CONNECT_PORT = "sc://", 15002
_CONNECT = re.compile(r"sc://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?(?:/(?:;\S*)?)?\Z")


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectServer:
    """The address of a Spark Connect server. url: with the parameters that its client takes."""

    host: str
    port: int
    url: str

    def __str__(self) -> str:
        """Return the address without parameters, of which one may be a token."""
        return f"{CONNECT_BEGINNING}{self.host}:{self.port}"


def parse_connect(master: str) -> ConnectServer | None:
    """Parse `sc://host[:port][/;name=value...]`; None for another master of Spark.

    Raises BadArgument. Source: Spark's documentation, "Connection String for Spark Connect".
    """
    if master == "yarn" or master.startswith(("local", "spark://", "k8s://")):
        return None
    if not master.startswith(CONNECT_BEGINNING):
        raise errors.BadArgument(
            f"--master {master!r} is no master of Spark: write local[*], spark://host:7077, yarn, "
            "k8s://..., or sc://host:port of a Spark Connect server"
        )
    match = _CONNECT.match(master)
    port = int(match.group(2) or CONNECT_PORT) if match is not None else 0
    if match is None or not 0 < port < 1 << 16:
        shown = master.partition(";")[0]
        raise errors.BadArgument(
            f"--master {shown} is not the address of a Spark Connect server: write sc://host:port, "
            "or sc://host:port/;use_ssl=true"
        )
    return ConnectServer(host=match.group(1), port=port, url=master)
