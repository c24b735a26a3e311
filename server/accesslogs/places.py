"""rule: what a request is about, as its access record says it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from server import calls


class RequestPlace(NamedTuple):
    """What a request is about. bucket: its name. key: "" for none. operation: as a record has it.

    version_id: that the request names, or "".
    """

    bucket: str
    key: str
    operation: str
    version_id: str = ""


FindPlace: TypeAlias = Callable[[calls.Call], RequestPlace | None]
"""Returns the place of a face's call; None for a call that is about no bucket."""
