"""Addresses of Spark Connect servers."""

from __future__ import annotations

import pytest

from pipeline import errors, masters


@pytest.mark.parametrize(
    ("master", "host", "port"),
    [
        ("sc://host", "host", 15002),
        ("sc://host/", "host", 15002),
        ("sc://10.0.0.7:443/;use_ssl=true;token=t", "10.0.0.7", 443),
        ("sc://[::1]:15002", "[::1]", 15002),
    ],
)
def test_an_address_has_a_host_and_a_port(master: str, host: str, port: int) -> None:
    address = masters.parse_connect(master)
    assert address == masters.ConnectServer(host=host, port=port, url=master)
    assert str(address) == f"sc://{host}:{port}"


@pytest.mark.parametrize("master", ["local[*]", "spark://host:7077", "yarn"])
def test_other_masters_are_none(master: str) -> None:
    assert masters.parse_connect(master) is None


@pytest.mark.parametrize(
    "master",
    ["sc://", "sc://host:0", "sc://host:99999", "sc://host:x", "sc://a b", "sc://h:1/path",
     "sc://h:1;token=secret"],
)  # fmt: skip
def test_what_is_no_address_is_refused_without_its_parameters(master: str) -> None:
    with pytest.raises(errors.BadArgument, match=r"write sc://host:port") as refusal:
        masters.parse_connect(master)
    assert "secret" not in str(refusal.value)
