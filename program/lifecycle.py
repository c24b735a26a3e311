"""wiring: serves a built program on a socket until a signal ends it.

uvicorn accepts connections and waits for them at the end; `server.transport` speaks HTTP. SIGTERM
and Ctrl-C drain: requests in flight finish while they make progress, and a second signal ends them.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeAlias

import uvicorn

from catalog.namespaces import Namespaces
from program.application import Program
from server import config
from server.transport import connection, watch
from storage import errors, opening
from storage import model as storage_model

DRAIN_SECONDS = 30
STARTED_SECONDS = 0.002

End: TypeAlias = Callable[[], None]


class Server(uvicorn.Server):
    """Leaves signals to `serve`: uvicorn raises them again at the end, with exit code 143."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing: `serve` has its own signal handlers."""
        yield


async def serve(
    program: Program,
    settings: config.Config,
    listener: socket.socket,
    announce: Callable[[], Awaitable[None]],
    *,
    end_by: Callable[[End], None] | None = None,
) -> None:
    """Serve until the end is asked for.

    announce: a coroutine that runs once the port answers; if it fails, the server ends and
    raises its error. end_by: gets a function that drains at its first call and stops at its
    second; None: SIGTERM and Ctrl-C call it. Raises what `seed` raises.
    """
    await seed(settings, program.storage)
    await seed_schemas(settings, program.namespaces)
    application = program.application
    async with application.router.lifespan_context(application):
        await _serve(program, settings, listener, announce, end_by or _end_by_signals)


def _end_by_signals(end: End) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)


async def _serve(
    program: Program,
    settings: config.Config,
    listener: socket.socket,
    announce: Callable[[], Awaitable[None]],
    end_by: Callable[[End], None],
) -> None:
    server = Server(
        uvicorn.Config(
            program.application,
            http=connection.Connection,  # type: ignore[arg-type] # asyncio takes a BufferedProtocol
            ws="none",
            lifespan="off",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            log_config=None,
            timeout_graceful_shutdown=DRAIN_SECONDS,
            ssl_certfile=settings.tls_cert,
            ssl_keyfile=settings.tls_key,
        )
    )
    watching = watch.Watch(
        server.server_state.connections,
        idle_seconds=settings.idle_timeout_seconds,
        monotonic=time.monotonic,
    )
    end_by(functools.partial(_drain, program, server, watching))
    tasks = [
        asyncio.create_task(watching.run()),
        asyncio.create_task(_announce(server, announce)),
    ]
    announcing = tasks[1]
    # A server that cannot write its ready file ends, so that the caller does not wait for it.
    announcing.add_done_callback(functools.partial(_end_if_failed, server))
    try:
        await server.serve(sockets=[listener])
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if not announcing.cancelled():
        announcing.result()


async def _announce(server: Server, announce: Callable[[], Awaitable[None]]) -> None:
    while not server.started:  # noqa: ASYNC110 - uvicorn offers no event
        await asyncio.sleep(STARTED_SECONDS)
    await announce()


def _drain(program: Program, server: Server, watching: watch.Watch) -> None:
    """Wait for requests in flight that make progress; the second signal closes them.

    The child of the scheduler ends meanwhile: its requests would be refused.
    """
    program.scheduler.begin_stop()
    watching.drain()
    server.force_exit = server.should_exit
    server.should_exit = True


def _end_if_failed(server: Server, announcing: asyncio.Task[None]) -> None:
    if not announcing.cancelled() and announcing.exception() is not None:
        server.should_exit = True


async def seed_schemas(settings: config.Config, namespaces: Namespaces) -> None:
    """Create the schemas that the configuration names."""
    for table_bucket, schema in settings.schemas:
        levels = tuple(schema.split("."))
        for depth in range(1, len(levels) + 1):
            if not namespaces.exists(table_bucket, levels[:depth]):
                await namespaces.create(table_bucket, levels[:depth], by=settings.account)


async def seed(settings: config.Config, storage: opening.Storage) -> None:
    """Create the buckets that the configuration names.

    Raises BucketAlreadyExists if a bucket of the other type has the name.
    """
    wanted: list[tuple[str, storage_model.BucketType]] = [
        (name, "table") for name in settings.table_buckets
    ]
    wanted += [(name, "general") for name in settings.buckets]
    for name, bucket_type in wanted:
        try:
            bucket = storage.buckets.get(name)
        except errors.NoSuchBucket:
            seed = settings.bucket_seeds.get(name, {}) if bucket_type == "table" else {}
            await storage.buckets.create(
                name,
                bucket_type=bucket_type,
                owner=settings.account,
                region=settings.region,
                settings=seed,
            )
        else:
            if bucket.type != bucket_type:
                raise errors.BucketAlreadyExists(
                    f"{name!r} is a {bucket.type} bucket already; it cannot be a "
                    f"{bucket_type} bucket too",
                    bucket=name,
                    owner=bucket.owner,
                )
