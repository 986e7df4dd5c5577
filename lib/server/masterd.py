"""ganeti-masterd: owns configuration, job queue and locks of the cluster; what it consists of is in ``server.master``."""

from __future__ import annotations

import sys
from typing import Any

from ganeti import constants, daemon, errors, hosts, pathutils, runtime, ssconf
from ganeti.daemon import memory
from ganeti.daemon.limits import RaiseDescriptorLimit
from ganeti.daemon.main import AskTerminal
from ganeti.server import opening, ownnode
from ganeti.server.master import Service

# Keeps the I/O thread quick beside busy job threads (doc/architecture.rst).
SWITCH_INTERVAL = 0.0005
# Seconds between two looks for memory that many jobs, since archived, have left free.  Nobody else can work meanwhile.
TIDY_EVERY = 30.0


class NotInCluster(errors.GenericError):
    """This node is not in a cluster, or does not know its master."""

    exit_code = constants.EXIT_NOTCLUSTER


def _Options() -> list[daemon.Option]:
    return [
        daemon.Option(
            "--no-voting",
            dest="no_voting",
            action="store_true",
            default=False,
            help="Do not ask the nodes who the master is; without a quorum of the candidates' stores this is a forced start,"
            " which marks the nodes that do not answer offline",
        ),
        daemon.Option(
            "--yes-do-it",
            dest="yes_do_it",
            action="store_true",
            default=False,
            help="Do not ask for confirmation of --no-voting",
        ),
        daemon.Option(
            "--without",
            dest="without",
            default="",
            metavar="NODE,...",
            help="With --no-voting: start although these nodes are running and do not answer this one; each must be named",
        ),
        daemon.Option(
            "--take-over",
            dest="take_over",
            action="store_true",
            default=False,
            help="Become master although the configuration names another node (used by gnt-cluster master-failover)",
        ),
    ]


def CheckRole(take_over: bool) -> None:
    """Raise NotInCluster or NotMasterError where no master daemon may even try to start."""
    if not (runtime.Exists(pathutils.CLUSTER_CONF_FILE) or runtime.Exists(pathutils.STORE_FILE)):
        raise NotInCluster(
            f"{constants.MASTERD}: this node has no configuration: it is not in a cluster, or not a master candidate"
        )
    if take_over:
        return
    try:
        master = ssconf.SimpleStore().GetMasterNode()
    except (OSError, errors.GenericError) as err:
        raise NotInCluster(f"{constants.MASTERD}: the master of the cluster is not known: {err}") from err
    own = hosts.OwnName()
    # The files may be a moment older than the copy of the store from which they are written.
    if own not in (master, ownnode.NamedMaster()):
        raise errors.NotMasterError(f"{constants.MASTERD}: this node, {own}, is not the master: {master} is")


def _Check(options: Any) -> int:
    """Check options and role in the terminal's process."""
    for option, given in (("--yes-do-it", options.yes_do_it), ("--without", options.without)):
        if given and not options.no_voting:
            raise errors.ParameterError(f"{option} makes sense with --no-voting only")
    CheckRole(options.take_over)
    if options.no_voting and not options.yes_do_it:
        lines = ["--no-voting: the nodes are not asked who the master is.", _NO_VOTING]
        if not AskTerminal(lines):
            return constants.EXIT_CONFIRMATION
    return constants.EXIT_SUCCESS


_NO_VOTING = "Use it only where the nodes that do not answer are off; otherwise two masters may run at once."


def _Prepare(options: Any) -> Service:
    sys.setswitchinterval(SWITCH_INTERVAL)
    memory.ShareArenas()
    memory.KeepFromPrograms()
    RaiseDescriptorLimit()
    ask = AskTerminal if options.foreground and sys.stdin.isatty() else None
    without = frozenset(filter(None, options.without.split(",")))
    wishes = opening.Wishes(options.no_voting, options.yes_do_it, options.take_over, without, ask)
    try:
        return Service(wishes)
    except OSError as err:
        raise errors.GenericError(f"{constants.MASTERD}: {err.filename or ''} {err.strerror or err}".strip()) from err


def _Execute(options: Any, service: Service, stop: daemon.StopSignal) -> int:
    del options
    runtime.Thread(_Tidy, "tidy").start()
    return service.Run(stop)


def _Tidy() -> None:
    """Give free memory back for as long as the process lives."""
    while True:
        runtime.Sleep(TIDY_EVERY)
        memory.GiveBack(collect=True)


def Main() -> int:
    return daemon.GenericMain(constants.MASTERD, "Ganeti master daemon", _Options(), _Check, _Prepare, _Execute)
