"""How late the event loop is, and what the log says held it."""

from __future__ import annotations

import asyncio
import base64
import logging
import sys
import time

import pytest
import uvloop

from server import counters, limits, looplag
from tests.kit import s3, waits
from tests.server.requesting import request as make_request

REQUESTS_MAX = 50
"""A busy machine may give the watching thread no turn while a request holds the loop, or hold the
loop itself right before one: then the next request is looked at."""


def hold(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


async def serve(request, work):
    await asyncio.sleep(0)
    return work(request)


def measured(runner, work, is_over):
    """Measure a loop on which requests do `work`, until is_over(counts) or for REQUESTS_MAX."""
    counts = counters.Counters()

    async def beat():
        before = sum(counts.lag_buckets)
        while sum(counts.lag_buckets) == before:  # noqa: ASYNC110 - the timer offers no event
            await asyncio.sleep(0.005)

    async def live():
        lag = looplag.LoopLag(
            counts=counts, request_codes={serve.__code__}, monotonic=time.monotonic
        )
        lag.start()
        for _ in range(REQUESTS_MAX):
            await beat()
            await serve(make_request("PUT", "/some/key"), work)
            await beat()
            if is_over(counts):
                break
        lag.stop()

    runner(live())
    return counts


LOOPS = pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])


@LOOPS
def test_what_holds_the_loop_is_counted_and_named(runner, caplog):
    def naming():
        said = [record.getMessage() for record in caplog.records]
        return [line for line in said if "PUT" in line]

    with caplog.at_level(logging.WARNING, logger="boathouse.loop"):
        counts = measured(runner, lambda _: hold(0.4), lambda _: naming())
    assert counts.lag_max_seconds >= 0.3
    said = naming()
    assert len(said) == 1
    assert said[0].startswith("the event loop was held for ")
    assert f"by PUT '/some/key', request id {'r' * 32}, in tests/server/test_looplag.py:" in said[0]


@LOOPS
def test_a_loop_that_nothing_holds_is_on_time(runner):
    counts = measured(runner, lambda _: None, lambda counts: sum(counts.lag_buckets) >= 3)
    assert sum(counts.lag_buckets) >= 3
    assert counts.lag_seconds >= 0


def test_a_loop_late_by_no_code_of_ours_is_no_warning(monkeypatch, caplog):
    """A machine that gives the process no turn is no fault of the server's."""
    monkeypatch.setattr(looplag, "ROOT", looplag.ROOT / "server")
    now = 0.0

    async def live():
        nonlocal now
        lag = looplag.LoopLag(
            counts=counters.Counters(), request_codes=set(), monotonic=lambda: now
        )
        lag.start()
        now = 1.0
        await asyncio.sleep(3 * looplag.BEAT_SECONDS)
        lag.stop()

    with caplog.at_level(logging.INFO, logger="boathouse.loop"):
        asyncio.run(live())
    late = [(record.levelname, record.getMessage()) for record in caplog.records]
    text = "the event loop was held for 950 ms by no request: the machine may be busy"
    assert late == [("INFO", text)]


def described(path):
    """What a loop that runs a file below the checkout is held by."""
    names = {"describe": lambda: looplag.describe(sys._getframe(1), set())}
    exec(compile("described = describe()", f"{looplag.ROOT}/{path}", "exec"), names)
    return names["described"]


def test_a_package_below_the_checkout_is_not_named(monkeypatch):
    """`make run` installs the packages into `.venv`, below the server's own code."""
    monkeypatch.setattr(looplag, "ENVIRONMENT", f"{looplag.ROOT}/.venv/")
    ours = described("server/a.py")
    assert ours == "server/a.py:1 <module>"
    assert ".venv" not in described(".venv/lib/a.py")


def test_the_servers_code_is_named_also_within_the_folder_of_python(monkeypatch):
    """As in /usr/src with the Python of /usr."""
    for folder in (looplag.ROOT, looplag.ROOT.parent):
        monkeypatch.setattr(looplag, "ENVIRONMENT", f"{folder}/")
        assert described("server/a.py") == "server/a.py:1 <module>"


def test_a_long_path_is_cut():
    def work(request):
        request.raw_path = b"/" + b"a" * 5000
        return looplag.describe(sys._getframe(), {serve.__code__})

    said = asyncio.run(serve(make_request("GET", "/"), work))
    assert len(said) < limits.LOGGED_PATH_BYTES_MAX + 200


def test_metrics_show_the_lag(server):
    pair = base64.b64encode(f"{server.access_key}:{server.secret_key}".encode()).decode()
    name = "boathouse_loop_lag_seconds"
    deadline = time.monotonic() + waits.WAIT_SECONDS
    while True:
        answer = s3.send(server, "GET", "/_metrics", {"authorization": f"Basic {pair}"})
        assert answer.status == 200
        lines = [line for line in answer.body.decode().splitlines() if line[0] != "#"]
        rows = {key: float(value) for key, value in (line.rsplit(" ", 1) for line in lines)}
        if rows[f"{name}_count"]:  # the first beat of a server that just started
            break
        assert time.monotonic() < deadline
    assert rows[f'{name}_bucket{{le="+Inf"}}'] == rows[f"{name}_count"]
    assert 0 <= rows["boathouse_loop_lag_max_seconds"] <= rows[f"{name}_sum"] + 1e-6
