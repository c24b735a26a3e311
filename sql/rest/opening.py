"""wiring: builds the Snowflake face from the statements' engines and the floors below.

Nothing starts here: the sweeper of sessions begins with the first login. The caller awaits
`SqlFace.stop` before it closes what runs the statements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from catalog import access, namespaces
from server.access import principals, tokens
from sql import authentication, contexts, queries, roles, sessions, shelves, warehouserows
from sql.rest import face, login
from storage import model as storage_model
from storage import opening as storage_opening


def open_face(
    *,
    storage: storage_opening.Storage,
    namespaces: namespaces.Namespaces,
    statements: queries.StatementRunner,
    split: queries.Split,
    read_binds: face.ReadBinds,
    end_transaction: Callable[[Any], None],
    end_temporary: Callable[[str], None],
    principals: principals.Principals,
    ring: tokens.KeyRing,
    access: access.Access,
    default_database: str | None,
    timeout_seconds: int,
    idle_seconds: int,
    results_bytes_max: int,
    open_to_all: bool,
    chunk_key: bytes,
    now_ms: storage_model.NowMs,
    new_id: storage_model.NewId,
) -> face.SqlFace:
    """Return the face.

    end_transaction: called with the open transaction of each session that ends. end_temporary: with
    the table bucket of a session's temporary tables. chunk_key: 32
    random bytes, new at each start.
    """
    proofs = authentication.Authenticator(
        principals=principals, ring=ring, now_ms=now_ms, open_to_all=open_to_all
    )
    all_roles = roles.Roles(principals=principals, authoriser=access.authoriser)
    all_sessions = sessions.Sessions(
        index=storage.index,
        ring=ring,
        principal_of=proofs.principal_of,
        in_role=all_roles.in_role,
        now_ms=now_ms,
        new_id=new_id,
        limits=sessions.SessionLifetimes.of_idle(idle_seconds),
    )
    all_sessions.add_ending(end_transaction)
    all_sessions.add_bucket_ending(end_temporary)
    return face.SqlFace(
        face.SqlServices(
            sessions=all_sessions,
            read_binds=read_binds,
            queries=queries.Queries(
                statements=statements,
                sessions=all_sessions,
                split=split,
                shelf=shelves.Shelf(
                    folder=storage.path / "cache" / "results", disk=storage.disk, new_id=new_id
                ),
                now_ms=now_ms,
                new_id=new_id,
                warehouses=warehouserows.WarehouseRows(index=storage.index),
                limits=queries.ResultLimits(
                    timeout_seconds=timeout_seconds, results_bytes_max=results_bytes_max
                ),
            ),
            logins=login.Logins(
                sessions=all_sessions,
                credentials=proofs,
                roles=all_roles,
                contexts=contexts.Contexts(
                    buckets=storage.buckets,
                    namespaces=namespaces,
                    access=access,
                    default_database=default_database,
                ),
                now_ms=now_ms,
            ),
            chunk_key=chunk_key,
            now_ms=now_ms,
        )
    )
