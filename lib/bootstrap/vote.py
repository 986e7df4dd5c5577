"""What the nodes say of the master (design 2.0, "Master startup/failover"; doc/reference/files.md 9).

The vote confirms a role that an administrator gave, it never chooses a master.  That the configuration and the job list
are the newest is shown by the store's own promise (doc/design-store.rst, 5); here only the name is asked.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

from ganeti import constants, errors, runtime
from ganeti.rpc import RpcRunner
from ganeti.rpc.base import Failure
from ganeti.store import silence
from ganeti.store.base import FORCED_START
from ganeti.store.silence import Silent

MAX_ROUNDS = 6
ROUND_WAIT = 10.0


class VoteLost(errors.NotMasterError):
    """So many nodes name others that this one can no longer get a quorum."""


class TooFewVotes(errors.NotMasterError):
    """Nodes that do not answer could make this one the master: whoever supervises the daemon is to start it again."""

    exit_code = constants.EXIT_FAILURE


def GatherMasterVotes(runner: RpcRunner, nodes: Sequence[str]) -> tuple[Counter[str], list[Silent]]:
    """Return (votes by master name, nodes that gave none): every node is asked, offline ones too."""
    votes: Counter[str] = Counter()
    silent = []
    for node, result in runner.call_master_node_name(list(nodes)).items():
        if result.fail_msg or not isinstance(result.payload, str) or not result.payload:
            logging.warning("Node %s gives no vote: %s", node, result.fail_msg or "no master known")
            silent.append(silence.FromResult(result, result.fail_msg or "it does not know a master"))
        else:
            votes[result.payload] += 1
    return votes, silent


def Quorum(count: int) -> int:
    """Half plus one of all nodes of the configuration, offline ones included."""
    return count // 2 + 1


def ConfirmMaster(runner: RpcRunner, own_name: str, nodes: Sequence[str], rounds: int = MAX_ROUNDS) -> None:
    """Return when a quorum of all nodes names this one; raise NotMasterError when that cannot be, TooFewVotes if it took too long.

    While the silent nodes could still make the difference the question is asked again; VoteLost when they cannot.  A
    node that rejects this one's certificate is running and will not change its mind by being asked again.
    """
    failure: type[errors.NotMasterError] = TooFewVotes
    needed = Quorum(len(nodes))
    for turn in range(rounds):
        votes, silent = GatherMasterVotes(runner, nodes)
        ours = votes[own_name]
        if ours >= needed:
            return
        others = ", ".join(f"{name}: {n}" for name, n in votes.most_common() if name != own_name)
        state = f"{ours} of {len(nodes)} nodes name {own_name} as master, {needed} are needed" + (
            f"; votes for others: {others}" if others else ""
        )
        if ours + len(silent) < needed:
            raise VoteLost(
                f"{state}; this node is no longer the master",
                hint="if a fail-over was interrupted, run gnt-cluster master-failover on the node that shall be master",
            )
        rejecting = sum(node.failure is Failure.REJECTED for node in silent)
        if ours + len(silent) - rejecting < needed:
            failure = errors.NotMasterError
            break
        if turn + 1 >= rounds:
            break
        logging.warning("%s; %s; asking again", state, silence.Describe(silent))
        runtime.Sleep(ROUND_WAIT)
    raise failure(f"{state}; {silence.Describe(silent)}", hint=silence.NextStep(silent, own_name, FORCED_START))


def MostVoted(runner: RpcRunner, nodes: Sequence[str]) -> tuple[str | None, list[Silent]]:
    """Return (the master that most answers name, nodes without a vote); None where fewer than a quorum answered."""
    votes, silent = GatherMasterVotes(runner, nodes)
    if sum(votes.values()) < Quorum(len(nodes)):
        return None, silent
    return votes.most_common(1)[0][0], silent
