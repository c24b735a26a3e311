"""The least that a durable PUT costs: a body's digests, and its file.

`python -m tests.bench.floor FOLDER` listens on a free port of 127.0.0.1 and prints the port. A
thread per connection receives each body into one buffer, computes its MD5 and its CRC64NVME, writes
it to a file, syncs, renames and syncs the folder, and answers. It has no signature, no rights, no
index and no bound. A body of S3 has at least this work. Its throughput follows the machine's cores
and disk as a server's does; a server whose threads share less and whose syncs are fewer may exceed
it.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import socket
import sys
import threading
from contextlib import AbstractContextManager
from pathlib import Path

from tests.bench import bare

BUFFER_BYTES = 1024 * 1024


def started(folder: Path) -> AbstractContextManager[bare.Bare]:
    """Start the program in a process of its own, with its files in a folder; end it afterwards."""
    return bare.program("tests.bench.floor", str(folder))


def main(folder: Path) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    for number in itertools.count():
        connection, _ = listener.accept()
        threading.Thread(target=_serve, args=(connection, folder, number), daemon=True).start()


def _serve(connection: socket.socket, folder: Path, number: int) -> None:
    buffer = bytearray(BUFFER_BYTES)
    view = memoryview(buffer)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection, contextlib.suppress(ConnectionError):
        for turn in itertools.count():
            held, head_end = _read_head(connection, buffer)
            if not held:
                return
            length = _content_length(bytes(view[:head_end]))
            etag = _store(connection, view, head_end, held, length, folder / f"{number}-{turn}")
            connection.sendall(b'HTTP/1.1 200 OK\r\nETag: "%b"\r\nContent-Length: 0\r\n\r\n' % etag)


def _read_head(connection: socket.socket, buffer: bytearray) -> tuple[int, int]:
    """Read until a head is whole; return the bytes that there are, 0 at the connection's end, and
    those of the head."""
    held = 0
    while True:
        count = connection.recv_into(memoryview(buffer)[held:])
        if not count:
            return 0, 0
        held += count
        end = buffer.find(b"\r\n\r\n", 0, held)
        if end >= 0:
            return held, end + 4


def _content_length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise ValueError("a request without a length")


def _store(
    connection: socket.socket, view: memoryview, start: int, held: int, length: int, path: Path
) -> bytes:
    """Receive and store one body, of which view has the bytes from start to held."""
    from awscrt import checksums

    digest, crc = hashlib.md5(usedforsecurity=False), 0
    temporary = path.with_suffix(".tmp")
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        received = held - start
        while True:
            if held == len(view) or received == length:
                piece = view[start:held]
                digest.update(piece)
                crc = checksums.crc64nvme(piece, crc)
                while piece:
                    piece = piece[os.write(file, piece) :]
                start = held = 0
            if received == length:
                break
            count = connection.recv_into(view[held:])
            if not count:
                raise ConnectionError("the body ended early")
            held += count
            received += count
        os.fsync(file)
    finally:
        os.close(file)
    temporary.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return digest.hexdigest().encode()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
