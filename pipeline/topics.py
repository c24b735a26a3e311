"""engine: the records of a Kafka topic, read into a file that a load reads.

A load asks the brokers which offsets a topic has, reads those that the table has not loaded, and
names them in its commit. Kafka keeps no offsets of this consumer: the record of loads is the only
state. Records of transactions are read once these are committed; those that were aborted are not
read. Properties of the connection come from a file and never stand in a message.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pipeline import (
    errors,
    jobs,
    loads,
    offsets,
    properties,
    settings,
    sources,
    spooling,
    workfolders,
)

PACKAGE: Final = "confluent_kafka"
ANSWER_SECONDS: Final = 30
"""How long brokers may take to answer one request."""
SILENCE_SECONDS: Final = 60
"""How long a topic's records may take to come, when the brokers have said that there are some."""
POLL_SECONDS: Final = 0.2
RECORDS_AT_ONCE: Final = 2_000
GROUP: Final = "boathouse-pipeline"
"""Brokers that check rights may ask for those of a group; no offsets are committed to it."""
OWN_PROPERTIES: Final = frozenset(
    {
        "bootstrap.servers", "metadata.broker.list", "isolation.level", "enable.auto.commit",
        "auto.commit.enable", "enable.auto.offset.store", "auto.offset.reset",
        "enable.partition.eof",
    }
)  # fmt: skip
"""What a load sets itself: with other values it would not read each record once."""
HARMLESS: Final = frozenset({"security.protocol", "sasl.mechanism", "sasl.mechanisms", "group.id"})
"""Properties whose values are no secrets."""


def check(source: settings.KafkaSource) -> None:
    """Raise BadArgument without a client, or for a file of the user that it cannot use."""
    if importlib.util.find_spec(PACKAGE) is None:
        raise errors.BadArgument("Kafka's client is not installed; run `make setup-all`")
    spooling.check(source)
    _configuration(source)


class Topic:
    """A topic as the source of a load. Mutable: it remembers the file that it wrote last."""

    def __init__(
        self, server: settings.ServerEndpoint, load: jobs.Load, s3: Any, folder: Path
    ) -> None:
        assert isinstance(load.relation, settings.KafkaSource)
        self._server, self._load, self._s3 = server, load, s3
        self._source = load.relation
        self._folder = folder
        self._brokers = Brokers(load.relation)
        self._spool: spooling.Spool | None = None
        self._place = ""

    def wanted(self) -> sources.WantedSources:
        """Read what the table does not have yet; return it. Raises PipelineError."""
        # The record first: what another load adds to it afterwards is refused at the commit.
        replaces = self._load.mode == "replace"
        taken = set() if replaces else loads.taken(self._server, self._load.table)
        state = self._brokers.state()
        self._place = state.place
        chain = frozenset(etag for place, etag in taken if place == state.place)
        rows = offsets.remaining(
            state, chain, lost_records=self._source.lost_records, is_whole=replaces
        )
        nothing = sources.WantedSources(fresh=(), skipped=len(chain) // 2, noun=self._load.noun)
        if rows is None or (replaces and self._is_content(state)):
            return nothing
        spool, until = self._read(state, rows)
        if until == rows.start and not replaces:  # what is left are marks of transactions
            return nothing
        file = spool.close()
        fresh = sources.Source(
            place=state.place, etag=offsets.etag_of(state, until), size_bytes=file.size_bytes
        )
        is_kept = bool(chain) or (
            replaces and bool(loads.columns_if_any(self._server, self._load.table))
        )
        if not spool.count and not spool.rejected and not is_kept:
            return nothing
        return sources.WantedSources(
            fresh=(fresh,),
            skipped=nothing.skipped,
            cleaned=(file,) if spool.count else (),
            rejected=tuple(spool.rejected),
            claims=((state.place, rows.claim),),
            chain=None if replaces else chain,
            noun=self._load.noun,
            remark=_remark(state, rows, until, spool.count),
            may_be_empty=True,
        )

    def located(self, wanted: sources.WantedSources) -> sources.WantedSources:
        """Return the sources with the partition and offset of each rejected record."""
        return dataclasses.replace(
            wanted, rejected=tuple(self._with_origin(row) for row in wanted.rejected)
        )

    @contextlib.contextmanager
    def naming(self) -> Iterator[None]:
        """Let errors of the block name partition and offset of a record, not a line of the file."""
        try:
            yield
        except errors.PipelineError as error:
            if self._spool is not None:
                if self._source.format == "avro" and isinstance(error, errors.SparkJobFailed):
                    self._spool.check_avro()
                error.args = (self._named(str(error), self._spool),)
            raise

    def _is_content(self, state: offsets.TopicState) -> bool:
        """Return whether the table's rows are just those that a load would replace them with."""
        content = loads.content(self._server, self._load.table, self._s3) or set()
        digests = {row for row in content if row[0] == loads.TRANSFORMS}
        is_whole = (state.place, offsets.etag_of(state, state.end)) in content
        return is_whole and digests == set(loads.of_transforms(self._load))

    def _read(
        self, state: offsets.TopicState, rows: offsets.OffsetRange
    ) -> tuple[spooling.Spool, offsets.Positions]:
        name = Path(tempfile.mkdtemp(prefix="topic-", dir=self._folder)) / "records"
        path = name.with_suffix(f".{self._load.reader.format}")
        self._spool = spooling.Spool(self._load, path, state.place)
        until = self._brokers.read(rows, self._spool, self._source.records_max)
        return self._spool, until

    def _with_origin(self, row: sources.RejectedRow) -> sources.RejectedRow:
        assert self._spool is not None
        if row.source != f"file://{self._spool.path}":
            return row
        partition, offset = self._spool.origin(row.line)
        return dataclasses.replace(row, source=f"{self._place}/{partition}", line=offset)

    def _named(self, text: str, spool: spooling.Spool) -> str:
        def origin(match: re.Match[str]) -> str:
            partition, offset = spool.origin(int(match.group(1)))
            return f"{self._source.topic}: partition {partition}, offset {offset}"

        for name in (f"file://{spool.path}", self._place):
            text = re.sub(rf"{re.escape(name)}: line (\d+)", origin, text)
            text = text.replace(name, f"the topic {self._source.topic}")
        return text


@contextlib.contextmanager
def opened(server: settings.ServerEndpoint, load: jobs.Load, s3: Any) -> Iterator[Topic | None]:
    """Yield the topic of a load; None for a load of something else.

    In the block the files exist that `Topic.wanted` names.
    """
    source = load.relation
    if not isinstance(source, settings.KafkaSource):
        yield None
        return
    check(source)
    with workfolders.opened() as folder:
        topic = Topic(server, load, s3, folder)
        with topic.naming():
            yield topic


def _remark(
    state: offsets.TopicState, rows: offsets.OffsetRange, until: offsets.Positions, count: int
) -> str:
    parts = [
        f"{partition} from {rows.start[partition]} to {end - 1}"
        for partition, end in sorted(until.items())
        if end > rows.start[partition]
    ]
    if not parts:
        return f"{state.topic} has no records"
    return f"read {count:,} records of {state.topic}: offsets of partition " + ", ".join(parts)


def reader_of(load: jobs.Load) -> Brokers | None:
    """Return the brokers of a load's topic; None for a load of something else.

    Raises BadArgument.
    """
    if not isinstance(load.relation, settings.KafkaSource):
        return None
    check(load.relation)
    return Brokers(load.relation)


class Brokers:
    """What the brokers of a cluster answer about one topic. Mutable: it keeps their last error."""

    def __init__(self, source: settings.KafkaSource) -> None:
        self.source = source
        self._reason = ""
        self._is_refused = False

    def state(self) -> offsets.TopicState:
        """Return the topic as it is now. Raises BadArgument, NoBroker."""
        # Imported here: other sources need it not.
        import confluent_kafka.admin

        kafka: Any = confluent_kafka
        topic = self.source.topic
        with self._failures(), contextlib.ExitStack() as ending:
            client = kafka.admin.AdminClient(self._properties())
            ending.callback(client.poll, 0)  # an error of the connection is only told by it
            cluster = self._cluster(client)
            described_topics = client.describe_topics(
                kafka.TopicCollection([topic]), request_timeout=ANSWER_SECONDS
            )
            described = described_topics[topic].result()
            partitions = [kafka.TopicPartition(topic, one.id) for one in described.partitions]

            def positions(spec: Any) -> offsets.Positions:
                answers = client.list_offsets(
                    dict.fromkeys(partitions, spec),
                    isolation_level=kafka.IsolationLevel.READ_COMMITTED,
                    request_timeout=ANSWER_SECONDS,
                )
                return {one.partition: int(answers[one].result().offset) for one in partitions}

            return offsets.TopicState(
                cluster=cluster,
                topic=topic,
                topic_id=str(described.topic_id),
                first=positions(kafka.admin.OffsetSpec.earliest()),
                end=positions(kafka.admin.OffsetSpec.latest()),
            )

    def _cluster(self, client: Any) -> str:
        """Return the id of the brokers' cluster. Raises KafkaException.

        A client goes on with a password that was refused until the time is over, and only says so
        when it is polled. So it is asked in steps.
        """
        # Imported here: other sources need it not.
        import confluent_kafka

        kafka: Any = confluent_kafka
        deadline = time.monotonic() + ANSWER_SECONDS
        step_seconds = 1.0
        while True:
            left = deadline - time.monotonic()
            try:
                listed = client.list_topics(self.source.topic, timeout=min(step_seconds, left))
                return str(listed.cluster_id)
            except kafka.KafkaException:
                client.poll(0)
                if self._is_refused or left <= step_seconds:
                    raise
            step_seconds *= 2

    def read(
        self, rows: offsets.OffsetRange, spool: spooling.Spool, records_max: int | None
    ) -> offsets.Positions:
        """Read a range into a file; return where the reading ended. Raises PipelineError."""
        # Imported here: other sources need it not.
        import confluent_kafka

        kafka: Any = confluent_kafka
        topic = self.source.topic
        left = rows.records_max if records_max is None else records_max
        position = dict(rows.start)
        unread = {one for one, end in rows.until.items() if end > position[one]}
        deadline = time.monotonic() + SILENCE_SECONDS
        with self._failures(), contextlib.closing(kafka.Consumer(self._reading())) as consumer:
            consumer.assign([kafka.TopicPartition(topic, one, position[one]) for one in unread])
            while unread and left:
                messages = consumer.consume(min(RECORDS_AT_ONCE, left), POLL_SECONDS)
                if messages:
                    deadline = time.monotonic() + SILENCE_SECONDS
                elif time.monotonic() > deadline:
                    raise errors.NoBroker(
                        f"no record of {topic} came in {SILENCE_SECONDS} s: {self._reason}"
                    )
                for message in messages:
                    partition, reached = message.partition(), message.offset()
                    if partition not in unread:
                        continue
                    if message.error() is None:
                        if reached < rows.until[partition]:
                            spool.add(_record(message))
                            left -= 1
                        reached += 1
                    elif message.error().code() != kafka.KafkaError._PARTITION_EOF:  # noqa: SLF001 - its name
                        raise kafka.KafkaException(message.error())
                    # Offsets without a record, such as the mark of a transaction, are passed too.
                    position[partition] = min(reached, rows.until[partition])
                    if reached >= rows.until[partition]:
                        unread.discard(partition)
                        consumer.incremental_unassign([kafka.TopicPartition(topic, partition)])
        return position

    def _properties(self) -> dict[str, Any]:
        return {
            **_configuration(self.source),
            "bootstrap.servers": self.source.bootstrap,
            "error_cb": self._note,
            "log_level": 0,
        }

    def _reading(self) -> dict[str, Any]:
        return {
            "group.id": GROUP,
            **self._properties(),
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
        }

    def _note(self, error: Any) -> None:
        self._is_refused = self._is_refused or error.name() == "_AUTHENTICATION"
        # What follows a refused password says only that no broker is left.
        if not self._reason or error.name() != "_ALL_BROKERS_DOWN":
            self._reason = str(error.str())

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        """Turn what Kafka's client raises into the pipeline's own errors, without secrets."""
        # Imported here: other sources need it not.
        import confluent_kafka

        kafka: Any = confluent_kafka
        path = self.source.properties_file
        with properties.hidden(lambda: properties.read(path), shown=HARMLESS):
            try:
                yield
            except kafka.KafkaException as exception:
                raise self._error(exception.args[0], kafka.KafkaError) from exception

    def _error(self, error: Any, codes: Any) -> errors.PipelineError:
        bootstrap = self.source.bootstrap
        if error.code() in {codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_TOPIC}:  # noqa: SLF001 - its name
            return errors.BadArgument(f"there is no topic {self.source.topic} at {bootstrap}")
        if error.code() in {codes._INVALID_ARG, codes._CONFLICT}:  # noqa: SLF001 - their names
            return errors.BadArgument(f"{self.source.properties_file or bootstrap}: {error.str()}")
        return errors.NoBroker(f"Kafka at {bootstrap}: {self._reason or error.str()}")


def _record(message: Any) -> spooling.KafkaRecord:
    _, timestamp_ms = message.timestamp()
    return spooling.KafkaRecord(
        partition=message.partition(),
        offset=message.offset(),
        key=message.key(),
        value=message.value(),
        timestamp_ms=timestamp_ms if timestamp_ms >= 0 else None,
        headers=message.headers() or (),
    )


def _configuration(source: settings.KafkaSource) -> Mapping[str, str]:
    """Return the user's properties of the client. Raises BadArgument."""
    own = properties.read(source.properties_file)
    for name in own:
        if name in OWN_PROPERTIES:
            raise errors.BadArgument(f"{source.properties_file}: a load sets {name} itself")
    return own
