"""engine: loads new files of a place, or records of a topic, as they come, until interrupted.

Each round lists the places and loads what the table has not loaded, with `ingest`, in one
transaction. The server's record of loads is the only lasting state: a follower that was killed, or
that runs twice, loads each file once, and continues after any other load of the same files.
A file that cannot be loaded is left out, with its reason, and tried again later and later; the
other files of its round are loaded. What fails for another reason, such as a server that does not
answer, is tried again too. Never reads local files: they would be seen half written.
A topic has no files to leave out: a record that cannot be loaded ends the job, unless the load
rejects such rows.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline import (
    errors,
    ingest,
    jobs,
    loads,
    offsets,
    progress,
    servers,
    serving,
    session,
    settings,
    sources,
    topics,
)

EVERY = "10s"
PAUSE_SECONDS_MAX = 300
"""The longest wait before something that failed is tried again, unless rounds are longer."""
FAILURES_MAX = 20
"""Failed loads in succession after which a round ends: more than it takes to isolate one file."""

OF_SOURCES = (errors.BadSource, errors.BadArgument, errors.SourceChanged, errors.SparkFailed)
"""What a load raises of which a single source can be the reason."""
OF_ARGUMENTS = (errors.BadArgument, errors.SparkFailed)
"""Those that are as likely to concern every source, but for OF_ONE_SOURCE."""
OF_ONE_SOURCE = (errors.UnfitSource, errors.SparkJobFailed)
FINAL = (errors.BadArgument, errors.NoJava, errors.JarsMissing)
"""What no later round mends."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Followed:
    """What a follower loaded. left_out: the sources that it could not load, with their reasons."""

    loads: int
    rows: int
    sources: int
    left_out: dict[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class _LeftOut:
    """Why a source was left out, how often, and when it is tried again (monotonic seconds)."""

    reason: str
    count: int
    due_at: float


def parse_every(text: str) -> int:
    """Return the seconds of a time like `10s`, `5m` or `1h`, at most a day. Raises BadArgument."""
    seconds = settings.parse_seconds(text, "--every")
    if not seconds:
        raise errors.BadArgument(f"--every {text!r} is not a time like 10s, 5m or 1h")
    return seconds


def check(load: jobs.Load) -> None:
    """Raise BadArgument for a load that cannot be followed."""
    if load.relation is not None and not isinstance(load.relation, settings.KafkaSource):
        raise errors.BadArgument(
            f"--follow takes the objects of a bucket or a topic, not {load.relation}; a pipeline's "
            "file can load that by a schedule, or after the pipeline that writes it"
        )
    for place in load.places:
        if isinstance(place, settings.LocalPath):
            raise errors.BadArgument(
                f"--follow does not take {place}, a file or folder of this machine, whose files "
                "could be read half written; put them into a bucket"
            )
    if load.mode == "replace":
        raise errors.BadArgument("--follow appends or merges; --mode replace takes all sources")
    if load.merge is not None and load.merge.order_by is None:
        raise errors.BadArgument(
            "--follow with --mode merge needs --order-by: without it the newest row of a key "
            "would depend on when its file arrives"
        )


def run(
    server: settings.ServerEndpoint,
    load: jobs.Load,
    *,
    every_seconds: int,
    ends_on_error: bool,
    open_spark: session.Open,
    say: progress.Say,
    loaded: Callable[[jobs.Loaded], None],
) -> Followed:
    """Load what arrives, until KeyboardInterrupt; then return what was loaded.

    Spark, once started, runs until the end. loaded: called after each load. Raises PipelineError
    at once with ends_on_error; otherwise for wrong arguments, and if the first round fails
    for another reason than its sources.
    """
    session_of_rounds = serving.WarmSession(
        open_spark, server_answers=lambda: servers.answers(server)
    )
    with contextlib.closing(session_of_rounds) as warm:
        follower = _Follower(
            server, load, ends_on_error=ends_on_error, warm=warm, every_seconds=every_seconds,
            say=say, loaded=loaded,
        )  # fmt: skip
        with contextlib.suppress(KeyboardInterrupt):
            follower.follow()
    return follower.followed


class _Follower:
    """The rounds. Mutable: it remembers what the table has, and what was left out."""

    def __init__(
        self,
        server: settings.ServerEndpoint,
        load: jobs.Load,
        *,
        every_seconds: int,
        ends_on_error: bool,
        warm: serving.WarmSession,
        say: progress.Say,
        loaded: Callable[[jobs.Loaded], None],
    ) -> None:
        self._server, self._load = server, load
        self._every_seconds = every_seconds
        self._ends_on_error = ends_on_error
        self._warm = warm
        self._say, self._loaded = say, loaded
        self._s3: Any = sources.client(server)
        self._topic = topics.reader_of(load)
        self._seen: offsets.TopicState | None = None
        self._taken: set[sources.Source] = set()
        self._left_out: dict[sources.Source, _LeftOut] = {}
        self._is_proven = False
        self._totals = (0, 0, 0)

    @property
    def followed(self) -> Followed:
        """What was loaded so far."""
        count, rows, objects = self._totals
        reasons = {source.place: one.reason for source, one in self._left_out.items()}
        return Followed(loads=count, rows=rows, sources=objects, left_out=reasons)

    def follow(self) -> None:
        """Do one round after another."""
        where = ", ".join(map(str, self._load.places)) or str(self._load.relation)
        self._say(f"following {where}, every {self._every_seconds} s")
        failures = 0
        while True:
            pause = self._every_seconds
            try:
                if self._topic is None:
                    self._do_round()
                else:
                    self._do_round_of(self._topic)
            except FINAL:
                raise
            except errors.PipelineError as error:
                is_of_record = self._topic is not None and isinstance(error, errors.BadSource)
                if is_of_record or self._ends_on_error or not self._is_proven:
                    raise
                failures += 1
                pause = self._pause(failures)
                self._say(f"trying again in {pause} s: {_reason(error)}")
            else:
                failures, self._is_proven = 0, True
            time.sleep(pause)

    def _do_round_of(self, topic: topics.Brokers) -> None:
        state = topic.state()
        if state == self._seen:
            return
        is_whole = False
        while not is_whole:
            done = ingest.run(self._server, self._load, open_spark=self._warm.opened, say=self._say)
            self._is_proven = True
            self._note((), done)
            is_whole = done.snapshot_id is None or topic.source.records_max is None
        # Of what has come since, the next round loads what this one has not.
        self._seen = state

    def _do_round(self) -> None:
        listed = set(listing := sources.listed_at(self._s3, self._load.places))
        # A file that was deleted or written again is no longer the one that was left out.
        self._left_out = {one: why for one, why in self._left_out.items() if one in listed}
        now = time.monotonic()
        arrived = [one for one in listing if one not in self._taken and one not in self._left_out]
        again = [one for one, why in self._left_out.items() if why.due_at <= now]
        if not arrived and not again:
            return
        taken = loads.taken(self._server, self._load.table)
        self._is_proven = self._is_proven or bool(taken)
        # It may have lost sources too: the table was dropped, or a load replaced its content.
        self._taken = {one for one in listing if (one.place, one.etag) in taken}
        fresh = [one for one in listing if one not in self._taken and one not in self._left_out]
        # Files that failed before are tried singly, so that they hold up no others.
        parts: list[Sequence[sources.Source]] = [[one] for one in reversed(again)]
        self._load_parts([*parts, fresh] if fresh else parts)

    def _load_parts(self, parts: list[Sequence[sources.Source]]) -> None:
        """Load each part, the last first, in one transaction; a part that fails, by halves."""
        failures = 0
        while parts and failures < FAILURES_MAX:
            part = parts.pop()
            try:
                done = ingest.run(
                    self._server, self._load,
                    open_spark=self._warm.opened, say=self._say, only=part,
                )  # fmt: skip
            except OF_SOURCES as error:
                if self._ends_on_error:
                    raise
                failures += 1
                if len(part) > 1:
                    middle = len(part) // 2
                    parts += [part[middle:], part[:middle]]
                    continue
                is_final = isinstance(error, OF_ARGUMENTS) and not isinstance(error, OF_ONE_SOURCE)
                if is_final and not self._is_proven:
                    raise
                self._leave_out(part[0], error)
            else:
                failures, self._is_proven = 0, True
                self._note(part, done)

    def _note(self, part: Sequence[sources.Source], done: jobs.Loaded) -> None:
        self._taken.update(part)
        for source in part:
            self._left_out.pop(source, None)
        if done.snapshot_id is not None:
            count, rows, objects = self._totals
            self._totals = count + 1, rows + done.rows, objects + done.sources
            self._loaded(done)

    def _leave_out(self, source: sources.Source, error: errors.PipelineError) -> None:
        before = self._left_out.get(source)
        count = 1 if before is None else before.count + 1
        pause, reason = self._pause(count), _reason(error)
        self._left_out[source] = _LeftOut(
            reason=reason, count=count, due_at=time.monotonic() + pause
        )
        self._say(f"left out {source.place}, to be tried again in {pause} s: {reason}")

    def _pause(self, failures: int) -> int:
        """Return the seconds to wait after failures: twice as many each time."""
        # The exponent is bounded, so that the number stays small.
        doubled = self._every_seconds << min(failures, 10)
        return max(self._every_seconds, min(doubled, PAUSE_SECONDS_MAX))


def _reason(error: errors.PipelineError) -> str:
    return error.reason if isinstance(error, errors.Overtaken) else str(error)
