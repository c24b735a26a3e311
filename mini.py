"""wiring: Boathouse starts here.

Flags, environment and mini.toml become one Config; clock and ids are made; storage, engines and
faces are built, mounted and, at the end, drained. No rule lives here. What one subcommand does not
need is imported late, because a start must stay under a second.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from server.config import Config

CHECKOUT = Path(__file__).resolve().parent
COMMANDS = ("serve", "sql", "connect")


def main(arguments: list[str]) -> int:
    """Run one subcommand; return the process's exit code."""
    if sys.version_info < (3, 11):  # noqa: UP036 - an older Python should hear it in one sentence
        found = ".".join(str(part) for part in sys.version_info[:2])
        return _fail(f"Boathouse needs Python 3.11 or newer; this is {found}.")
    try:
        import lmdb  # noqa: F401 - asked here so that a bare Python gets a sentence
        import msgspec  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        return _fail(
            f"Boathouse's packages are not installed for this Python ({error.name} is missing). "
            "Run `make run`, or `make setup` and then `.venv/bin/python mini.py`."
        )
    options = _parser().parse_args(_with_command(arguments))
    command: Any = {"serve": _serve, "sql": _sql, "connect": _connect}[options.command]
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
    )
    parser.add_argument("--version", action="version", version=f"Boathouse {config.VERSION}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="|".join(COMMANDS))

    serve = commands.add_parser("serve", help="start the server (the default)")
    serve.add_argument("--config", default=None, help="settings' file (default: ./mini.toml)")
    for setting in config.SETTINGS:
        if setting.name in config.NOT_FLAGS:
            continue
        text = setting.meaning.replace("%", "%%")
        if setting.kind == "flag":
            serve.add_argument(
                setting.flag, dest=setting.name, action="store_true", default=None, help=text
            )
        else:
            serve.add_argument(
                setting.flag,
                dest=setting.name,
                action="append" if setting.kind == "names" else "store",
                type=_port if setting.kind == "count" else str,
                default=None,
                metavar=setting.kind.upper().removesuffix("S"),
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
    return parser


def _add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        default=os.environ.get("BOATHOUSE_DATA", "./boathouse-data"),
        help="data folder of the running server (default: %(default)s)",
    )
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

    path = Path(options.config or os.environ.get("BOATHOUSE_CONFIG") or "mini.toml")
    document: dict[str, Any] = {}
    if path.exists():
        try:
            document = tomllib.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise config.InvalidConfig(f"{path}: {error}") from error
    elif options.config is not None:
        raise config.InvalidConfig(f"{path} does not exist")
    flags = {setting.name: getattr(options, setting.name, None) for setting in config.SETTINGS}
    return config.resolve(flags, os.environ, document)


def _serve(options: argparse.Namespace) -> int:
    from server import config

    try:
        settings = _load_config(options)
    except config.InvalidConfig as error:
        return _fail(f"mini.py: {error}")
    import serving

    return serving.run(settings)


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
        output_format=options.format,
    )


def _connect(options: argparse.Namespace) -> int:
    from server import connect

    place = _running_place(options)
    if place is None:
        return 1
    sys.stdout.write(connect.snippet(options.client, place))
    return 0


def _running_place(options: argparse.Namespace) -> Any:
    """Find the running server through its data folder, or say why there is none."""
    import json

    from server import connect

    folder = Path(options.data)
    try:
        running = json.loads((folder / "running.json").read_text())
        os.kill(running["pid"], 0)
        keys = json.loads((folder / "root.json").read_text())
    except (OSError, ValueError, KeyError):
        _fail(
            f"No server runs on the data folder {options.data!r}. Start one with `make run`, or "
            "name another folder with --data."
        )
        return None
    return connect.Place(
        url=running["url"],
        access_key=keys["access_key"],
        secret_key=keys["secret_key"],
        warehouse=options.warehouse or running["table_buckets"][0],
        region=running["region"],
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
