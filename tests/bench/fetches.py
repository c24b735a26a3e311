"""A million rows to pandas, beside the work that no server can leave out; all in turn, each round.

Three programs wait for a line, measure one round and write its seconds: the driver on this server,
raw DataFusion on the same Parquet file, and raw DataFusion whose rows another process gets. Of each
figure the lower quartile of all rounds counts: the least one is luck, and medians follow what else
the machine does.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet

from tests.kit import environments, lake_client
from tests.kit import server as server_kit

ROUNDS: Final = 15
QUERY: Final = "select * from lake.bench.fetched"

DRIVER: Final = """
import json, sys, time
import pyarrow as pa
import snowflake.connector
port, user, password, text, file = sys.argv[1:]
connection = snowflake.connector.connect(
    account="bench", user=user, password=password, host="127.0.0.1", port=int(port),
    protocol="http", database="lake",
)
def by_query():
    global query_id
    cursor = connection.cursor()
    frame = cursor.execute(text).fetch_pandas_all()
    query_id = cursor.sfqid
    assert frame.shape == (1_000_000, 5), frame.shape
def by_driver():
    cursor = connection.cursor()
    cursor.get_results_from_sfqid(query_id)
    assert cursor.fetch_pandas_all().shape == (1_000_000, 5)
def by_file():
    with pa.memory_map(file) as source:
        frame = pa.ipc.open_file(source).read_all().to_pandas()
    assert frame.shape == (1_000_000, 5), frame.shape
for _ in sys.stdin:
    seconds = {}
    for name, run in (("query", by_query), ("driver", by_driver), ("file", by_file)):
        started = time.perf_counter()
        run()
        seconds[name] = time.perf_counter() - started
    print(json.dumps(seconds), flush=True)
"""

COMPUTED: Final = """
import json, sys, time
import datafusion
context = datafusion.SessionContext()
context.register_parquet("t", sys.argv[1])
for _ in sys.stdin:
    started = time.perf_counter()
    context.sql("select * from t").collect()
    print(json.dumps({"computed": time.perf_counter() - started}), flush=True)
"""

SENT: Final = """
import json, os, socket, struct, sys, time
ours, theirs = socket.socketpair()
theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
if os.fork() == 0:
    import datafusion
    import pyarrow as pa
    ours.close()
    context = datafusion.SessionContext()
    context.register_parquet("t", sys.argv[1])
    room = pa.allocate_buffer(16 << 20)
    def send(batches):
        table = pa.Table.from_batches(batches).combine_chunks()
        sink = pa.FixedSizeBufferWriter(room)
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        theirs.sendall(struct.pack("Q", sink.tell()))
        theirs.sendall(memoryview(room)[: sink.tell()])
    while theirs.recv(1):
        batches, size = [], 0
        for batch in context.sql("select * from t").execute_stream():
            batches.append(batch.to_pyarrow())
            size += batches[-1].nbytes
            if size >= 8 << 20:
                send(batches)
                batches, size = [], 0
        if batches:
            send(batches)
        theirs.sendall(struct.pack("Q", 0))
    os._exit(0)
theirs.close()
room = memoryview(bytearray(16 << 20))
header = memoryview(bytearray(8))
def receive(left):
    while left:
        left = left[ours.recv_into(left, 0, socket.MSG_WAITALL) :]
for _ in sys.stdin:
    started = time.perf_counter()
    ours.sendall(b"q")
    while True:
        receive(header)
        (size,) = struct.unpack("Q", header)
        if not size:
            break
        receive(room[:size])
    print(json.dumps({"sent": time.perf_counter() - started}), flush=True)
"""


def measure(running: server_kit.Running, folder: Path, rows: pa.Table) -> dict[str, Any]:
    """Return the figures of fetching rows, whose columns are stored in their order.

    No server can leave out the query and what the driver does with an answer. The first is raw
    DataFusion's; the second is measured as the fetch of the answer before again, which is computed
    and encoded already. The driver learns of the chunks after the last row, so the floor is their
    sum. A server whose engine is a process of its own passes the rows on as well, encoded, once:
    the floor of `ratio_sent` has that too. An Arrow file is mapped, not read.
    """
    lake_client.catalog(running).create_table("bench.fetched", schema=rows.schema).append(rows)
    file, parquet = folder / "fetched.arrow", folder / "fetched.parquet"
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    pa.parquet.write_table(rows, parquet, compression="zstd")
    keys = (str(running.port), running.access_key, running.secret_key)
    driver = [
        str(environments.python("snowflake5")),
        "-W",
        "ignore",
        "-c",
        DRIVER,
        *keys,
        QUERY,
        str(file),
    ]
    commands = [driver, *([sys.executable, "-c", text, str(parquet)] for text in (COMPUTED, SENT))]
    with contextlib.ExitStack() as stack:
        programs = [stack.enter_context(_waiting(command)) for command in commands]
        _round(programs)
        rounds = [_round(programs) for _ in range(ROUNDS)]
    ms = {
        name: statistics.quantiles([each[name] * 1000 for each in rounds])[0] for name in rounds[0]
    }
    return {
        "ms": ms["query"],
        "least_ms": min(each["query"] for each in rounds) * 1000,
        "driver_ms": ms["driver"],
        "raw_datafusion_ms": ms["computed"],
        "raw_datafusion_sent_ms": ms["sent"],
        "arrow_file_ms": ms["file"],
        "ratio_sent": ms["query"] / (ms["driver"] + ms["sent"]),
        "ratio": ms["query"] / (ms["driver"] + ms["computed"]),
        "target": "ratio_sent <= 1.3",
    }


@contextlib.contextmanager
def _waiting(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=server_kit.ROOT,
    ) as program:
        yield program


def _round(programs: Sequence[subprocess.Popen[str]]) -> dict[str, float]:
    seconds: dict[str, float] = {}
    for program in programs:
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write("\n")
        program.stdin.flush()
        seconds |= json.loads(program.stdout.readline())
    return seconds
