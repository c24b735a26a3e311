"""A disk without room at every write of every operation that changes the store.

An operation that is refused has changed nothing, and succeeds when it is repeated once there is
room: the steps are those of the power cuts.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storage import errors
from storage.disk import Disk
from tests.crash import test_storage_crash as crash
from tests.kit import folders, invariants

WRITES_MAX = 100
"""The most writes to the disk of one step."""


class FillingDisk(Disk):
    """A disk that takes `writes_left` further writes, and then none until there is room.

    writes_left: None for any number. refused: how many writes it has refused.
    """

    def __init__(self) -> None:
        self.writes_left: int | None = None
        self.refused = 0

    def take(self) -> None:
        if self.writes_left is None:
            return
        if self.writes_left == 0:
            self.refused += 1
            raise errors.DiskFull("the disk has no room left")
        self.writes_left -= 1

    def create(self, path: Path, *, mode: int = 0o600) -> int:
        self.take()
        return super().create(path, mode=mode)

    def write(self, descriptor: int, data: bytes | memoryview) -> None:
        self.take()
        super().write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        self.take()
        super().fsync(descriptor)

    def move(self, source: Path, target: Path) -> None:
        self.take()
        super().move(source, target)

    def link(self, source: Path, target: Path) -> None:
        self.take()
        super().link(source, target)

    def allocate(self, path: Path, size_bytes: int) -> None:
        self.take()
        super().allocate(path, size_bytes)

    def transact(self, commit: Callable[[], Any]) -> None:
        self.take()
        super().transact(commit)


@pytest.mark.parametrize(
    "steps",
    [
        crash.STEPS,
        crash.STEPS_OF_VERSIONS,
        crash.STEPS_OF_LIFECYCLES,
        crash.STEPS_OF_SETTINGS,
    ],
    ids=["objects", "versions", "lifecycles", "settings"],
)
def test_a_step_that_finds_no_room_changes_nothing_and_is_done_when_there_is_some(
    workplace: Path, steps: tuple[crash.Step, ...]
) -> None:
    disk = FillingDisk()
    storage = folders.open_folder(
        workplace / "data", disk=disk, ids=folders.Ids("run"), map_size_bytes=1 << 26
    )
    before, refusals = crash.World(), 0

    async def attempt(step: crash.Step, writes: int) -> crash.World | None:
        """Do a step on a disk that takes that many writes; None if it is refused."""
        after = copy.deepcopy(before)
        disk.writes_left = writes
        try:
            await step(storage, after)
        except errors.DiskFull:
            return None
        finally:
            disk.writes_left = None
        return after

    with asyncio.Runner() as runner:
        for step in steps:
            for writes in range(WRITES_MAX):
                after = runner.run(attempt(step, writes))
                if after is not None:
                    break
                refusals += 1
                assert crash.seen(storage) == before, (step, writes)
            else:
                raise AssertionError(f"{step} has more than {WRITES_MAX} writes")
            before = after
            assert crash.seen(storage) == before, step
            storage.index.tend()
        invariants.check(storage, workplace / "data")
    storage.close()
    again = folders.open_folder(workplace / "data")
    assert crash.seen(again) == before
    invariants.check_recovered(again, workplace / "data")
    again.close()
    assert refusals > len(steps), "most steps write more than once"
