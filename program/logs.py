"""wiring: the format and the destination of the log.

One handler on standard error for every logger of the process, with a time and the logger's name.
"""

from __future__ import annotations

import logging

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
ACCESS = "boathouse.access"


def configure(level: str, *, access: bool) -> None:
    """Configure the process's log.

    level: a name of logging's levels, lower case. access: log one line per request at any level.
    """
    logging.basicConfig(level=level.upper(), format=FORMAT, force=True)
    logging.getLogger(ACCESS).setLevel(logging.INFO if access else logging.CRITICAL)
