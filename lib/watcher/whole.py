"""The part of the watcher that does not belong to a group: this node and its daemons; on the master, the cluster."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from ganeti import constants, errors, pathutils, runtime, ssconf, transferkeys
from ganeti.daemon import logs
from ganeti.utils import programs
from ganeti.watcher import guard, services

if TYPE_CHECKING:
    import optparse

# For all hooks together: less than the time between two runs.
_HOOKS_SECONDS = 240.0
# Seconds between the starts of two groups' processes, so that their questions do not all come at once.
_CHILD_DELAY = 1.0

Guarded = Callable[[guard.Action], int]


def Run(options: optparse.Values, guarded: Guarded) -> int:
    """Look after the node; on the master after everything.  ``guarded`` makes an exit code of a part's errors."""
    store = ssconf.SimpleStore()
    StartNodeDaemons()
    RunHooks()
    if not guard.MayWork(options):
        return constants.EXIT_SUCCESS
    guarded(RemoveOldKeys)
    if store.GetMaintainNodeHealth():
        from ganeti.watcher import nodehealth

        guarded(nodehealth.Maintain)
    if not store.IsMaster():
        logging.info("This node is not the master: nothing else to do")
        return constants.EXIT_SUCCESS
    LookAfterMaster(options)
    return _RunGroups(options, guarded)


def StartNodeDaemons() -> None:
    """Start the daemons that every node has; where there is no configuration, confd waits for one."""
    if services.Installed(constants.NODED):
        services.EnsureRunning(constants.NODED)
    services.EnsureConfd()


def RunHooks() -> None:
    """Run the administrator's programs in CONF/hooks/watcher; what they say is logged."""
    for name, status, output in programs.RunPlugins(pathutils.WATCHER_HOOKS_DIR, None, _HOOKS_SECONDS):
        said = " ".join(output.split())[:1000] or "(no output)"
        if status == constants.HKR_FAIL:
            logging.warning("Watcher hook %s failed: %s", name, said)
        elif status == constants.HKR_SKIP:
            logging.debug(
                "Watcher hook %s is skipped: it is not executable, or its name is not that of a plug-in", name
            )
        else:
            logging.info("Watcher hook %s ran: %s", name, said)


def RemoveOldKeys() -> int:
    """Remove keys of transfers that nobody can use; what waits for such a transfer fails by itself."""
    transferkeys.RemoveExpired()
    return constants.EXIT_SUCCESS


def LookAfterMaster(options: optparse.Values) -> None:
    """Start the master's daemons and archive old jobs; raise NotMasterError if the configuration names another."""
    from ganeti.luxi import protocol
    from ganeti.watcher import master

    services.EnsureRunning(constants.MASTERD)
    services.EnsureRapi(options.rapi_ip)
    with master.Connect() as client:
        try:
            master.CheckMaster(client)
        except protocol.NoMasterError as err:
            raise errors.GenericError(
                f"The master daemon does not answer, so no instance is looked after ({err})",
                hint=f"see {pathutils.DaemonLog(constants.MASTERD)}",
            ) from err
        archived, left = client.AutoArchiveJobs(options.job_age)
    if archived or left:
        logging.info("Archived %d jobs; %d more remain for the next run", archived, left)


def _RunGroups(options: optparse.Values, guarded: Guarded) -> int:
    """Have a process for each group; its failure is logged, and fails nobody else."""
    children: dict[int, str] = {}
    for uuid, name in ssconf.SimpleStore().GetNodegroupList().items():
        if children:
            runtime.Sleep(_CHILD_DELAY)
        pid = runtime.Fork()
        if pid == 0:
            _BeChild(options, guarded, uuid)
        children[pid] = name
    for pid, name in children.items() if options.wait_children else ():
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status:
            logging.error("The watcher's process for group %s ended with exit code %d", name, status)
    return constants.EXIT_SUCCESS


def _BeChild(options: optparse.Values, guarded: Guarded, uuid: str) -> None:
    """Look after a group in a forked process, and end it: nothing of the parent's is cleaned up here."""
    from ganeti.watcher import group

    code = constants.EXIT_FAILURE
    try:
        code = guarded(lambda: group.Run(options, uuid))
        logs.Complain(f"ganeti-watcher (group {uuid})")
        logging.shutdown()
    finally:
        os._exit(code)
