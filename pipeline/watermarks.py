"""rule: which rows of a database's table a load reads, and how the record of loads names them.

A watermark is a column of whole numbers that only grows: an identity column, a version of changes.
A load reads the rows above the value that the last load ended at, up to the greatest one when it
began, and adds two rows to the record: `after 100` and `until 180`. Each exists once, so that two
loads never continue the same one. A row that another client commits later with a smaller number
than the greatest is not seen: the database must give out numbers in the order of its commits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pipeline import errors

BEGINNING = "after nothing"
_AFTER, _UNTIL, _WHOLE = "after ", "until ", "whole "


@dataclass(frozen=True, kw_only=True, slots=True)
class WatermarkRange:
    """Rows with after < watermark <= until. None: without that bound."""

    after: int | None = None
    until: int | None = None

    @property
    def etags(self) -> tuple[str, str]:
        """What the record of loads names the range, and the value that it continues."""
        after = BEGINNING if self.after is None else f"{_AFTER}{self.after}"
        return f"{_UNTIL}{self.until}", after


def whole(name: str) -> tuple[str, str]:
    """Return what the record names a load of all rows without a watermark. name: fresh."""
    return f"{_WHOLE}{name}", BEGINNING


def end_of(place: str, etags: Iterable[str]) -> int | None:
    """Return the value that the last load ended at; None if there was no load.

    etags: of the place's rows in the record. Raises BadArgument for loads without a watermark.
    """
    present = set(etags)
    if not present:
        return None
    ends = [
        int(etag.removeprefix(_UNTIL))
        for etag in present
        if etag.startswith(_UNTIL) and _AFTER + etag.removeprefix(_UNTIL) not in present
    ]
    if len(ends) != 1:
        raise errors.BadArgument(
            f"{place} was loaded whole, without --watermark, so what follows is unknown; "
            "--mode replace with --watermark begins anew"
        )
    return ends[0]
