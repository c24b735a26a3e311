"""What the state machines of the storage share: a folder in memory, opened again and again."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from hypothesis.stateful import RuleBasedStateMachine

from tests.kit import folders

Result = TypeVar("Result")


class StorageMachine(RuleBasedStateMachine):
    """A data folder with a clock and ids of its own, and the loop that its coroutines run on."""

    def __init__(self) -> None:
        super().__init__()
        memory = Path("/dev/shm")
        self.root = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
        self.clock = folders.Clock()
        self.ids = folders.Ids()
        self.loop = asyncio.new_event_loop()
        self.open()

    def open(self) -> None:
        self.storage = folders.open_folder(
            self.root / "data", clock=self.clock, ids=self.ids, map_size_bytes=1 << 28
        )

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.loop.run_until_complete(work)

    def check_the_end(self) -> None:
        """Assert what holds after the last step."""

    def teardown(self) -> None:
        try:
            self.check_the_end()
        finally:
            self.storage.close()
            self.loop.close()
            shutil.rmtree(self.root)
