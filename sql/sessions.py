"""engine: sessions: who asked, in which context, with which settings.

A `Session` is the one mutable value that statements share; whoever runs a statement may change its
context (USE), parameters (ALTER SESSION) and variables (SET), and nothing else needs telling: after
each statement the session is compared with its stored record, and written when it differs.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from server.access import model as access
from sql import outcomes
from sql import parameters as session_parameters

QUERY_IDS_MAX = 64
"""Query ids a session remembers for LAST_QUERY_ID."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Variable:
    """A session variable (SET): its type and its value as text, or None for NULL."""

    type: outcomes.LogicalType
    text: str | None


@dataclass(kw_only=True, slots=True)
class Session:
    """One login's state.

    database and schema are stored names (a table bucket; a namespace joined by "."), None when
    unset. warehouse and role are names as reported. parameters holds what was set explicitly, by
    upper-case name; read through `parameter`. variables are by upper-case name. query_ids are
    those of finished statements, newest last. transaction belongs to whoever runs statements.
    """

    id: int
    principal: access.Principal
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
    query_ids: deque[str] = field(default_factory=lambda: deque(maxlen=QUERY_IDS_MAX))
    transaction: Any = None

    def parameter(self, name: str) -> session_parameters.Value:
        """Return a parameter's value in force: what the session set, else the default."""
        return session_parameters.effective(self.parameters, name)
