"""Make this node the master (doc/reference/cli.md 9.4, with the rules of doc/design-store.rst, 5 and 8)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from ganeti import constants, errors, hosts, pathutils, ssconf
from ganeti.bootstrap import daemons, destroy, vote
from ganeti.rpc import RpcRunner, resolver
from ganeti.store import silence

ADDRESS_WAIT = 30.0
# The part of daemon-util's options that lets masterd start where another node is named as master.
TAKE_OVER = "--take-over"


@dataclass
class Outcome:
    """The warnings to print; ``failed`` decides on the exit code."""

    warnings: list[str] = field(default_factory=list)
    failed: bool = False

    def Warn(self, text: str, failed: bool = False) -> None:
        logging.warning(text)
        self.warnings.append(text)
        self.failed = self.failed or failed


@dataclass
class Choices:
    """The administrator's choices on the command line.

    ``without``: nodes to give up although they are running (see ``RunningNodes``); ``abort_jobs``: the old
    master is replaced although jobs run there, which become errors.
    """

    no_voting: bool = False
    ignore_offline: bool = True
    abort_jobs: bool = False
    without: Sequence[str] = ()


def FindMaster(runner: RpcRunner, own: str, nodes: Sequence[str]) -> str:
    """Return the master that most nodes name; OpPrereqError where too few answer."""
    named, silent = vote.MostVoted(runner, nodes)
    if named is None:
        raise errors.OpPrereqError(
            f"Only {len(nodes) - len(silent)} of {len(nodes)} nodes say who the master is, {vote.Quorum(len(nodes))} are"
            f" needed: {silence.Describe(silent)}",
            errors.ECODE_STATE,
            hint=silence.NextStep(silent, own, "gnt-cluster master-failover --no-voting"),
        )
    return named


def RunningNodes(runner: RpcRunner) -> tuple[list[str], str]:
    """Return the nodes that accept connections and do not answer this one, and how each silent node is silent."""
    _, silent = vote.GatherMasterVotes(runner, ssconf.SimpleStore().GetNodeList())
    return silence.Accepting(silent), silence.Describe(silent)


def MasterFailover(runner: RpcRunner, choices: Choices) -> Outcome:
    """Stop the old master and start this node as the new one; the store decides whether that is safe.

    Raises OpPrereqError when nothing was changed.
    """
    store = ssconf.SimpleStore()
    own = hosts.OwnHost(store.GetPrimaryIPFamily() == constants.IP6_FAMILY).name
    old_master = store.GetMasterNode()
    candidates = store.GetMasterCandidates()
    if own not in candidates:
        raise errors.OpPrereqError(
            f"{own} is not a master candidate and has no copy of the configuration; candidates are: {', '.join(candidates)}",
            errors.ECODE_STATE,
        )
    if not choices.no_voting:
        # A node that was away believes what was true when it left: the others know better, about itself too.
        nodes = store.GetOnlineNodeList() if choices.ignore_offline else store.GetNodeList()
        old_master = FindMaster(runner, own, nodes)
    outcome = Outcome()
    if own == old_master and not choices.no_voting:
        raise errors.OpPrereqError(
            f"{own} is the master already; run this on the candidate that shall take over",
            errors.ECODE_INVAL,
            hint=f"if no master daemon runs here: {pathutils.DAEMON_UTIL} start-master",
        )
    if own != old_master:
        _StopOldMaster(runner, old_master, store, choices, outcome)
    _Start(runner, own, choices, outcome)
    return outcome


def _StopOldMaster(
    runner: RpcRunner, old_master: str, store: ssconf.SimpleStore, choices: Choices, outcome: Outcome
) -> None:
    """Ask the old master to drain and hand over; OpPrereqError while its jobs run."""
    result = runner.call_node_stop_master(old_master)
    if result.fail_msg and result.failure is None and not choices.abort_jobs:
        raise errors.OpPrereqError(
            f"The master daemon on {old_master} did not stop, and nothing was changed: {result.fail_msg}",
            errors.ECODE_STATE,
            hint="wait until its jobs have ended, or take over at once with --abort-jobs: running jobs become errors",
        )
    if result.fail_msg:
        outcome.Warn(
            f"Could not stop the master daemon on {old_master}: {result.fail_msg}; it can acknowledge nothing once this"
            " node is master"
        )
    network = destroy.MasterNetworkParameters()
    result = runner.call_node_deactivate_master_ip(old_master, network, destroy.UsesExternalScript())
    if result.fail_msg:
        outcome.Warn(f"The master IP is perhaps still up on {old_master}: {result.fail_msg}")
    master_ip = store.GetMasterIP()
    try:
        daemons.WaitFor(
            lambda: not hosts.IsInUse(master_ip, resolver.NodedPort(), timeout=1),
            f"The master IP {master_ip} did not go away",
            ADDRESS_WAIT,
        )
    except errors.OpExecError as err:
        outcome.Warn(str(err), failed=True)


def _Start(runner: RpcRunner, own: str, choices: Choices, outcome: Outcome) -> None:
    options = [TAKE_OVER]
    if choices.no_voting:
        options += ["--no-voting", "--yes-do-it"]
    if choices.without:
        options += ["--without", ",".join(choices.without)]
    daemons.DaemonUtil("start", constants.MASTERD, *options)
    daemons.WaitForMaster()
    try:
        daemons.DaemonUtil("start-master")
    except errors.OpExecError as err:
        # The cluster has its master; what else serves there must not take the address from it.
        outcome.Warn(str(err), failed=True)
    master_ip = ssconf.SimpleStore().GetMasterIP()
    result = runner.call_node_activate_master_ip(own, destroy.MasterNetworkParameters(), destroy.UsesExternalScript())
    if result.fail_msg:
        outcome.Warn(f"Could not bring the master IP up: {result.fail_msg}", failed=True)
        return
    try:
        daemons.WaitFor(
            # Node daemons listen on their node's primary address: a refusal proves that this one is up.
            lambda: hosts.Answers(master_ip, resolver.NodedPort(), 1, live_port_needed=False),
            f"The master IP {master_ip} is not reachable",
            ADDRESS_WAIT,
        )
    except errors.OpExecError as err:
        outcome.Warn(str(err), failed=True)
