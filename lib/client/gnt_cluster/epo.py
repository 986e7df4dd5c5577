"""gnt-cluster epo: emergency power-off of nodes with their instances, and the way back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ganeti import constants, errors
from ganeti.cli import ask, jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Flag, Options, Value
from ganeti.client.gnt_cluster import pausing, powering
from ganeti.client.gnt_cluster.powering import Node, State
from ganeti.client.shared.rows import ByKnownName, ByName, QueryRows
from ganeti.opcodes import OpInstanceShutdown, OpInstanceStartup
from ganeti.utils import oob
from ganeti.utils.text import NiceSort, NiceSortKey

# The watcher must not start instances again that were stopped for this.
_WATCHER_SPARE = 1800.0

ON = Flag("--on", dest="on", text="Switch the nodes on again and start their instances")
GROUPS = Flag("--groups", dest="groups", text="The arguments are node groups")
SHOW_ALL = Flag("--all", dest="show_all", text="Act on all nodes, with the instances of the master node too")
SHUTDOWN_TIMEOUT = Value(
    "--shutdown-timeout", dest="shutdown_timeout", type="int", metavar="SECONDS",
    default=constants.DEFAULT_SHUTDOWN_TIMEOUT, text="Time for a clean shutdown before an instance is killed",
)  # fmt: skip


class Instance(NamedTuple):
    """An instance with a disk or its guest on one of the nodes."""

    name: str
    primary: str
    nodes: frozenset[str]
    state: str


class Scene(NamedTuple):
    """All nodes of the cluster, those that are meant, and the instances these hold."""

    every: list[Node]
    chosen: list[Node]
    instances: list[Instance]

    def WithControllers(self) -> list[Node]:
        """Return the nodes that are meant and that a program can switch; the master is never switched."""
        return [node for node in self.chosen if node.program and node.powered is not None and not node.is_master]


# --- looking ------------------------------------------------------------------------------------------------------------


def _AllNodes() -> list[Node]:
    fields = ["name", "pip", "group", "master", "master_candidate", "offline", "powered", "ndp/oob_program"]
    nodes = [Node(*row.values()) for row in QueryRows(jobs.GetClient(), "node", fields)]
    return sorted(nodes, key=lambda node: NiceSortKey(node.name))


def _Look(options: Options, arguments: Sequence[str]) -> Scene:
    client = jobs.GetClient()
    every = _AllNodes()
    if options.groups and arguments:
        groups = {row["name"] for row in QueryRows(client, "group", ["name"], ByKnownName(arguments))}
        chosen = [node for node in every if node.group in groups]
    elif arguments:
        names = {row["name"] for row in QueryRows(client, "node", ["name"], ByKnownName(arguments))}
        chosen = [node for node in every if node.name in names]
    else:
        chosen = every
    return Scene(every, chosen, _Instances([node for node in chosen if not node.offline]))


def _Instances(nodes: Sequence[Node]) -> list[Instance]:
    """Return the instances with a disk or their guest on one of the nodes."""
    names = {node.name for node in nodes}
    instances = [
        Instance(row["name"], row["pnode"], frozenset([row["pnode"], *row["snodes"]]), row["admin_state"])
        for row in QueryRows(jobs.GetClient(), "instance", ["name", "pnode", "snodes", "admin_state"])
        if names & {row["pnode"], *row["snodes"]}
    ]
    return sorted(instances, key=lambda instance: NiceSortKey(instance.name))


def _Targets(scene: Scene, states: Mapping[str, State], on: bool) -> list[Node]:
    """Return the nodes whose programs are to be run; say why the others are left out."""
    targets = []
    word = "on" if on else "off"
    for node in scene.chosen:
        state = states.get(node.name)
        if node.is_master:
            continue
        if state is None:
            output.ToStdout(
                f"Node {node.name} does not support out-of-band handling, it can not be handled in a fully automated manner"
            )
        elif on and node.offline:
            output.ToStdout(
                f"Node {node.name} is marked offline and stays as it is; 'gnt-node power on {node.name}' switches it on"
            )
        elif node.powered != on:
            targets.append(node)
        elif state.powered is on:
            output.ToStdout(f"Node {node.name} is already in desired power state, skipping")
        else:
            # Somebody else switched it, or an earlier attempt was interrupted.
            says = "does not say so" if state.powered is None else f"says that it is {'off' if on else 'on'}"
            output.ToStdout(
                f"Node {node.name} is recorded as powered {word}, but its controller {says}; it is switched {word} again"
            )
            targets.append(node)
    return targets


def _AllKnown(nodes: Sequence[Node], states: Mapping[str, State]) -> bool:
    """Return whether each controller said whether its node is on; name those that did not, and what to do."""
    silent = [node for node in nodes if states[node.name].powered is None]
    for node in silent:
        output.ToStderr(
            f"Whether node {node.name} is on is not known: {states[node.name].problem}\n"
            f"Repair this, or run 'gnt-node modify --node-parameters=oob_program= {node.name}' if you switch it by hand, or"
            " give only the names of other nodes"
        )
    return not silent


# --- instances ----------------------------------------------------------------------------------------------------------


def _RunJobs(
    ops: Sequence[Any], options: Options, words: tuple[str, str, str], feedback: jobs.Feedback | None = None
) -> list[str]:
    """Run one job for each opcode; return the names of the instances whose jobs failed."""
    submitting, done, doing = words
    executor = jobs.JobExecutor(options, feedback=feedback)
    for op in ops:
        output.ToStdout(f"Submit {submitting} of instance {op.instance_name}")
        executor.QueueJob(op.instance_name, op)
    results = executor.GetResults()
    failed = [op.instance_name for op, (success, _) in zip(ops, results, strict=True) if not success]
    if failed:
        output.ToStderr(
            f"There were errors while {doing} instances:\n{len(failed)} error(s) out of {len(results)} instance(s)"
        )
    else:
        output.ToStdout(f"All instances have been {done} successfully")
    return failed


def _MayRun(scene: Scene, states: Mapping[str, State]) -> list[Instance]:
    """Return the instances that can run at all: not those on nodes that are off, or that are marked offline."""
    unreachable = {node.name for node in scene.every if node.offline}
    unreachable |= {name for name, state in states.items() if state.powered is False}
    return [
        instance
        for instance in scene.instances
        if instance.primary not in unreachable and instance.state != constants.ADMINST_OFFLINE
    ]


def _Stop(running: Sequence[Instance], options: Options, feedback: jobs.Feedback) -> bool:
    ops = [
        OpInstanceShutdown(instance_name=instance.name, timeout=options.shutdown_timeout, no_remember=True)
        for instance in running
    ]
    failed = _RunJobs(ops, options, ("shutdown", "stopped", "stopping"), feedback)
    if failed:
        _ExplainRunning([instance for instance in running if instance.name in failed])
    return not failed


def _ExplainRunning(instances: Sequence[Instance]) -> None:
    names = ", ".join(f"{instance.name} (on {instance.primary})" for instance in instances)
    output.ToStderr(
        f"These instances run, or may run: {names}\nPlease investigate and stop instances manually before continuing; if a node"
        f" is certainly off, 'gnt-node modify --offline=yes {instances[0].primary}' says so"
    )


def _Start(names: Sequence[str], options: Options) -> bool:
    ops = [OpInstanceStartup(instance_name=name) for name in names]
    return not ops or not _RunJobs(ops, options, ("startup", "started", "starting"))


# --- off ----------------------------------------------------------------------------------------------------------------


def _Off(scene: Scene, options: Options) -> int:
    states = powering.Ask(scene.WithControllers(), options)
    if not _AllKnown(scene.WithControllers(), states):
        output.ToStderr("Nothing was stopped or switched off")
        return constants.EXIT_FAILURE
    targets = _Targets(scene, states, on=False)
    voters = powering.EnoughVoters(scene.every, targets)
    extra = _Plan(scene, targets, "OFF") + (
        f"{len(scene.instances)} instance(s) with a disk or their guest on these nodes will be stopped.\n"
    )
    if not _Agreed(scene, options, extra + ("" if voters else _TooFew())):
        return constants.EXIT_FAILURE
    if options.force and not voters:
        output.ToStderr(_TooFew().rstrip())
    pause = pausing.Pause(options.shutdown_timeout + len(targets) * options.oob_timeout + _WATCHER_SPARE)
    try:
        good = _StopAndSwitch(scene, states, targets, options, pause)
        if good and not _Stranded(scene, targets, states):
            pause.End()
        else:
            pause.Explain()
    except BaseException:
        pause.Explain()
        raise
    if good:
        _ExplainMaster(scene, [] if voters else scene.WithControllers())
    by_hand = _NameByHand(scene, good)
    return constants.EXIT_SUCCESS if good and not by_hand else constants.EXIT_FAILURE


def _NameByHand(scene: Scene, stopped: bool) -> bool:
    """Name the nodes that no program can switch off; return whether there are any."""
    able = scene.WithControllers()
    left = [node for node in scene.chosen if not (node in able or node.is_master or node.offline)]
    if left:
        names = [node.name for node in left]
        back = "--on" if len(scene.chosen) == len(scene.every) else f"--on {' '.join(names)}"
        output.ToStderr(
            f"Not switched off, as they have no out-of-band program: {', '.join(names)}.  Their instances are"
            f" {'stopped: switch these nodes off by hand' if stopped else 'not all stopped'};"
            f" 'gnt-cluster epo {back}' brings the instances back when the nodes are on again"
        )
    return bool(left)


def _StopAndSwitch(
    scene: Scene, states: Mapping[str, State], targets: Sequence[Node], options: Options, pause: pausing.Pause
) -> bool:
    """Stop the instances and switch the nodes off; return whether the nodes are off."""
    feedback = pausing.Renewing(pause)
    wanted = {instance.primary for instance in scene.instances if instance.state == constants.ADMINST_UP}
    for name in NiceSort(name for name in wanted & states.keys() if states[name].powered is False):
        output.ToStdout(f"Node {name} is off, so its instances do not run")
    if not _Stop(_MayRun(scene, states), options, feedback):
        return False
    if not targets:
        return True
    if not _StillStopped(scene, states, options):
        return False
    pause.Renew()
    return powering.SwitchOff(targets, scene.every, options, feedback)


def _StillStopped(scene: Scene, before: Mapping[str, State], options: Options) -> bool:
    """Ask controllers and instances once more, after what may have been hours; return whether nodes can be switched off."""
    states = powering.Ask(scene.WithControllers(), options)
    if not _AllKnown(scene.WithControllers(), states):
        return False
    woken = [name for name, state in states.items() if state.powered and not before[name].powered]
    if woken:
        output.ToStderr(f"These nodes were switched on meanwhile: {', '.join(woken)}; run the command again")
        return False
    now = _Instances([node for node in scene.chosen if not node.offline])
    candidates = _MayRun(scene._replace(instances=now), states)
    if not candidates:
        return True
    rows = QueryRows(
        jobs.GetClient(), "instance", ["name", "oper_state"], ByName([instance.name for instance in candidates])
    )
    stopped = {row["name"] for row in rows if row["oper_state"] is False}
    there = {row["name"] for row in rows}
    running = [instance for instance in candidates if instance.name in there - stopped]
    if running:
        _ExplainRunning(running)
    return not running


def _Stranded(scene: Scene, targets: Sequence[Node], states: Mapping[str, State]) -> bool:
    """Return whether an instance was stopped that the watcher would start at once, as its node stays on."""
    switched = {node.name for node in targets}
    return any(
        instance.state == constants.ADMINST_UP and instance.primary not in switched
        for instance in _MayRun(scene, states)
    )


def _TooFew() -> str:
    return (
        "Too few master candidates will be left for any job.  Keep the master node on: 'gnt-cluster epo --on' there brings the"
        " others back.\n"
    )


def _ExplainMaster(scene: Scene, voters: Sequence[Node]) -> None:
    """Say how the master is switched off, and how a cluster without enough ``voters`` comes back after that."""
    master = next((node for node in scene.chosen if node.is_master), None)
    if master is None:
        return
    by_hand = oob.CommandLine(master.program, oob.POWER_OFF, master.name) if master.program else "poweroff"
    output.ToStdout(f"Node {master.name} is the master and still on; '{by_hand}' switches it off")
    commands = [oob.CommandLine(node.program, oob.POWER_ON, node.name) for node in voters if node.candidate]
    if commands:
        lines = "".join(f"\n  {command}" for command in commands)
        output.ToStdout(
            f"If you switch it off: its master daemon does not start alone.  After {master.name} has booted run there, as root,"
            f"{lines}\nand when these nodes are up, 'gnt-cluster epo --on'.  Do not use --no-voting for this: it marks the nodes"
            " that do not answer offline."
        )


# --- on -----------------------------------------------------------------------------------------------------------------


def _On(scene: Scene, options: Options) -> int:
    states = powering.Ask(scene.WithControllers(), options)
    targets = _Targets(scene, states, on=True)
    if not _Agreed(scene, options, _Plan(scene, targets, "ON")):
        return constants.EXIT_FAILURE
    if not powering.RaiseMajority(scene.every, targets, options):
        return constants.EXIT_FAILURE
    if targets and not powering.SwitchOn(targets, options):
        output.ToStderr("Not all nodes seem to get back up, investigate and start manually if needed")
    good = _StartAsNodesReturn(scene, options)
    if not good:
        output.ToStderr("Please investigate and start stopped instances manually")
    pausing.Lift()
    asleep = [node.name for node in scene.WithControllers() if node.offline and not states[node.name].powered]
    for name in asleep:
        output.ToStderr(
            f"Node {name} was left out, as it is marked offline: 'gnt-node power on {name}', then"
            f" 'gnt-node modify --offline=no {name}', then 'gnt-cluster epo --on {name}' bring it back"
        )
    return constants.EXIT_SUCCESS if good and not asleep else constants.EXIT_FAILURE


def _StartAsNodesReturn(scene: Scene, options: Options) -> bool:
    """Wait for the nodes, and start each instance with the last of its nodes; return whether all went well."""
    output.ToStdoutAndFlush("Waiting until all nodes are available again")
    down = {node.name: node for node in scene.chosen if not node.offline and not node.is_master}
    offline = {node.name for node in scene.every if node.offline}
    waiting = [
        instance
        for instance in scene.instances
        if instance.state == constants.ADMINST_UP and instance.primary not in offline
    ]
    good = True

    def start() -> None:
        nonlocal good
        ready = [instance for instance in waiting if not instance.nodes & down.keys()]
        for instance in ready:
            waiting.remove(instance)
        good = _Start([instance.name for instance in ready], options) and good

    def look() -> bool:
        """Return whether there is something new: the time that instances take to start is not taken from the nodes'."""
        up = powering.Answering(list(down.values()))
        for name in NiceSort(up):
            output.ToStdoutAndFlush(f"Node {name} became available")
            del down[name]
            start()
        return bool(up) or not down

    start()
    while down:
        if not powering.Wait(look, powering.BOOT_TIME):
            lines = "".join(f"\n  - {name}" for name in NiceSort(down))
            output.ToStderr(f"Time exceeded while waiting for nodes to become reachable again:{lines}")
            return False
    return good


# --- the command --------------------------------------------------------------------------------------------------------


def _Plan(scene: Scene, targets: Sequence[Node], word: str) -> str:
    """Return what will happen to which nodes, for the question."""
    left = [node.name for node in scene.chosen if node not in targets]
    text = f"To be switched {word}: {', '.join(node.name for node in targets) or 'no node'}.\n"
    return text + (f"Not to be switched: {', '.join(left)}.\n" if left else "")


def _Agreed(scene: Scene, options: Options, extra: str) -> bool:
    names = [node.name for node in scene.chosen]
    return bool(options.force) or ask.ConfirmOperation(names, "node", "epo", "--force", extra)


def Run(options: Options, arguments: list[str]) -> int:
    if options.groups and options.show_all:
        output.ToStderr("Only one of --groups or --all are allowed")
        return constants.EXIT_FAILURE
    if arguments and options.show_all:
        output.ToStderr("Arguments in combination with --all are not allowed")
        return constants.EXIT_FAILURE
    oob.CheckLimits(options.oob_timeout, options.power_delay)
    if options.shutdown_timeout < 0:
        raise errors.OpPrereqError(
            f"An instance cannot be given {options.shutdown_timeout} seconds to shut down; 0 kills it at once",
            errors.ECODE_INVAL,
        )
    scene = _Look(options, arguments)
    if options.on:
        return _On(scene, options)
    master = next((node for node in scene.chosen if node.is_master), None)
    if master is not None and not options.show_all:
        output.ToStderr(
            f"{master.name} is the master node, please do a master-failover to another node not affected by the EPO or use"
            " --all if you intend to shutdown the whole cluster"
        )
        return constants.EXIT_FAILURE
    return _Off(scene, options)


COMMAND = Command(
    Run,
    "Switch nodes off in an emergency, after stopping their instances, or on again",
    (AnyNumber("node"),),
    (
        o.FORCE, ON, GROUPS, SHOW_ALL, o.OOB_TIMEOUT, SHUTDOWN_TIMEOUT, o.POWER_DELAY,
    ),
    details="It acts on the nodes that are named, or with --all on all of them; with --on and no names it brings all nodes"
    " back.  Instances that have a guest or a disk on the nodes are stopped first, and"
    " remain recorded as wanted; if one cannot be stopped, or a controller does not say whether its node is on, no node is"
    " switched off.  The command can be run again after an interruption and continues where it was.  With --on each instance that is wanted is started as soon as the last of its"
    " nodes answers, within 15 minutes.  Nodes without the node parameter oob_program are named and must be switched by hand;"
    " when such a node was to be switched off, the exit code is 1.  The master node is named too, and never switched.",
)  # fmt: skip
