"""engine: sessions: their principal, context and settings.

A `Session` is the one mutable value that statements share; a statement may change its context
(USE), parameters (ALTER SESSION) and variables (SET) without further calls: after each statement
the session is compared with its stored record, and written if it differs. Writing is lazy, so a
crash loses at most the last changes of context. Only the state that decides whether rows are in a
table is durable before the response (`mark`, `settle`): AUTOCOMMIT, whether a transaction is open,
and which tables it has changed.

Two tokens belong to a session: a short one for requests, and the master token that renews it. Both
name the session and its generation; being idle too long starts a new generation, which makes
the short tokens of the old one expire at once while the master token goes on to renew. Rights are
never in a token: each request asks anew who the principal is now.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from server.access import errors as access_errors
from server.access import model as access
from server.access import tokens
from sql import errors, outcomes
from sql import limits as bounds
from sql import parameters as session_parameters
from storage import batch as batches
from storage import errors as storage_errors
from storage import model

SYSTEM_ROLES = frozenset(
    {"ACCOUNTADMIN", "ORGADMIN", "PUBLIC", "SECURITYADMIN", "SYSADMIN", "USERADMIN"}
)
"""Snowflake's system-defined roles. A session may use each of them, and none changes its rights,
which are the principal's."""

RECORD_FORMAT = 1
SERVER_VERSION = "9.30.0"
"""What CURRENT_VERSION says: which Snowflake release's protocol and dialect this one follows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Variable:
    """A session variable (SET): its type and its value as text, or None for NULL."""

    type: outcomes.LogicalType
    text: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """The changes that a transaction holds back.

    receipt_id: of the receipt that the transaction's commit leaves. statements: for each changed
    table the id of the first statement that changed it, and the table bucket, namespace and name.
    Records of earlier releases have no receipt_id, and perhaps no statement.
    """

    receipt_id: str
    statements: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(kw_only=True, slots=True)
class Session:
    """One login's state; mutable, because statements change it.

    database and schema are stored names (a table bucket; a namespace joined by "."), None when
    unset. principal is who acts; user is who logged in, None if it is the same: a session in a
    stored role acts with the role's rights alone. warehouse and role are names as reported.
    parameters holds what was set explicitly, by upper-case name; read through `parameter`.
    variables are by upper-case name. query_ids are
    those of finished statements, newest last. transaction is set by `sql.transactions`;
    held is what it has changed, until that is committed; last_transaction: the id of
    the one that ended last, until a restart; transaction_lost: one was open when the
    server ended or the session was idle too long. temporary_views is kept by `sql.views`, in memory
    alone. temporary_bucket is the table bucket of the session's temporary tables, kept by
    `sql.temporary_tables`; a session that has one ends when it is idle too long or the server ends,
    because its statements would mean other tables then. is_closed: it has ended for good.
    The rest belongs to Sessions: see there.
    """

    id: int
    principal: access.Principal
    user: access.Principal | None = None
    account_name: str = ""
    client_app_id: str = ""
    client_app_version: str = ""
    client_ip: str = ""
    database: str | None = None
    schema: str | None = None
    warehouse: str = "LOCAL"
    role: str = "PUBLIC"
    parameters: dict[str, session_parameters.Value] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    query_ids: deque[str] = field(default_factory=lambda: deque(maxlen=bounds.QUERY_IDS_MAX))
    transaction: Any = None
    transaction_lost: bool = False
    last_transaction: str | None = None
    held: Held | None = None
    temporary_views: dict[Any, Any] = field(default_factory=dict)
    temporary_bucket: str | None = None
    is_closed: bool = False
    generation: int = 0
    used_at_ms: int = 0
    master_expires_at_ms: int = 0
    running: int = 0

    @property
    def owner(self) -> str:
        """What the session's queries belong to: not a name, which a new user may have again."""
        return self.login.principal_id or self.login.name

    @property
    def login(self) -> access.Principal:
        """Who logged in."""
        return self.principal if self.user is None else self.user

    def parameter(self, name: str) -> session_parameters.Value:
        """Return a parameter's value in force: what the session set, else the default."""
        return session_parameters.effective(self.parameters, name)


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionLifetimes:
    """How long things last, in seconds."""

    token_seconds: int = 3600
    master_seconds: int = 4 * 3600
    idle_seconds: int = 4 * 3600

    @classmethod
    def of_idle(cls, idle_seconds: int) -> SessionLifetimes:
        """Return the lifetimes of sessions that may be idle so long: a master token lasts that."""
        return cls(
            master_seconds=max(cls().master_seconds, idle_seconds), idle_seconds=idle_seconds
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionGrant:
    """A session with the two tokens that a client gets for it."""

    session: Session
    token: str
    master_token: str


class Records(Protocol):
    """The part of the index that sessions need."""

    def get(self, store: batches.Store, key: bytes) -> bytes | None: ...

    def view(self) -> Any: ...

    async def commit(self, batch: batches.Batch) -> None: ...


InRole = Callable[[access.Principal, str], access.Principal | None]
"""A user and a role to the principal with the role's rights; None if the user may not be in it."""

PrincipalOf = Callable[[str, access.Context, str], access.Principal | None]
"""Name, connection context and the login's access key ("" for none) to the principal as it is now;
None if it may no longer come in."""


class Sessions:
    """All sessions: in memory while they are used, in the index while their master token lives."""

    def __init__(
        self,
        *,
        index: Records,
        ring: tokens.KeyRing,
        principal_of: PrincipalOf,
        in_role: InRole,
        now_ms: model.NowMs,
        new_id: model.NewId,
        limits: SessionLifetimes | None = None,
    ) -> None:
        self._index = index
        self._ring = ring
        self._verified: dict[str, tokens.Claims] = {}
        self._principal_of = principal_of
        self._in_role = in_role
        self._now_ms = now_ms
        self._new_id = new_id
        self.limits = limits or SessionLifetimes()
        self._sessions: dict[int, Session] = {}
        self._stored: dict[int, bytes] = {}
        self._unwritten: dict[int, bytes | None] = {}
        self._in_flight: dict[int, bytes | None] = {}
        self._writing: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self._chores: list[Callable[[], None]] = []
        self._openings: list[Callable[[], None]] = []
        self._endings: list[Callable[[Any], None]] = []
        self._bucket_endings: list[Callable[[str], None]] = []
        self._said_disk_full_ms = 0
        self._log = logging.getLogger("boathouse.sql.sessions")

    def open(
        self, principal: access.Principal, *, user: access.Principal | None = None, **fields: Any
    ) -> SessionGrant:
        """Start a session for principal. user, fields: Session's own."""
        self._check_room((user or principal).name)
        # 52 bits: every client, JavaScript too, holds the id exactly.
        number = int(self._new_id()[:13], 16) + 1
        session = Session(id=number, principal=principal, user=user, **fields)
        session.used_at_ms = self._now_ms()
        self._keep(session)
        for call in self._openings:
            call()
        return self._granted(session)

    def _check_room(self, owner: str) -> None:
        """Raise SessionFault where there are too many sessions already."""
        count = len(self._sessions)
        if count >= bounds.SESSIONS_MAX:
            raise errors.login_refused(f"This server has {count} sessions and takes no more.")
        if count >= bounds.SESSIONS_OF_ONE_MAX:
            of_owner = sum(each.login.name == owner for each in self._sessions.values())
            if of_owner >= bounds.SESSIONS_OF_ONE_MAX:
                raise errors.login_refused(
                    f"{owner} has {of_owner} sessions on this server, which takes no more."
                )

    def authenticate(self, token: str | None, *, context: access.Context) -> Session:
        """Return the session that a session token stands for, and mark it used.

        context: the connection's condition keys. Raises SessionFault: 390103, 390104, 390111,
        390112 or 390114.
        """
        if not token:
            raise errors.token_missing()
        try:
            claims = self._claims(token, "sf")
        except access_errors.ExpiredJWT:
            raise errors.master_token_expired() from None
        except access_errors.InvalidJWT:
            raise errors.token_invalid() from None
        session = self._session_of(claims)
        now_ms = self._now_ms()
        if session.running == 0 and now_ms - session.used_at_ms > self.limits.idle_seconds * 1000:
            if session.temporary_bucket is not None:
                self.close(session)
                raise errors.session_gone()
            self._forget(session)
        if claims.extra["gen"] < session.generation or now_ms >= claims.extra["until_ms"]:
            raise errors.session_token_expired()
        self._refresh(session, context)
        session.used_at_ms = now_ms
        return session

    def refresh(self, session: Session) -> None:
        """Give a session its principal as it is now, between statements of one request.

        Raises SessionFault if it may not come in any more.
        """
        self._refresh(session, session.login.context)

    def renew(self, master_token: str | None, *, context: access.Context) -> SessionGrant:
        """Return new tokens for the session of a master token. The old ones stay valid.

        Raises SessionFault: 390113, 390114, 390115 or 390111.
        """
        if not master_token:
            raise errors.master_token_missing()
        try:
            claims = self._claims(master_token, "sf-master")
        except access_errors.ExpiredJWT:
            raise errors.master_token_expired() from None
        except access_errors.InvalidJWT:
            raise errors.master_token_invalid() from None
        session = self._session_of(claims)
        self._refresh(session, context)
        session.used_at_ms = self._now_ms()
        return self._granted(session)

    def close(self, session: Session) -> None:
        """End a session for good; its tokens answer 390111 from now on."""
        session.is_closed = True
        self._end_transaction(session)
        bucket, session.temporary_bucket = session.temporary_bucket, None
        if bucket is not None:
            for ending in self._bucket_endings:
                ending(bucket)
        self._sessions.pop(session.id, None)
        self._stored.pop(session.id, None)
        self._unwritten[session.id] = None
        self._write_soon()

    def _end_transaction(self, session: Session) -> None:
        transaction, session.transaction = session.transaction, None
        if transaction is not None:
            for ending in self._endings:
                ending(transaction)

    def is_detached(self, session_id: int) -> bool:
        """Say whether a session's client is silent, and its statements are to end then."""
        session = self._sessions.get(session_id)
        if session is None or not session.parameter(session_parameters.ABORT_DETACHED):
            return False
        return self._now_ms() - session.used_at_ms >= bounds.DETACHED_SECONDS * 1000

    def is_known(self, session_id: int) -> bool:
        """Say whether a session is in memory."""
        return session_id in self._sessions

    def exists(self, session_id: int) -> bool:
        """Say whether a session is open, in memory or on disk."""
        if session_id in self._sessions:
            return True
        for records in (self._unwritten, self._in_flight):
            if session_id in records:
                return records[session_id] is not None
        key = session_id.to_bytes(8, "big")
        return self._index.get(batches.Store.SESSIONS, key) is not None

    def note(self, session: Session) -> None:
        """Write the session if it changed since it was last written."""
        session.used_at_ms = self._now_ms()
        if session.id not in self._sessions:
            return
        record = _encode(session)
        if record != self._stored.get(session.id):
            self._stored[session.id] = record
            self._unwritten[session.id] = record
            self._write_soon()

    async def settle(self, session: Session) -> None:
        """Write the session, and wait until it is on disk, or the log says why it is not.

        Like a commit it goes on when its caller is cancelled: the statement is done already.
        """
        self.note(session)
        if session.id in self._unwritten:
            self._write_soon()
        writing = self._writing
        if writing is None or writing.done():
            return
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            await asyncio.wait((writing,))

    def sweep(self) -> None:
        """Drop what was idle too long, and records whose master token has expired."""
        now_ms = self._now_ms()
        for session in list(self._sessions.values()):
            idle_ms = now_ms - session.used_at_ms
            is_idle = session.running == 0 and idle_ms > self.limits.idle_seconds * 1000
            is_over = now_ms >= session.master_expires_at_ms and session.running == 0
            if is_over or (is_idle and session.temporary_bucket is not None):
                self.close(session)
            elif is_idle:
                self._forget(session)
                self._sessions.pop(session.id, None)
                self._stored.pop(session.id, None)
        with self._index.view() as view:
            for seen, (key, record) in enumerate(view.scan(batches.Store.SESSIONS, b"")):
                if seen >= bounds.SWEPT_RECORDS_MAX:
                    break
                number = int.from_bytes(key, "big")
                fields = _decode(record)
                if number not in self._sessions and fields["master_expires_at_ms"] <= now_ms:
                    self._unwritten.setdefault(number, None)
        if self._unwritten:
            self._write_soon()

    def add_chore(self, chore: Callable[[], None]) -> None:
        """Have something else done at each sweep."""
        self._chores.append(chore)

    def add_opening(self, call: Callable[[], None]) -> None:
        """Have call run, without waiting, at each login."""
        self._openings.append(call)

    def add_ending(self, ending: Callable[[Any], None]) -> None:
        """Have a function called with each open transaction whose session ends."""
        self._endings.append(ending)

    def add_bucket_ending(self, ending: Callable[[str], None]) -> None:
        """Have a function called with the table bucket of each session that ends and has one."""
        self._bucket_endings.append(ending)

    async def stop(self) -> None:
        """Write what is unwritten, and stop sweeping."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        if self._writing is not None:
            await self._writing
        if self._unwritten:
            await self._write()

    def _granted(self, session: Session) -> SessionGrant:
        now_ms, limits = self._now_ms(), self.limits
        session.master_expires_at_ms = now_ms + limits.master_seconds * 1000
        grant = SessionGrant(
            session=session,
            token=self._issued(session, "sf", now_ms),
            master_token=self._issued(session, "sf-master", now_ms),
        )
        self.note(session)
        return grant

    def _issued(self, session: Session, typ: tokens.TokenType, now_ms: int) -> str:
        # A session token that is too old must still tell its session, so that the answer can say
        # whether renewing helps: both types of tokens are signed for the master's life.
        limits = self.limits
        seconds = limits.token_seconds if typ == "sf" else limits.master_seconds
        return tokens.issue(
            self._ring,
            typ=typ,
            subject=session.login.name,
            token_id=self._new_id(),
            now_ms=now_ms,
            lifetime_seconds=limits.master_seconds,
            extra={
                "sid": session.id,
                "gen": session.generation,
                "until_ms": now_ms + seconds * 1000,
            },
        )

    def _claims(self, token: str, typ: tokens.TokenType) -> tokens.Claims:
        claims = self._verified.get(token)
        now_ms = self._now_ms()
        if claims is None:
            claims = tokens.verify(self._ring, token, types=(typ,), now_ms=now_ms)
            if len(self._verified) >= bounds.VERIFIED_TOKENS_MAX:
                self._verified.clear()
            self._verified[token] = claims
        if claims.typ != typ:
            raise access_errors.InvalidJWT("the token is for another use")
        if now_ms >= claims.expires_at_ms:
            raise access_errors.ExpiredJWT("the token has expired")
        return claims

    def _session_of(self, claims: tokens.Claims) -> Session:
        number = claims.extra["sid"]
        session = self._sessions.get(number)
        return self._loaded(number) if session is None else session

    def _loaded(self, number: int) -> Session:
        if number in self._unwritten:
            record = self._unwritten[number]
        elif number in self._in_flight:
            # The index still has what this write replaces: a closed session must stay closed.
            record = self._in_flight[number]
        else:
            record = self._index.get(batches.Store.SESSIONS, number.to_bytes(8, "big"))
        if record is None:
            raise errors.session_gone()
        fields = _decode(record)
        if fields.pop("has_temporary_tables", False):  # the start has deleted them
            self._unwritten[number] = None
            self._write_soon()
            raise errors.session_gone()
        name, access_key = fields["principal"], fields.pop("access_key", "")
        fields["principal"] = self._named(name, access_key, {}, fields.pop("principal_id", ""))
        # The idle time starts again: the session could not be used while the server was down.
        session = Session(id=number, used_at_ms=self._now_ms(), **fields)
        self._keep(session)
        self._stored[number] = record
        return session

    def _refresh(self, session: Session, context: access.Context) -> None:
        """Give a session its principal as it is now. Raises SessionFault if it may not come in.

        A session whose role is gone, or not the user's any more, has no rights until USE ROLE.
        """
        login = session.login
        user = self._named(login.name, login.access_key, context, login.principal_id)
        if session.role in SYSTEM_ROLES:
            session.user, session.principal = None, user
            return
        principal = self._in_role(user, session.role)
        if principal is None:
            principal = dataclasses.replace(user, type="user", policies=(), session_policies=())
        session.user, session.principal = user, principal

    def _named(
        self, name: str, access_key: str, context: access.Context, principal_id: str
    ) -> access.Principal:
        """Return the user of a session. Raises SessionFault if it is gone.

        principal_id: of the login; another user who has the name now does not get the session.
        It is empty in records of earlier releases.
        """
        principal = self._principal_of(name, context, access_key)
        if principal is None or (principal_id and principal.principal_id != principal_id):
            raise errors.session_gone()
        return principal

    def _forget(self, session: Session) -> None:
        session.generation += 1
        session.transaction_lost = session.transaction_lost or session.transaction is not None
        self._end_transaction(session)
        record = _encode(session)
        self._stored[session.id] = self._unwritten[session.id] = record
        self._write_soon()

    def _keep(self, session: Session) -> None:
        self._sessions[session.id] = session
        if self._sweeping is None:
            # Where there are no sessions, there is nothing to sweep.
            self._sweeping = asyncio.get_running_loop().create_task(self._sweep_forever())

    def _write_soon(self) -> None:
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        while self._unwritten:
            taken, self._unwritten = self._unwritten, {}
            self._in_flight = taken
            writes: list[batches.Write] = []
            for number, record in taken.items():
                key = number.to_bytes(8, "big")
                if record is None:
                    writes.append(batches.Delete(store=batches.Store.SESSIONS, key=key))
                else:
                    writes.append(batches.Put(store=batches.Store.SESSIONS, key=key, value=record))
            try:
                await self._index.commit(batches.Batch(writes=tuple(writes)))
            except storage_errors.DiskFull:
                self._say_disk_full()
                self._unwritten = {**taken, **self._unwritten}
                return
            except Exception:  # noqa: BLE001 - sessions go on in memory; the next change retries
                self._log.exception("sessions could not be written")
                self._unwritten = {**taken, **self._unwritten}
                return
            finally:
                self._in_flight = {}

    def _say_disk_full(self) -> None:
        now_ms = self._now_ms()
        if now_ms - self._said_disk_full_ms >= bounds.DISK_FULL_LINE_SECONDS * 1000:
            self._said_disk_full_ms = now_ms
            self._log.warning(
                "the disk is full: changes of %d sessions are kept in memory alone",
                len(self._unwritten) + len(self._in_flight),
            )

    async def _sweep_forever(self) -> None:
        while True:
            await asyncio.sleep(bounds.SWEEP_SECONDS)
            try:
                self.sweep()
                for chore in self._chores:
                    chore()
            except Exception:  # noqa: BLE001 - the next sweep tries again
                self._log.exception("the sweep of sessions failed")


def mark(session: Session) -> object:
    """Return what must be on disk before the answer of a statement that changed it leaves."""
    is_bound = session.temporary_bucket is not None
    return _transaction(session), session.parameter("AUTOCOMMIT"), is_bound


def _transaction(session: Session) -> list[Any] | None:
    """Return nothing for no transaction, an empty list for one that holds nothing back."""
    if session.held is not None:
        return [session.held.receipt_id, session.held.statements]
    return [] if session.transaction is not None or session.transaction_lost else None


def _held(transaction: list[Any]) -> Held:
    """Return what a record's transaction holds back.

    Records of earlier releases have one statement's id and the parts of its table's name.
    """
    name, listed = transaction
    if not listed or isinstance(listed[0], str):
        return Held(receipt_id="", statements=((name, tuple(listed)),) if listed else ())
    return Held(
        receipt_id=name,
        statements=tuple((query_id, tuple(table)) for query_id, table in listed),
    )


def _encode(session: Session) -> bytes:
    return orjson.dumps(
        {
            "format": RECORD_FORMAT,
            "principal": session.login.name,
            "access_key": session.login.access_key,
            "principal_id": session.login.principal_id,
            "account_name": session.account_name,
            "client_app_id": session.client_app_id,
            "client_app_version": session.client_app_version,
            "client_ip": session.client_ip,
            "database": session.database,
            "schema": session.schema,
            "warehouse": session.warehouse,
            "role": session.role,
            "parameters": session.parameters,
            "variables": {
                name: [variable.type, variable.text] for name, variable in session.variables.items()
            },
            "transaction": _transaction(session),
            "generation": session.generation,
            "master_expires_at_ms": session.master_expires_at_ms,
            **({} if session.temporary_bucket is None else {"has_temporary_tables": True}),
        }
    )


def _decode(record: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = orjson.loads(record)
    assert fields.pop("format") == RECORD_FORMAT
    # Records once said only whether there was a transaction: then it may have held anything.
    unknown = ["", []] if fields.pop("in_transaction", False) else None
    transaction = fields.pop("transaction", unknown)
    fields["transaction_lost"] = transaction is not None
    fields["held"] = None
    if transaction:
        fields["held"] = _held(transaction)
    fields["variables"] = {
        name: Variable(type=type_name, text=text)
        for name, (type_name, text) in fields["variables"].items()
    }
    return fields
