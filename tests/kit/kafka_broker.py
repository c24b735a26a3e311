"""A broker of Apache Kafka, alone in its cluster, from the jars of its release.

It has a listener without accounts, and one with SASL's PLAIN for the account of USER.
The jars are fetched once by Ivy into the pipeline's cache, with their checksums in
`kafka_broker.lock`. The broker runs in KRaft mode; its data lie in a folder of the test run.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pipeline import errors, jars, java

RELEASE = "4.1.1"
JARS = jars.JarSet(
    name="kafka-broker",
    label="the jars of Kafka's broker",
    size_mib=43,
    lock=Path(__file__).with_suffix(".lock"),
    dependencies=f'<dependency org="org.apache.kafka" name="kafka_2.13" rev="{RELEASE}" '
    'conf="*->default"/>',
)
START_SECONDS = 120
ANSWER_SECONDS = 30
OPTIONS = (
    "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData",
    "-Dlog4j2.level=ERROR",
)  # fmt: skip
USER, PASSWORD = "loader", "loaders-secret"
SERVER = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=\
  org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{password}";
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.min.isr=1
auto.create.topics.enable=false
log.retention.ms=-1
"""


class Broker:
    """A running broker. bootstrap, sasl: HOST:PORT of each listener."""

    def __init__(self, bootstrap: str, sasl: str) -> None:
        import confluent_kafka.admin

        self._kafka: Any = confluent_kafka
        self.bootstrap = bootstrap
        self.sasl = sasl
        properties = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._admin = self._kafka.admin.AdminClient(properties)

    def create(self, topic: str, partitions: int = 1, **config: str) -> None:
        """Create a topic. config: of the topic, with _ for the dots of its names."""
        new = self._kafka.admin.NewTopic(
            topic,
            partitions,
            1,
            config={name.replace("_", "."): one for name, one in config.items()},
        )
        self._admin.create_topics([new])[topic].result(ANSWER_SECONDS)
        self._wait(lambda: self._partitions(topic) == partitions)

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(ANSWER_SECONDS)
        self._wait(lambda: self._partitions(topic) == 0)

    def grow(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions: so many then."""
        new = self._kafka.admin.NewPartitions(topic, partitions)
        self._admin.create_partitions([new])[topic].result(ANSWER_SECONDS)
        self._wait(lambda: self._partitions(topic) == partitions)

    def truncate(self, topic: str, before: int, partition: int = 0) -> None:
        """Delete the records before an offset, as retention does."""
        until = self._kafka.TopicPartition(topic, partition, before)
        self._admin.delete_records([until])[until].result(ANSWER_SECONDS)

    def send(
        self,
        topic: str,
        values: Iterable[bytes | str | None],
        *,
        key: bytes | str | None = None,
        partition: int = 0,
        headers: Mapping[str, bytes] | None = None,
        timestamp_ms: int = 0,
    ) -> None:
        """Append records to a partition, and wait until the broker has them."""
        failed: list[Any] = []
        # A new one knows of a topic's new partitions at once.
        producer = self._kafka.Producer(
            {"bootstrap.servers": self.bootstrap, "linger.ms": 0, "log_level": 0}
        )

        def delivered(error: Any, _: Any) -> None:
            if error is not None:
                failed.append(error)

        for value in values:
            producer.produce(
                topic, value, key, partition, on_delivery=delivered, timestamp=timestamp_ms,
                headers=dict(headers or {}),
            )  # fmt: skip
            producer.poll(0)
        assert producer.flush(ANSWER_SECONDS) == 0
        assert not failed, failed

    @contextlib.contextmanager
    def transaction(self, name: str, topic: str, values: Iterable[str]) -> Iterator[Any]:
        """Send records in a transaction, which the block commits or aborts by its producer."""
        producer = self._kafka.Producer(
            {"bootstrap.servers": self.bootstrap, "transactional.id": name, "log_level": 0}
        )
        producer.init_transactions(ANSWER_SECONDS)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=0)
        assert producer.flush(ANSWER_SECONDS) == 0
        yield producer

    def _partitions(self, topic: str) -> int:
        listed = self._admin.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic]
        return 0 if listed.error is not None else len(listed.partitions)

    @staticmethod
    def _wait(condition: Any) -> None:
        deadline = time.monotonic() + ANSWER_SECONDS
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.05)


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Broker]:
    """Run a broker whose data lie in folder; skip the test if its jars cannot be fetched."""
    runtime = java.find(os.environ)
    try:
        classes = jars.ensure(runtime, os.environ, say=print, jar_set=JARS)
    except errors.JarsMissing as error:
        pytest.skip(str(error))
    port, sasl, controller = _free_ports(3)
    properties = folder / "server.properties"
    properties.write_text(
        SERVER.format(
            port=port, sasl=sasl, controller=controller, folder=folder, user=USER,
            password=PASSWORD,
        )
    )  # fmt: skip
    command = [str(runtime.command), *OPTIONS, "-cp", f"{classes}/*"]
    with (folder / "broker.log").open("wb") as log:
        subprocess.run(
            [*command, "kafka.tools.StorageTool", "format", "--config", str(properties),
             "--cluster-id", "MkU3OEVBNTcwNTJENDM2Qg"],
            check=True, stdout=log, stderr=log,
        )  # fmt: skip
        process = subprocess.Popen(
            [*command, "kafka.Kafka", str(properties)], stdout=log, stderr=log, cwd=folder
        )
    try:
        _wait_for(process, port, folder / "broker.log")
        yield Broker(f"127.0.0.1:{port}", f"127.0.0.1:{sasl}")
    finally:
        process.kill()
        process.wait()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in taken:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in taken]


def _wait_for(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)


if __name__ == "__main__":
    try:
        jars.ensure(java.find(os.environ), os.environ, say=print, jar_set=JARS)
    except errors.PipelineError as error:
        sys.exit(str(error))
