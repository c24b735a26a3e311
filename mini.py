"""wiring: the entry point of Boathouse.

Flags, environment and mini.toml become one Config. Storage, engines and faces are built from it,
served, and closed at the end. This module holds no rules. Each subcommand imports what it needs
when it runs, because a start must stay under a second.
"""

from __future__ import annotations

import time

STARTED = time.monotonic()

import argparse  # noqa: E402 - the start-up time counts from before the first import
import contextlib  # noqa: E402
import errno  # noqa: E402
import functools  # noqa: E402
import gc  # noqa: E402
import os  # noqa: E402
import socket  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

if sys.version_info < (3, 11):  # noqa: UP036 - an older Python cannot parse the modules below
    sys.exit(f"Boathouse needs Python 3.11 or newer; this is {sys.version.split()[0]}.")

if TYPE_CHECKING:
    from program.application import Program
    from server.config import Config
    from storage.opening import Storage

CHECKOUT = Path(__file__).resolve().parent
COMMANDS = ("serve", "sql", "connect", "recover", "fsck")
DATA_FOLDER = "./boathouse-data"
RUNNING_FILE = "running.json"
BACKLOG = 2048
FILES_MAX = 10_240
RECOVERY_LINES_MAX = 5
FSCK_DAMAGED = 1
FSCK_FAILED = 2
SWITCH_SECONDS = 0.0005
"""How long a thread may keep the interpreter from the event loop. With Python's default of 5 ms,
parsing four documents in threads delays a request by a quarter of a second."""
COLLECTOR_THRESHOLDS = (3_500, 2, 10)
"""When Python looks for cycles: after so many new objects, and in the older ones after 7,000 and
70,000 of them, as by default. Sixteen commits under way hold more than the default's 700 objects,
so that the collector went through them every eighth commit: 20 to 50 us of each, and 4 now."""
SAMPLE_QUERY = (
    "select species, count(*) as birds, round(avg(body_mass_g)) as grams "
    "from samples.penguins group by species order by species"
)


def main(arguments: list[str]) -> int:
    """Run one subcommand; return the process's exit code."""
    try:
        import lmdb  # noqa: F401 - tried here so that a Python without packages gets a clear message
        import msgspec  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        return _fail(
            f"Boathouse's packages are not installed for this Python ({error.name} is missing). "
            "Run `make run`, or `make setup` followed by `.venv/bin/python mini.py`."
        )
    options = _parser().parse_args(_with_command(arguments))
    command: Any = {
        "serve": _serve,
        "sql": _sql,
        "connect": _connect,
        "recover": _recover,
        "fsck": _fsck,
    }[options.command]
    return int(command(options))


def _with_command(arguments: list[str]) -> list[str]:
    # `serve` is the default, so `mini.py --port 0` means `mini.py serve --port 0`.
    if arguments and (arguments[0] in COMMANDS or arguments[0] in {"-h", "--help", "--version"}):
        return arguments
    return ["serve", *arguments]


def _parser() -> argparse.ArgumentParser:
    from server import config, connect

    parser = argparse.ArgumentParser(
        prog="mini.py",
        description="Boathouse: S3, s3tables, Iceberg REST and Snowflake SQL on one port.",
        epilog="`mini.py serve --help` lists the settings; `serve` itself may be left out.",
    )
    parser.add_argument("--version", action="version", version=f"Boathouse {config.VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="|".join(COMMANDS))

    serve = commands.add_parser("serve", help="start the server (the default)")
    serve.add_argument("--config", default=None, help="settings' file (default: ./mini.toml)")
    for setting in config.SETTINGS:
        if setting.name in config.NOT_FLAGS:
            continue
        text = setting.meaning.replace("%", "%%")
        if setting.type == "flag":
            serve.add_argument(
                setting.flag, dest=setting.name, action="store_true", default=None, help=text
            )
        else:
            serve.add_argument(
                setting.flag,
                dest=setting.name,
                action="append" if setting.type == "names" else "store",
                type=_port if setting.type == "count" else str,
                default=None,
                metavar=setting.type.upper().removesuffix("S"),
                help=f"{text} Default: {config.shown_default(setting)}.",
            )

    sql = commands.add_parser("sql", help="run a query on the running server")
    sql.add_argument("text", help='the statement, like "select 1"')
    sql.add_argument("--format", choices=("table", "csv", "json"), default="table")
    sql.add_argument("--schema", default=None, help="current schema")
    _add_place(sql)

    snippet = commands.add_parser("connect", help="print a client's ready-to-paste settings")
    snippet.add_argument("client", choices=sorted(connect.CLIENTS))
    _add_place(snippet)

    recover = commands.add_parser(
        "recover", help="show what a repair of a data folder would do, or do it"
    )
    recover.add_argument(
        "--yes", action="store_true", help="repair the folder; without --yes nothing is changed"
    )
    _add_data(recover, "data folder, which no server holds (default: %(default)s)")

    fsck = commands.add_parser(
        "fsck",
        help="check every body, name and count of a data folder",
        description="Exit code 0: the folder is sound, or all damage was repaired; "
        f"{FSCK_DAMAGED}: damage is left; {FSCK_FAILED}: the folder could not be checked.",
    )
    fsck.add_argument(
        "--repair",
        action="store_true",
        help="remove what nothing names, and correct counts; no name is ever removed",
    )
    _add_data(fsck, "data folder, which no server holds (default: %(default)s)")
    return parser


def _add_data(parser: argparse.ArgumentParser, meaning: str) -> None:
    default = os.environ.get("BOATHOUSE_DATA", DATA_FOLDER)
    parser.add_argument("--data", default=default, help=meaning)


def _add_place(parser: argparse.ArgumentParser) -> None:
    _add_data(parser, "data folder of the running server (default: %(default)s)")
    parser.add_argument("--warehouse", default=None, help="table bucket (default: the first)")


def _port(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def _fail(message: str) -> int:
    sys.stderr.write(message + "\n")
    return 1


def _load_config(options: argparse.Namespace) -> Config:
    import tomllib

    from server import config

    named = options.config or os.environ.get("BOATHOUSE_CONFIG")
    path = Path(named or "mini.toml")
    document: dict[str, Any] = {}
    if path.exists():
        try:
            document = tomllib.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise config.InvalidConfig(f"{path}: {error}") from error
    elif named:
        raise config.InvalidConfig(f"{path} does not exist")
    flags = {setting.name: getattr(options, setting.name, None) for setting in config.SETTINGS}
    environment = dict(os.environ)
    if "METASTORE_CONFIG" in environment:
        environment.setdefault("BOATHOUSE_METASTORE_CONFIG", environment["METASTORE_CONFIG"])
    settings = config.resolve(flags, environment, document)
    if settings.metastore_config:
        settings = config.with_metastore(settings, _read_yaml(settings.metastore_config))
    return settings


def _read_yaml(name: str) -> Any:
    """Return a YAML file's content, all scalars as texts."""
    import strictyaml

    from server import config

    try:
        return strictyaml.dirty_load(Path(name).read_text(), allow_flow_style=True).data
    except (OSError, UnicodeError) as error:
        raise config.InvalidConfig(f"{name} cannot be read: {error}") from None
    except strictyaml.YAMLError as error:
        # The error's own text quotes the lines around it, which may hold a secret key.
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f", at line {mark.line + 1}"
        raise config.InvalidConfig(f"{name} is not YAML that this server reads{line}") from None


def _serve(options: argparse.Namespace) -> int:
    from server import config
    from server.access import errors as access_errors
    from storage import errors as storage_errors

    try:
        settings = _load_config(options)
        _check_places(settings)
        _check_memory(settings)
        listener = _listen(settings.host, settings.port)
    except config.InvalidConfig as error:
        return _fail(f"mini.py: {error}")
    except OSError as error:
        return _fail(_why_not_listening(settings.host, settings.port, error))
    try:
        with contextlib.closing(listener):
            return _run(settings, listener)
    except storage_errors.FolderInUse as error:
        return _fail(
            f"mini.py: {error}{_holder(settings.data)}; stop it, or choose another folder with "
            "--data."
        )
    except (
        config.InvalidConfig,
        storage_errors.StorageError,
        access_errors.AccessError,
    ) as error:
        return _fail(f"mini.py: {error}")
    except OSError as error:
        path = error.filename or settings.data
        return _fail(f"mini.py: {path} cannot be used: {error.strerror or error}")


def _check_places(settings: Config) -> None:
    """Raise InvalidConfig, naming the flag, for a path that cannot be used."""
    import unicodedata

    from server import config

    folder = Path(settings.data)
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in str(folder.resolve())):
        raise config.InvalidConfig(
            f"--data {settings.data!r}: its path contains a control character or is not UTF-8"
        )
    if folder.exists() and not folder.is_dir():
        raise config.InvalidConfig(f"--data {folder} is a file, not a folder")
    if settings.ready_file and not Path(settings.ready_file).parent.is_dir():
        raise config.InvalidConfig(f"--ready-file {settings.ready_file}: its folder does not exist")
    for flag, path in (("--tls-cert", settings.tls_cert), ("--tls-key", settings.tls_key)):
        if path and not Path(path).is_file():
            raise config.InvalidConfig(f"{flag} {path} is not a file")
    if settings.tls_cert and settings.tls_key:
        from program import trust

        trust.check_pair(settings.tls_cert, settings.tls_key)
    for url, path in settings.identity_provider_keys.items():
        if not Path(path).is_file():
            raise config.InvalidConfig(
                f"mini.toml [identity_provider_keys] {url}: {path} is not a file"
            )


def _check_memory(settings: Config) -> None:
    """Raise InvalidConfig for a heap of Spark that the settings name and that is larger than the
    memory of this machine, or of the container that the server is in."""
    from server import config

    heaps = {"--jobs-memory-mib": settings.jobs_memory_mib or 0} | {
        f"mini.toml warehouse {warehouse.name}: memory_mib": warehouse.memory_mib or 0
        for warehouse in settings.warehouses
    }
    if not any(heaps.values()):
        return
    from pipeline import machine

    memory_bytes = machine.this().memory_bytes
    if memory_bytes is None:
        return  # the system does not say
    for name, heap_mib in heaps.items():
        if heap_mib << 20 > memory_bytes:
            raise config.InvalidConfig(
                f"{name} {heap_mib} is more than the {memory_bytes >> 20} MiB that this machine has"
            )


def _holder(data: str) -> str:
    """Return which server holds a data folder, as its `running.json` says; else an empty string."""
    import json

    try:
        running = json.loads((Path(data) / RUNNING_FILE).read_text())
        return f" (a server at {running['url']}, process {running['pid']})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _raise_files_limit() -> None:
    """Raise this process's limit of open files: each connection is a file, and the default limit of
    256 or 1024 is low."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    if soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _why_not_listening(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"mini.py: port {port} on {host} is taken by another process; stop it, or choose "
            "another with --port (0 takes a free one)."
        )
    return f"mini.py: cannot listen on {host}:{port}: {error.strerror or error}"


def _run(settings: Config, listener: socket.socket) -> int:
    """Serve until SIGTERM or Ctrl-C; then finish requests in flight and close everything."""
    from server import starting

    starting.leave_out()  # before the first import of Arrow
    starting.begin_imports()
    import uvloop

    from program import application, identities, lifecycle, logs, trust
    from storage import disk, opening

    starting.end_imports()
    logs.configure(settings.log_level, access=settings.access_log)
    _raise_files_limit()
    sys.setswitchinterval(SWITCH_SECONDS)
    new_id = identities.Ids()
    with contextlib.ExitStack() as stack:
        storage = opening.open_storage(
            Path(settings.data), disk=disk.Disk(), now_ms=identities.now_ms, new_id=new_id
        )
        stack.callback(storage.close)
        if settings.tls_cert:  # this process's children are clients of it
            certificate = Path(settings.tls_cert)
            bundle = trust.write_bundle(
                certificate, storage.path, disk=storage.disk, environment=os.environ
            )
            os.environ.update(dict.fromkeys(trust.VARIABLES, str(bundle)))
        program = application.build(settings, storage, now_ms=identities.now_ms, new_id=new_id)
        stack.callback(_forget, storage)
        port = listener.getsockname()[1]
        url = f"{settings.scheme}://{_shown_host(settings.host)}:{port}"
        gc.set_threshold(*COLLECTOR_THRESHOLDS)
        gc.freeze()  # objects made at start-up live on: later collections skip them
        announce = functools.partial(_announce, settings, program, url)
        uvloop.run(lifecycle.serve(program, settings, listener, announce))
    return 0


async def _announce(settings: Config, program: Program, url: str) -> None:
    """Write `running.json` and the ready file, then print the banner, once the port answers."""
    import asyncio

    import orjson

    from program import application, trust

    disk, folder = program.storage.disk, program.storage.path
    running = {
        "url": url,
        "pid": os.getpid(),
        "region": settings.region,
        "table_buckets": settings.table_buckets,
    }
    refusal = None
    if settings.tls_cert:
        bundle = (folder / trust.BUNDLE_FILE).absolute()
        running["certificates"] = str(bundle)
        refusal = await asyncio.to_thread(trust.refusal, url, bundle)
    disk.write_file(folder / RUNNING_FILE, orjson.dumps(running))
    ready = {
        "url": url,
        "access_key": program.root.access_key,
        "secret_key": program.root.secret_key,
        "data": str(folder.resolve()),
        "pid": os.getpid(),
    }
    if settings.ready_file:
        disk.write_file(Path(settings.ready_file), orjson.dumps(ready))
    seconds = time.monotonic() - STARTED
    if settings.json:
        print(orjson.dumps({**ready, "ready_seconds": round(seconds, 3)}).decode(), flush=True)  # noqa: T201
    else:
        print(_banner(settings, program, url, seconds), flush=True)  # noqa: T201
    if refusal is not None:
        sys.stderr.write(
            f"mini.py: clients on this machine refuse {url}: {refusal.rstrip('.')}. Jobs and "
            "`mini.py sql` need a certificate for this address, or --host with a name that the "
            "certificate has and that leads here; SSL_CERT_FILE names those of other authorities.\n"
        )
    application.begin_jobs(program, settings, url)
    if settings.sample_data:
        await _load_samples(settings, program)


def _banner(settings: Config, program: Program, url: str, seconds: float) -> str:
    from server import config, connect

    folder = Path(settings.data)
    lines = [f"Boathouse {config.VERSION}  {url}"]
    if program.root.created:
        lines += [
            f"  access key  {program.root.access_key}",
            f"  secret key  {program.root.secret_key}   (shown this once)",
        ]
    keys = "environment" if settings.access_key else str(folder / "root.json")
    lines += [
        f"  keys        {keys}",
        f"  data        {folder}",
        f'  try         {_command(settings, "sql")} "select current_version()"',
        f"  clients     {_command(settings, 'connect')} {'|'.join(sorted(connect.CLIENTS))}",
    ]
    lines += _bucket_lines(settings, program.storage)
    if settings.no_auth:
        lines.append("  WARNING     --no-auth: every process on this machine has root's rights")
    if not config.is_loopback(settings.host) and not settings.tls_cert:
        lines.append(
            f"  WARNING     {settings.host} without TLS: keys and data travel unencrypted; "
            "use --tls-cert and --tls-key"
        )
    lines += [
        f"  WARNING     the body of {missing.bucket}/{missing.key} is missing: blob {missing.blob}"
        for missing in program.storage.recovery.missing[:RECOVERY_LINES_MAX]
    ]
    if unnamed_left := program.storage.recovery.unnamed_left:
        lines.append(
            f"  WARNING     {unnamed_left} blobs that no record names were left in place: "
            f"see {_command(settings, 'recover')}"
        )
    return "\n".join([*lines, f"ready in {seconds:.1f} s"])


def _bucket_lines(settings: Config, storage: Storage) -> list[str]:
    """Return lines for table buckets whose settings differ from the defaults or from mini.toml."""
    from server import config

    named = {*settings.table_buckets, *settings.bucket_seeds}
    settings_by_bucket = {
        bucket.name: config.bucket_settings_of(bucket.settings)
        for bucket in storage.buckets.list()
        if bucket.name in named and bucket.type == "table"
    }
    default = config.bucket_settings_of({})
    lines = [
        f"  bucket      {name}: "
        + ", ".join(f"{key} = {_toml(value)}" for key, value in each.items())
        for name, each in settings_by_bucket.items()
        if each != default
    ]
    for name, seed in settings.bucket_seeds.items():
        lines += [
            f"  WARNING     mini.toml says {key} = {_toml(value)} for {name}, created with "
            f"{_toml(settings_by_bucket[name][key])} and keeps it"
            for key, value in seed.items()
            if name in settings_by_bucket and settings_by_bucket[name][key] != value
        ]
    return lines


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool | int) else f'"{value}"'


def _command(settings: Config, name: str) -> str:
    """Return a subcommand's command line for this server, to run in the checkout."""
    import shlex

    usual = Path(settings.data) == Path(DATA_FOLDER)
    data_option = "" if usual else f" --data {shlex.quote(settings.data)}"
    return f".venv/bin/python mini.py {name}{data_option}"


async def _load_samples(settings: Config, program: Program) -> None:
    """Load the sample data in a child process, a client like any other."""
    import asyncio

    from program import application
    from server import children

    needed = {name: os.environ[name] for name in application.WORKER_VARIABLES if name in os.environ}
    if settings.access_key and settings.secret_key:  # no file holds them: the child needs them here
        needed |= {
            "BOATHOUSE_ACCESS_KEY": settings.access_key,
            "BOATHOUSE_SECRET_KEY": settings.secret_key,
        }
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "pipeline",
        "samples",
        "--data",
        str(program.storage.path.resolve()),
        "--warehouse",
        settings.table_buckets[0],
        cwd=CHECKOUT,
        env=children.environment(os.environ, **needed),
    )
    try:
        loaded = await child.wait() == 0
    except BaseException:
        # The server ends: the child has no server to load into any more.
        with contextlib.suppress(ProcessLookupError):
            child.terminate()
        await child.wait()
        raise
    if loaded:
        print(f'try: {_command(settings, "sql")} "{SAMPLE_QUERY}"', flush=True)  # noqa: T201


def _forget(storage: Storage) -> None:
    from program import trust

    for name in (RUNNING_FILE, trust.BUNDLE_FILE):
        path = storage.path / name
        if storage.disk.exists(path):
            storage.disk.unlink(path)


def _shown_host(host: str) -> str:
    """The host in a URL. An address that means "all interfaces" becomes the loopback address."""
    if host in {"0.0.0.0", "::"}:
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _sql(options: argparse.Namespace) -> int:
    from sql import shell

    place = _running_place(options)
    if place is None:
        return 1
    return shell.run(
        options.text,
        url=place.url,
        user=place.access_key,
        password=place.secret_key,
        database=place.warehouse,
        schema=options.schema,
        certificates=place.certificates,
        output_format=options.format,
    )


def _connect(options: argparse.Namespace) -> int:
    from server import connect

    place = _running_place(options)
    if place is None:
        return 1
    sys.stdout.write(connect.snippet(options.client, place))
    return 0


def _recover(options: argparse.Namespace) -> int:
    from program import checkups

    folder = Path(options.data)
    message = checkups.recover(folder, is_confirmed=options.yes, holder=_holder(options.data))
    return 0 if message is None else _fail(f"mini.py: {message}")


def _fsck(options: argparse.Namespace) -> int:
    from program import checkups

    folder = Path(options.data)
    outcome = checkups.check(folder, repairs=options.repair, holder=_holder(options.data))
    if isinstance(outcome, str):
        _fail(f"mini.py: {outcome}")
        return FSCK_FAILED
    return 0 if outcome else FSCK_DAMAGED


def _running_place(options: argparse.Namespace) -> Any:
    """Return the running server of the data folder; without one print an error, return None."""
    import json

    from server import connect

    folder = Path(options.data)
    try:
        running = json.loads((folder / RUNNING_FILE).read_text())
        os.kill(running["pid"], 0)
        # The server writes an access key from its environment into no file.
        access_key = os.environ.get("BOATHOUSE_ACCESS_KEY")
        secret_key = os.environ.get("BOATHOUSE_SECRET_KEY")
        if not access_key or not secret_key:
            keys = json.loads((folder / "root.json").read_text())
            access_key, secret_key = keys["access_key"], keys["secret_key"]
    except (OSError, ValueError, KeyError):
        _fail(
            f"No server runs on the data folder {options.data!r}. Start one with `make run`, or "
            "name another folder with --data."
        )
        return None
    return connect.ClientSettings(
        url=running["url"],
        access_key=access_key,
        secret_key=secret_key,
        warehouse=options.warehouse or running["table_buckets"][0],
        region=running["region"],
        certificates=running.get("certificates"),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
