"""What some runs end with: steps that belong together and that chance alone would bring together too rarely.

A plot is played when everything else has come to rest, so that a new one changes nothing in what runs were before.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from simulation.harness import faults as store_faults
from simulation.harness.ledger import Violation
from simulation.master import faults
from simulation.master.cluster import MasterCluster

if TYPE_CHECKING:
    from simulation.master.machines import MasterNode

_WAIT = 60.0
Plot = Callable[[MasterCluster, random.Random], str]
_MAX_STEPS = 200_000


def PlotOf(seed: int, count: int) -> Plot | None:
    """Return the plot that the run of this seed, with ``count`` nodes, ends with, if it does."""
    slot = random.Random(f"plot {seed}").randrange(_SLOTS)
    plot, nodes = _BY_SLOT[slot] if slot < len(_BY_SLOT) else (None, 0)
    if count >= nodes and plot is not None:
        return plot
    return EditedByHand if random.Random(f"edit {seed}").random() < _EDITED else None


def NewcomerTakesOver(cluster: MasterCluster, rng: random.Random) -> str:
    """While a candidate is cut off, another node becomes one and takes over: the first one does not know its certificate.

    Raises Violation if it does not follow the new master all the same.
    """
    (master,) = cluster.Serving()
    candidates = [node for node in cluster.nodes if node is not master and node.member.uuid in _Voters(cluster, master)]
    absent = rng.choice(candidates)
    # Without both a quorum is left.
    others = [node for node in cluster.nodes if node not in (master, absent)]
    newcomer = rng.choice([node for node in others if node not in candidates or len(candidates) > 2])
    if newcomer in candidates:
        _AskRole(cluster, newcomer, False)
        _Wait(cluster, lambda: newcomer.member.uuid not in _Voters(cluster, master))
        cluster.world.RunFor(3.0)  # files that withdraw its certificate are behind by a second at most
    for node in cluster.nodes:
        if node is not absent:
            cluster.network.Cut(node.name, absent.name)
            cluster.network.Cut(absent.name, node.name)
    _AskRole(cluster, newcomer, True)
    _Wait(cluster, lambda: newcomer.member.uuid in _Voters(cluster, master))
    cluster.world.RunFor(rng.uniform(1.0, 5.0))
    store_faults.KillMaster(cluster, rng)
    newcomer.StartMasterd(take_over=True)
    _Wait(cluster, lambda: newcomer.serving)
    cluster.network.MendAll()
    _Wait(cluster, lambda: not newcomer.serving or cluster.open[newcomer.name].IsSettled())
    if newcomer.serving and not cluster.open[newcomer.name].IsSettled():
        raise Violation(
            f"{absent.name} does not follow the new master {newcomer.name}, whose certificate it does not know"
        )
    return f"{newcomer.name}, unknown to {absent.name}"


def FormerMasterCounted(cluster: MasterCluster, rng: random.Random) -> str:
    """The master stores changes alone; another one is made master, whose first change reaches nobody; then the former one's
    node says how far it is, before anything is copied to it: as far as the new master, but by changes of an older epoch.

    What the new master acknowledged by that is lost with its machine.
    """
    former, voters = _StoreAlone(cluster, rng)
    if len(voters) != 2:
        cluster.network.MendAll()
        cluster.resting = False
        return "not three voters"
    new, silent = rng.sample(voters, 2)
    silent.deaf_to, former.deaf_to = store_faults.STORING, ("store_catchup", "store_copy")
    ignored = silent.ignored
    new.StartMasterd(take_over=True)
    _Wait(cluster, lambda: silent.ignored > ignored)
    cluster.network.MendAll()
    cluster.world.RunFor(rng.uniform(5.0, 30.0))
    new.machine.PowerOff()
    silent.deaf_to = former.deaf_to = ()
    silent.StartMasterd(take_over=True)
    _Wait(cluster, lambda: silent.serving)
    new.Restart()
    cluster.resting = False
    return f"{former.name}, {new.name}, {silent.name}"


def FormerMasterDiffers(cluster: MasterCluster, rng: random.Random) -> str:
    """The master stores changes alone, and another one is made master without them: they are to go when it returns."""
    former, voters = _StoreAlone(cluster, rng)
    if len(voters) < 2:
        return "no quorum without the master"
    new = rng.choice(voters)
    new.StartMasterd(take_over=True)
    _Wait(cluster, lambda: new.serving)
    cluster.network.MendAll()
    cluster.resting = False
    return f"{former.name}, {new.name}"


def AbsenteeTakesOver(cluster: MasterCluster, rng: random.Random) -> str:
    """While a voter is cut off, others join the voters; then it is to take over with one of the former ones, which is no quorum.

    The set of the newest history counts, which only the other one has.
    """
    (master,) = cluster.Serving()
    voters = [node for node in cluster.nodes if node.member.uuid in _Voters(cluster, master) and node is not master]
    joining = [node for node in cluster.nodes if node is not master and node not in voters]
    if len(voters) != 2 or not joining:
        return "not three voters and others"
    absent, friend = rng.sample(voters, 2)
    for node in cluster.nodes:
        if node is not absent:
            cluster.network.Cut(node.name, absent.name)
            cluster.network.Cut(absent.name, node.name)
    for node in joining:
        _AskRole(cluster, node, True)
        _Wait(cluster, lambda node=node: node.member.uuid in _Voters(cluster, master))  # type: ignore[misc]
    cluster.world.RunFor(rng.uniform(1.0, 5.0))
    cluster.resting = True  # nobody else starts a master
    store_faults.KillMaster(cluster, rng)
    cluster.network.MendAll()
    cluster.network.Partition([absent.name, friend.name], [node.name for node in (master, *joining)])
    absent.StartMasterd(take_over=True)
    cluster.world.RunFor(rng.uniform(10.0, 30.0))
    cluster.network.MendAll()
    cluster.resting = False
    return f"{absent.name}, {friend.name}"


def EditedByHand(cluster: MasterCluster, rng: random.Random) -> str:
    """The master daemon is stopped, its files are edited, and it is started again; often it dies before it has written any."""
    (master,) = cluster.Serving()
    cluster.resting = True  # nobody else starts a master
    master.StopMasterd()
    _Wait(cluster, lambda: master.masterd is None or not master.masterd.alive)
    if master.stopped and cluster.world.elapsed - cluster.last_full >= faults.WRITTEN_AFTER:
        cluster.edited_on = master.name
        edit = master.machine.StartProcess(lambda: faults.Edit(cluster, rng), "editor")
        _Wait(cluster, lambda: not edit.alive)
        cluster.edits += edit.result is True
    master.StartMasterd()
    _Wait(cluster, lambda: master.name in cluster.open)
    if rng.random() < 0.8 and master.masterd is not None:
        cluster.world.RunFor(rng.choice((0.001, 0.003, 0.03)))
        master.masterd.Kill()
    cluster.resting = False
    return master.name


def _StoreAlone(cluster: MasterCluster, rng: random.Random) -> tuple[MasterNode, list[MasterNode]]:
    """Cut the master off, have it store some changes that nobody else gets, and kill it; return it and the other voters.

    Init starts no master until ``resting`` is taken back.  With less than two other voters nothing is done.
    """
    (former,) = cluster.Serving()
    voters = [node for node in cluster.nodes if node.member.uuid in _Voters(cluster, former) and node is not former]
    if len(voters) < 2:
        return former, voters
    cluster.resting = True
    for node in cluster.nodes:
        if node is not former:
            cluster.network.Cut(node.name, former.name)
            cluster.network.Cut(former.name, node.name)
    # More than the new master will have written until copies are compared: that would hide what has stayed.
    for _ in range(6):
        cluster.workload.AskNow(cluster)
    cluster.world.RunFor(0.5)
    store_faults.KillMaster(cluster, rng)
    return former, voters


def _AskRole(cluster: MasterCluster, node: MasterNode, candidate: bool) -> None:
    op = cluster.workload.RoleOp(node.name, master_candidate=candidate)
    cluster.workload.Ask([[{**op, "auto_promote": False}]])


def _Voters(cluster: MasterCluster, master: MasterNode) -> set[str]:
    store = cluster.open.get(master.name)
    return set(store.Voters().by_uuid) if store is not None else set()


def _Wait(cluster: MasterCluster, is_so: Callable[[], bool]) -> None:
    """Until it is so, or for a while."""
    deadline = cluster.world.elapsed + _WAIT

    def over() -> bool:
        return is_so() or cluster.world.elapsed > deadline or cluster.violation is not None

    cluster.world.Run(until=over, max_steps=_MAX_STEPS)


# Of a hundred seeds each plot has so many of its own, of runs with at least so many nodes.  A new plot goes to the end: it
# takes its seeds from those that have none, and changes nothing for the others.
_SHARES = (
    (NewcomerTakesOver, 60, 4),
    (FormerMasterCounted, 10, 3),
    (FormerMasterDiffers, 10, 3),
    (AbsenteeTakesOver, 20, 4),
)
_SLOTS = 100
# So much of the runs that end with none of these has this one.
_EDITED = 0.15
_BY_SLOT = tuple((plot, nodes) for plot, share, nodes in _SHARES for _ in range(share))
assert len(_BY_SLOT) <= _SLOTS
