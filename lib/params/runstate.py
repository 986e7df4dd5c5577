"""What the process of a guest can be doing, in the words of node answers (doc/design-migration.rst).

::

    gone --> inmigrate --------------------------+
     |                                           v
     +--> running <--> paused, stopped --> shutdown          these four hold the guest
             |  ^
             v  | the transfer failed
       finish-migrate --> postmigrate                        an old copy

``unresponsive``: there is a process, and it does not answer.  The master adds ``unreachable`` and ``offline``, which
say something about the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GONE = "gone"
RUNNING = "running"
PAUSED = "paused"
STOPPED = "stopped"  # by an error
ENDED = "shutdown"  # by the guest itself
ARRIVING = "inmigrate"
LEAVING = "finish-migrate"
SENT = "postmigrate"
UNRESPONSIVE = "unresponsive"

UNREACHABLE = "unreachable"
OFFLINE = "offline"

# What a node may report.
REPORTED = frozenset([GONE, RUNNING, PAUSED, STOPPED, ENDED, ARRIVING, LEAVING, SENT, UNRESPONSIVE])
# The process has the guest's current state.
HOLDS = frozenset([RUNNING, PAUSED, STOPPED, ENDED])
# It may have it.
BLIND = frozenset([UNRESPONSIVE, UNREACHABLE])
# A copy that is not the guest: not yet, or not any longer.
NOT_THE_GUEST = frozenset([ARRIVING, SENT])

KEY = "run_state"

# How far a guest is that was expected on a node, as that node remembers it; NEVER: it has certainly not run there since.
AWAITED, HELD, ARRIVED, NEVER = "awaited", "held", "arrived", "never"


def HelperText(name: str) -> str:
    """Return what is the matter where a helper runs (doc/design-install.rst) and somebody wants the instance."""
    return (
        "a helper, which works on its disks, is running in its place, and the job that started it is gone. Use"
        f" 'gnt-instance shutdown --timeout 0 {name}' to end it, then 'gnt-instance startup {name}'"
    )


def Of(row: Mapping[str, Any]) -> str:
    """Return the state in a row of ``instance_info`` or ``all_instances_info``; one that names none runs."""
    state = row.get(KEY, RUNNING)
    return state if isinstance(state, str) and state in REPORTED else UNRESPONSIVE
