"""kvm-console-wrapper: shows the console of a KVM guest, and lets a guest go that waits to be watched.

Started on the node by ``gnt-instance console`` (doc/reference/tools.md 13)::

    kvm-console-wrapper SOCAT INSTANCE QMP-SOCKET SOCAT-OPTIONS CONSOLE-ADDRESS
"""

from __future__ import annotations

import logging
import sys

from ganeti import errors, runtime
from ganeti.hypervisor.kvm import qmp
from ganeti.tools import common

USAGE = "%prog SOCAT INSTANCE QMP-SOCKET SOCAT-OPTIONS CONSOLE-ADDRESS"
# Started with startup_paused, or stopped by an administrator.
_WAITING = ("prelaunch", "paused")
_SECONDS_TO_READ = 3.0


def LetGo(instance: str, socket: str) -> None:
    """Resume a paused guest, after a moment to read the notice.  A failure is shown and the console stays."""
    try:
        with qmp.Monitor(socket) as monitor:
            if monitor.Execute("query-status")["status"] not in _WAITING:
                return
            runtime.Sleep(_SECONDS_TO_READ)
            print(f"Instance {instance} is paused, unpausing\r", file=sys.stderr, flush=True)
            monitor.Execute("cont")
    except errors.HypervisorError as err:
        logging.warning("Instance %s: whether it is paused cannot be found out: %s", instance, err)


def Main() -> int:
    parser = common.Parser(USAGE)
    options, args = parser.parse_args()
    if len(args) != 5:
        parser.error("five arguments are needed")
    common.LogToStderr(options.debug, options.verbose)
    socat, instance, socket, socat_options, address = args
    runtime.Thread(LetGo, "unpause", (instance, socket)).start()
    return runtime.RunInteractive([socat, socat_options, address])
