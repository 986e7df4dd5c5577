"""Making this node the master (spec/cli.md 9.4, with the rules of doc/design-store.rst, 5 and 8)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from ganeti import constants, errors, hosts, pathutils, ssconf
from ganeti.bootstrap import daemons, destroy, vote
from ganeti.rpc import RpcRunner, resolver

ADDRESS_WAIT = 30.0
# The part of daemon-util's options that lets masterd start where another node is named as master.
TAKE_OVER = "--take-over"


@dataclass
class Outcome:
    """What is worth telling; ``failed`` decides on the exit code."""

    warnings: list[str] = field(default_factory=list)
    failed: bool = False

    def Warn(self, text: str, failed: bool = False) -> None:
        logging.warning(text)
        self.warnings.append(text)
        self.failed = self.failed or failed


def CheckVotes(runner: RpcRunner, nodes: Sequence[str], known_master: str) -> None:
    """The nodes must agree that the master is the one this node knows."""
    named, silent = vote.MostVoted(runner, nodes)
    if named is None:
        raise errors.OpPrereqError(
            f"{len(silent)} of {len(nodes)} nodes do not answer: {', '.join(silent)}; more than half are needed."
            " If they are really off, use --no-voting",
            errors.ECODE_STATE,
        )
    if named != known_master:
        raise errors.OpPrereqError(
            f"This node takes {known_master} for the master, most nodes name {named}: what is known here is out of date, so"
            " fail over to another candidate",
            errors.ECODE_STATE,
        )


def MasterFailover(runner: RpcRunner, no_voting: bool = False, ignore_offline: bool = True) -> Outcome:
    """Stops the old master and starts this node as the new one; the store decides whether that is safe.

    Raises OpPrereqError when nothing was changed.
    """
    store = ssconf.SimpleStore()
    own = hosts.OwnHost(store.GetPrimaryIPFamily() == constants.IP6_FAMILY).name
    old_master = store.GetMasterNode()
    candidates = store.GetMasterCandidates()
    if own == old_master:
        raise errors.OpPrereqError(
            f"{own} is the master already; run this on the candidate that shall take over",
            errors.ECODE_INVAL,
            hint=f"if no master daemon runs here: {pathutils.DAEMON_UTIL} start-master",
        )
    if own not in candidates:
        raise errors.OpPrereqError(
            f"{own} is no master candidate and has no copy of the configuration; candidates are: {', '.join(candidates)}",
            errors.ECODE_STATE,
        )
    if not no_voting:
        nodes = store.GetOnlineNodeList() if ignore_offline else store.GetNodeList()
        CheckVotes(runner, nodes, old_master)
    outcome = Outcome()
    _StopOldMaster(runner, old_master, store, outcome)
    _Start(runner, own, no_voting, outcome)
    return outcome


def _StopOldMaster(runner: RpcRunner, old_master: str, store: ssconf.SimpleStore, outcome: Outcome) -> None:
    network = destroy.MasterNetworkParameters()
    result = runner.call_node_deactivate_master_ip(old_master, network, False)
    if result.fail_msg:
        outcome.Warn(f"The master IP is perhaps still up on {old_master}: {result.fail_msg}")
    result = runner.call_node_stop_master(old_master)
    if result.fail_msg:
        outcome.Warn(
            f"Could not stop the master daemon on {old_master}: {result.fail_msg}; it can acknowledge nothing any more once"
            " this node is master"
        )
    master_ip = store.GetMasterIP()
    try:
        daemons.WaitFor(
            lambda: not hosts.IsInUse(master_ip, resolver.NodedPort(), timeout=1),
            f"The master IP {master_ip} did not go away",
            ADDRESS_WAIT,
        )
    except errors.OpExecError as err:
        outcome.Warn(str(err), failed=True)


def _Start(runner: RpcRunner, own: str, no_voting: bool, outcome: Outcome) -> None:
    options = [TAKE_OVER]
    if no_voting:
        options += ["--no-voting", "--yes-do-it"]
    daemons.DaemonUtil("start", constants.MASTERD, *options)
    daemons.WaitForMaster()
    daemons.DaemonUtil("start-master")
    master_ip = ssconf.SimpleStore().GetMasterIP()
    result = runner.call_node_activate_master_ip(own, destroy.MasterNetworkParameters(), False)
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
