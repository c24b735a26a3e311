"""engine: which runs of jobs a caller sees and may cancel, by every interface that lists them.

Who may do everything (`lake:Admin` on all) sees every run; other callers see those that they have
begun.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from catalog import access
from jobs import rows
from server.access import model

RUNS_SHOWN: Final = 100
"""The latest runs that one answer lists."""
ADMIN: Final = model.Demand(action="lake:Admin", resource="*")


def is_own(run: rows.RunRow, principal: model.Principal) -> bool:
    """Return whether a client began a run with the rights of principal."""
    return run.by == principal.arn and not run.by_server


def shown_to(principal: model.Principal, rights: access.Access) -> Callable[[rows.RunRow], bool]:
    """Return the test whether principal sees a run."""
    sees_all = rights.permits(principal, (ADMIN,))
    return lambda run: sees_all or is_own(run, principal)
