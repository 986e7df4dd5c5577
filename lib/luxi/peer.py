"""Who listens at the other end of a socket of ours.

Members of the daemons' group may make names in the directory of the sockets.  One who poses as the master daemon would decide
what commands of root believe and do: on a node where no master daemon runs, nobody's socket is there already.
"""

from __future__ import annotations

import os
from typing import Any

from ganeti import _autoconf, errors, runtime
from ganeti.luxi import protocol


def Check(path: str, sock: Any) -> None:
    """Raise protocol.StrangerError unless root, the master daemon's user or our own one listens at ``path``."""
    uid = runtime.PeerUser(sock)
    if uid in (0, os.geteuid()):
        return
    from ganeti.daemon import users  # seldom needed: commands are root's

    try:
        if uid == users.UserId(_autoconf.MASTERD_USER):
            return
    except errors.ConfigurationError:
        pass
    raise protocol.StrangerError(
        f"A process of user {uid} listens at {path} and poses as the master daemon; it is not asked anything",
        hint=f"see which process that is with 'fuser -v {path}', and who may write to that directory",
    )
