"""rule: which records of a Kafka topic a load reads, and how the record of loads names them.

A load reads of each partition the offsets from where the last load ended. It adds two rows to the
record, `after ID 0:100 1:150` and `until ID 0:180 1:150`: the topic's id, and for each partition
the offset of the next record. Each exists once, so that two loads never continue the same one. The
source is named by the ids of the cluster and the topic's name: a topic that was deleted and made
anew has another id, and begins a chain of its own, if the load may skip what the old one had left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pipeline import errors, settings

Positions: TypeAlias = Mapping[int, int]
"""For each partition the offset of the next record."""

BEGINNING = "nothing"
_AFTER, _UNTIL = "after", "until"
ETAG_CHARACTERS_MAX = 4096
"""What the record of loads takes: the positions of about 250 partitions."""
REMEDIES = (
    "--lost-records skip loads what the topic has now; --mode replace makes the table equal to it"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicState:
    """A topic as its brokers describe it. first: of the oldest records; end: after the last ones.

    cluster, topic_id: ids that no other one has.
    """

    cluster: str
    topic: str
    topic_id: str
    first: Positions
    end: Positions

    @property
    def place(self) -> str:
        """What the record of loads names the topic."""
        return f"{settings.KAFKA_BEGINNING}{self.cluster}/{self.topic}"


@dataclass(frozen=True, kw_only=True, slots=True)
class OffsetRange:
    """Records with start <= offset < until, for each partition. claim: what the load continues."""

    start: Positions
    until: Positions
    claim: str

    @property
    def records_max(self) -> int:
        """How many records there are at most: offsets of a partition can have gaps."""
        return sum(end - self.start[partition] for partition, end in self.until.items())


def remaining(
    state: TopicState,
    etags: Iterable[str],
    *,
    lost_records: settings.LostRecords,
    is_whole: bool = False,
) -> OffsetRange | None:
    """Return what a load reads; None if there is nothing new.

    etags: of the topic's rows in the record. is_whole: whether the load reads the topic whole; then
    a topic without records is an empty range. Raises BadArgument where the topic has lost records
    that were not loaded, unless they may be skipped; always if it ends before the last load did.
    """
    ends = {etag for etag in etags if etag.startswith(f"{_UNTIL} ")}
    own = f"{_UNTIL} {state.topic_id} "
    last = [end for end in ends if end.startswith(own) and _claim(end) not in set(etags)]
    may_skip = lost_records == "skip"
    if not last and ends and not may_skip:
        raise errors.BadArgument(
            f"{_named(state)} is another topic than the one of this name that was loaded before: "
            f"that one was deleted; {REMEDIES}"
        )
    loaded = _positions(last[0]) if last else {}
    start = {}
    for partition, end in state.end.items():
        position = loaded.get(partition, 0) if last else state.first[partition]
        first = state.first[partition]
        if position > end:
            raise errors.BadArgument(
                f"{_named(state)}: partition {partition} ends at offset {end}, but the table has "
                f"the records before offset {position}: the topic has lost records; --mode "
                "replace makes the table equal to it"
            )
        if position < first and not may_skip:
            raise errors.BadArgument(
                f"{_named(state)}: partition {partition} begins at offset {first}, but the table "
                f"has the records before offset {position} alone: those from {position} to "
                f"{first - 1} are lost; {REMEDIES}"
            )
        start[partition] = max(position, first)
    if start == dict(state.end) and not is_whole:
        return None
    claim = _claim(last[0]) if last else f"{_AFTER} {state.topic_id} {BEGINNING}"
    return OffsetRange(start=start, until=state.end, claim=claim)


def etag_of(state: TopicState, until: Positions) -> str:
    """Return what the record of loads names a load that ends here. Raises BadArgument."""
    text = " ".join(f"{partition}:{offset}" for partition, offset in sorted(until.items()))
    etag = f"{_UNTIL} {state.topic_id} {text}"
    if len(etag) > ETAG_CHARACTERS_MAX:
        raise errors.BadArgument(
            f"{_named(state)} has {len(until)} partitions, which are too many for a load"
        )
    return etag


def _claim(until: str) -> str:
    return _AFTER + until.removeprefix(_UNTIL)


def _positions(until: str) -> Positions:
    pairs = (text.split(":") for text in until.split(" ")[2:])
    return {int(partition): int(offset) for partition, offset in pairs}


def _named(state: TopicState) -> str:
    return f"the topic {state.topic}"
