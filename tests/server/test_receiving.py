"""Processes that receive large bodies: how many there are, and what their ends mean."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from server import receiving
from storage.bodyfiles import BodyFile
from storage.disk import Disk
from tests.kit import intakes
from tests.kit.waits import WAIT_SECONDS

MIB = 1 << 20
BODY = os.urandom(3 * MIB)


def file_in(folder: Path, name: str) -> BodyFile:
    return BodyFile(disk=Disk(), aside=folder / f"{name}.aside", place=folder / name)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110 - the state lies in another process
            await asyncio.sleep(0.002)


def has_ended(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_process_stores_a_body_and_ends_with_the_server(tmp_path: Path) -> None:
    async def receive() -> None:
        receivers = receiving.Receivers()
        assert not receivers.is_ready
        assert await receivers.start()
        (process_id,) = receivers.process_ids
        first, rest = BODY[:MIB], BODY[MIB:]
        with intakes.sending(receivers, rest) as sent:
            stored = await sent.intake.start(file_in(tmp_path, "a"), [first], ("md5",))
        assert stored.taken_bytes == len(rest)
        assert stored.digests is not None
        assert stored.digests["md5"] == hashlib.md5(BODY).digest()
        assert (tmp_path / "a").read_bytes() == BODY
        await receivers.close()
        assert has_ended(process_id)

    asyncio.run(receive())
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_body_that_came_in_thousands_of_pieces_before_is_passed_on(tmp_path: Path) -> None:
    """sendmsg takes 1024 of them at most on Linux."""
    pieces = [bytes([number % 251]) for number in range(5000)]

    async def receive() -> None:
        receivers = receiving.Receivers()
        assert await receivers.start()
        with intakes.sending(receivers, BODY) as sent:
            stored = await sent.intake.start(file_in(tmp_path, "a"), pieces, ())
        assert stored.error is None
        await receivers.close()

    asyncio.run(receive())
    assert (tmp_path / "a").read_bytes() == b"".join(pieces) + BODY


def test_a_file_that_cannot_be_written_is_named_and_the_process_serves_on(tmp_path: Path) -> None:
    async def receive() -> None:
        receivers = receiving.Receivers()
        assert await receivers.start()
        with intakes.sending(receivers, BODY) as sent:
            stored = await sent.intake.start(file_in(tmp_path / "absent", "a"), [], ())
        assert stored.digests is None
        assert "No such file or directory" in str(stored.error)
        with intakes.sending(receivers, BODY) as sent:
            stored = await sent.intake.start(file_in(tmp_path, "a"), [], ())
        assert stored.error is None
        assert (tmp_path / "a").read_bytes() == BODY
        assert len(receivers.process_ids) == 1
        await receivers.close()

    asyncio.run(receive())


def test_further_processes_start_while_all_are_busy_and_end_when_none_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(receiving, "PROCESSES_MAX", 2)

    async def receive() -> None:
        receivers = receiving.Receivers()
        assert await receivers.start()
        with contextlib.ExitStack() as stack:
            ends = []
            for number in range(4):
                sent = stack.enter_context(intakes.sending(receivers, BODY, sent_bytes=MIB))
                ends.append(sent.intake.start(file_in(tmp_path, str(number)), [], ()))
                await until(lambda number=number: len(receivers.process_ids) == min(number + 1, 2))
                await asyncio.to_thread(sent.join)
            process_ids = receivers.process_ids
            assert len(process_ids) == 2
        assert [(await each).taken_bytes for each in ends] == [MIB] * 4
        await until(lambda: not receivers.is_ready)
        await until(lambda: all(map(has_ended, process_ids)))
        assert await receivers.start()
        await receivers.close()

    asyncio.run(receive())


def test_a_process_has_a_bound_of_bodies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "BODIES_MAX", 2)
    monkeypatch.setattr(receiving, "PROCESSES_MAX", 1)

    async def receive() -> None:
        receivers = receiving.Receivers()
        with contextlib.ExitStack() as stack:
            ends = []
            for number in range(2):
                assert receivers.is_ready or await receivers.start()
                sent = stack.enter_context(intakes.sending(receivers, BODY, sent_bytes=MIB))
                ends.append(sent.intake.start(file_in(tmp_path, str(number)), [], ()))
            assert not receivers.is_ready
            assert not await receivers.start()
            sent.intake.stop()
            await ends[1]
            assert receivers.is_ready
        await ends[0]
        await receivers.close()

    asyncio.run(receive())


@pytest.mark.skipif(sys.platform != "linux", reason="needs prlimit")
def test_a_process_without_a_descriptor_takes_no_body_for_another(tmp_path: Path) -> None:
    """The system drops the socket that comes with a message; the next one would follow it."""

    async def receive() -> None:
        receivers = receiving.Receivers()
        assert await receivers.start()
        with intakes.sending(receivers, BODY) as sent:
            await sent.intake.start(file_in(tmp_path, "a"), [], ())
        (process_id,) = receivers.process_ids
        in_use = set(os.listdir(f"/proc/{process_id}/fd"))  # noqa: PTH208 - no pathlib in async
        free = next(number for number in itertools.count() if str(number) not in in_use)
        resource.prlimit(process_id, resource.RLIMIT_NOFILE, (free, free))
        with intakes.sending(receivers, BODY) as first, intakes.sending(receivers, BODY) as second:
            ends = [
                each.intake.start(file_in(tmp_path, name), [], ())
                for name, each in (("first", first), ("second", second))
            ]
            for end in ends:
                with pytest.raises(receiving.ProcessLost):
                    await end
        await receivers.close()

    asyncio.run(receive())
    assert not (tmp_path / "first").exists()
    assert not (tmp_path / "second").exists()


def test_a_process_goes_on_at_the_signal_that_ends_all_of_a_service(tmp_path: Path) -> None:
    async def receive() -> None:
        receivers = receiving.Receivers()
        assert await receivers.start()
        file = file_in(tmp_path, "a")
        with intakes.sending(receivers, BODY, sent_bytes=MIB) as sent:
            end = sent.intake.start(file, [], ())
            await until(lambda: (file.written_bytes() or 0) >= MIB)
            (process_id,) = receivers.process_ids
            os.kill(process_id, signal.SIGTERM)
            sent.send(len(BODY) - MIB)
            assert (await end).error is None
        await receivers.close()
        assert has_ended(process_id)

    asyncio.run(receive())
    assert (tmp_path / "a").read_bytes() == BODY


def test_a_killed_process_loses_its_bodies_and_another_one_takes_the_next(tmp_path: Path) -> None:
    async def receive() -> None:
        receivers = receiving.Receivers()
        files = [file_in(tmp_path, f"lost {turn}") for turn in range(receiving.DEATHS_MAX)]
        for file in files:
            assert await receivers.start()
            with intakes.sending(receivers, BODY, sent_bytes=2 * MIB) as sent:
                end = sent.intake.start(file, [b"first"], ())
                await until(lambda file=file: (file.written_bytes() or 0) > MIB)
                for process_id in receivers.process_ids:
                    os.kill(process_id, signal.SIGKILL)
                with pytest.raises(receiving.ProcessLost):
                    await end
                assert sent.endings == 1
                assert sent.intake.taken_bytes is None
                file.remove()
        assert not any(each.written_bytes() for each in files)
        assert not await receivers.start(), "processes that end at once are started no more"
        receivers._paused_until = 0.0
        assert await receivers.start()
        with intakes.sending(receivers, BODY) as sent:
            stored = await sent.intake.start(file_in(tmp_path, "a"), [], ())
        assert stored.error is None
        assert (tmp_path / "a").read_bytes() == BODY
        await receivers.close()

    asyncio.run(receive())
