"""What a bench measures with: processes' CPU, nginx as the stand-in, signed requests."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.kit import server as server_kit

CPU_CLOCK = 2
"""The clock of a process, of all of its threads, in the number that names it."""
PAGE_BYTES = os.sysconf("SC_PAGESIZE")
WEED_FLAGS = (
    "-ip.bind=127.0.0.1",
    "-master.telemetry=false",
    "-webdav=false",
    "-admin.ui=false",
    "-s3.port.iceberg=0",
    "-s3.port.lance=0",
)
"""S3 and what it needs, on loopback alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One case's outcome. cpu_us is the server's CPU per answer, user and system together."""

    answers: int
    seconds: float
    cpu_us: float
    p50_ms: float
    p99_ms: float
    megabytes: float

    @property
    def per_second(self) -> float:
        return self.answers / self.seconds


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its children, in seconds.

    Read from the clock that each process has (`clock_getcpuclockid`): the figures of /proc are cut
    to ten milliseconds, a twentieth of what some rows take.
    """
    total = 0.0
    for member in family(pid):
        with contextlib.suppress(OSError):
            total += time.clock_gettime((~member << 3) | CPU_CLOCK)
    return total


def memory_mib(pid: int) -> float:
    """Resident memory of a process and its children, in MiB; shared pages count in each."""
    total = 0
    for member in family(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            total += int(Path(f"/proc/{member}/statm").read_text().split()[1])
    return total * PAGE_BYTES / 2**20


def family(pid: int) -> list[int]:
    """Return a process and its children."""
    members = [pid]
    for member in members:
        try:
            text = Path(f"/proc/{member}/task/{member}/children").read_text()
        except FileNotFoundError:
            continue
        members.extend(int(child) for child in text.split())
    return members


def drive(
    url: str,
    pid: int,
    requests: Sequence[bytes],
    *,
    connections: int,
    seconds: float,
    cycle: bool = True,
    lanes: bool = False,
    megabytes_each: float = 0.0,
    expected: frozenset[int] = frozenset({200}),
    bodiless: bool = False,
) -> Figure:
    """Send requests from a process of their own; return what the server did and what it cost.

    bodiless: answers have no body whatever their Content-Length says, as those to HEAD.
    """
    parts = urlsplit(url)
    plan = {
        "host": parts.hostname,
        "port": parts.port,
        "connections": connections,
        "seconds": seconds,
        "cycle": cycle,
        "lanes": lanes,
        "bodiless": bodiless,
        "sizes_bytes": [len(request) for request in requests],
    }
    before = cpu_seconds(pid)
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.load"],
        input=b"\n".join((json.dumps(plan).encode(), b"".join(requests))),
        capture_output=True,
        cwd=server_kit.ROOT,
        check=True,
        timeout=seconds + 120,
    )
    spent = cpu_seconds(pid) - before
    said = json.loads(done.stdout)
    unexpected = {s: n for s, n in said["statuses"].items() if int(s) not in expected}
    assert not unexpected, f"unexpected answers {unexpected} from {url}"
    assert said["answers"], f"no answers from {url}"
    return Figure(
        answers=said["answers"],
        seconds=said["seconds"],
        cpu_us=spent / said["answers"] * 1e6,
        p50_ms=said["p50_ms"],
        p99_ms=said["p99_ms"],
        megabytes=said["answers"] * megabytes_each,
    )


def raw_request(
    method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes = b""
) -> bytes:
    """One whole HTTP/1.1 request."""
    parts = urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    lines = [f"{method} {target} HTTP/1.1", f"Host: {parts.netloc}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if body or method in {"PUT", "POST"}:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def signed_request(
    running: server_kit.Running,
    method: str,
    path: str,
    body: bytes = b"",
    service: str = "s3",
    *,
    headers: Mapping[str, str] | None = None,
    sign_payload: bool = False,
) -> bytes:
    """One request signed by botocore, headers included; good for fifteen minutes.

    sign_payload: whether S3's signature covers the body, so that the server computes its SHA-256.
    """
    from botocore.auth import S3SigV4Auth, SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.config import Config
    from botocore.credentials import Credentials

    request = AWSRequest(method=method, url=running.url + path, data=body, headers=headers)
    if service == "s3":
        # Without a word in its configuration botocore signs every body that is sent without TLS.
        request.context["client_config"] = Config(s3={"payload_signing_enabled": sign_payload})
    signer = S3SigV4Auth if service == "s3" else SigV4Auth
    signer(Credentials(running.access_key, running.secret_key), service, "us-east-1").add_auth(
        request
    )
    return raw_request(method, running.url + path, dict(request.headers.items()), body)


def presigned_request(
    running: server_kit.Running,
    method: str,
    path: str,
    body: bytes = b"",
    *,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """One request whose URL botocore has signed; headers are sent beside it, unsigned."""
    from botocore.auth import S3SigV4QueryAuth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    request = AWSRequest(method=method, url=running.url + path)
    credentials = Credentials(running.access_key, running.secret_key)
    S3SigV4QueryAuth(credentials, "s3", "us-east-1", expires=3600).add_auth(request)
    return raw_request(method, request.url, headers, body)


@dataclass(frozen=True, kw_only=True, slots=True)
class Peer:
    """A started stand-in: where it listens, its first process, the folder it serves."""

    url: str
    pid: int
    folder: Path


NGINX_CONFIG = """
worker_processes 1;
pid {root}/nginx.pid;
error_log {root}/error.log;
events {{ worker_connections 512; }}
http {{
  access_log off;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 1000000;
  client_max_body_size 1g;
  client_body_temp_path {root}/body;
  proxy_temp_path {root}/p; fastcgi_temp_path {root}/f; uwsgi_temp_path {root}/u;
  scgi_temp_path {root}/s;
  server {{
    listen 127.0.0.1:{port};
    root {root}/files;
    location / {{ dav_methods PUT DELETE; create_full_put_path on; }}
  }}
}}
"""


@contextmanager
def nginx(root: Path) -> Iterator[Peer | None]:
    """Start nginx with one worker and DAV; yield None where it is not installed."""
    command = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
    if command is None:
        yield None
        return
    port = free_port()
    root.mkdir()
    root.parent.chmod(0o755)
    files = root / "files"
    files.mkdir()
    for folder in (root, files):
        folder.chmod(0o777)
    config = root / "nginx.conf"
    config.write_text(NGINX_CONFIG.format(root=root, port=port))
    process = subprocess.Popen(
        [
            command,
            "-c",
            str(config),
            "-p",
            str(root),
            "-e",
            str(root / "error.log"),
            "-g",
            "daemon off;",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            server_kit.get(url + "/")
            break
        except OSError:
            time.sleep(0.05)
    try:
        yield Peer(url=url, pid=process.pid, folder=files)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(10)


@contextmanager
def seaweedfs(root: Path, command: Path) -> Iterator[server_kit.Running]:
    """Start SeaweedFS's `weed mini` with one key pair; yield it once it lists its buckets.

    It listens on each of the ports chosen here, and 10,000 above for gRPC.
    """
    (root / "data").mkdir(parents=True)
    ports = {name: free_port_pair() for name in ("master", "volume", "filer", "s3")}
    log = root / "log"
    keys = {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7BENCHED", "AWS_SECRET_ACCESS_KEY": "k" * 40}
    flags = [f"-{name}.port={port}" for name, port in ports.items()]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(command), "mini", f"-dir={root / 'data'}", "-ip=127.0.0.1", *flags, *WEED_FLAGS],
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, **keys},
        )
    running = server_kit.Running(
        url=f"http://127.0.0.1:{ports['s3']}",
        access_key=keys["AWS_ACCESS_KEY_ID"],
        secret_key=keys["AWS_SECRET_ACCESS_KEY"],
        data=root / "data",
        pid=process.pid,
        process=process,
        log=log,
    )
    try:
        _wait_for_buckets(running)
        yield running
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


def _wait_for_buckets(running: server_kit.Running) -> None:
    """Return once the server lists its buckets."""
    from botocore.exceptions import BotoCoreError, ClientError

    deadline = time.monotonic() + 60
    while True:
        try:
            s3(running).list_buckets()
        except (BotoCoreError, ClientError):
            if time.monotonic() > deadline or running.process.poll() is not None:
                raise AssertionError(running.log.read_text()[-2000:]) from None
            time.sleep(0.2)
        else:
            return


def free_port_pair() -> int:
    """A port on which no process listens at the moment, nor 10,000 above it."""
    import socket

    while True:
        port = free_port()
        with contextlib.suppress(OSError, OverflowError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port + 10_000))
            return port


def free_port() -> int:
    """A port on which no process listens at the moment."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def s3(running: server_kit.Running) -> Any:
    """A boto3 client, for setting a case up."""
    import boto3

    return boto3.client(
        "s3",
        endpoint_url=running.url,
        region_name="us-east-1",
        aws_access_key_id=running.access_key,
        aws_secret_access_key=running.secret_key,
    )
