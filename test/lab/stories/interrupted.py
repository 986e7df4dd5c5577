"""Stories of procedures that are cut off: at one of their steps a daemon or a guest ends, or a node loses its power.

Each goes on as an administrator would: it does what the messages say until the instance runs with both sides complete.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from lab.cluster import Node
from lab.stage import Stage
from lab.stories import Needs
from lab.stories.mirror import CheckOnePrimary, Minors, MoveAndCheck, Pair, WaitForSync
from lab.writes import Writer

# Lines that a job prints; test_cut_off.py counts them.
STEPS_OF_REPLACEMENT = 6
# Before "done".
STEPS_OF_MIGRATION = 14
_ROUNDS = 6
_SIDES = (0, 1)
# The primary node, the old and the new secondary one.
_THREE = (0, 1, 2)
_JOBS_SECONDS = 300.0
# What a message may name, of the commands for an instance.
_ADVISED = "migrate --cleanup|shutdown|startup|activate-disks(?: --wait-for-sync)?|replace-disks --auto"

# Strikes a node, and returns what has to be done to it before anybody looks at what happened.
Strike = Callable[[Stage, Node, str, Writer], Callable[[], None]]


def _Kill(stage: Stage, node: Node, daemon: str) -> None:
    node.Shell(f"kill -9 $(cat /run/ganeti/{daemon}.pid)")
    stage.say(f"         {daemon} of {node.name} is killed")


def _Restart(node: Node, daemon: str) -> None:
    node.Run("/usr/lib/ganeti/daemon-util", "start", daemon, seconds=300)


def KillMaster(stage: Stage, _node: Node, _name: str, _writer: Writer) -> Callable[[], None]:
    """Kill the master daemon, and start it again."""
    _Kill(stage, stage.cluster.master, "ganeti-masterd")
    _Restart(stage.cluster.master, "ganeti-masterd")
    return lambda: None


def KillNoded(stage: Stage, node: Node, _name: str, _writer: Writer) -> Callable[[], None]:
    """Kill the node daemon, which comes back after the job has ended."""
    _Kill(stage, node, "ganeti-noded")
    return lambda: _Restart(node, "ganeti-noded")


def EndGuest(stage: Stage, node: Node, name: str, _writer: Writer) -> Callable[[], None]:
    """End the process of the guest on this node, if there is one, as a crash of QEMU does."""
    node.Run("rm", "-f", f"/run/ganeti/fake-hypervisor/{name}")
    stage.say(f"         the guest's process on {node.name} ends")
    return lambda: None


def CutPower(stage: Stage, node: Node, _name: str, writer: Writer) -> Callable[[], None]:
    """Take the node's power away; it comes back after the job has ended."""
    stage.PowerOff(node)
    return lambda: stage.PowerOn(node, writer)


_ON_MIGRATION: tuple[Strike, ...] = (KillMaster, KillNoded, EndGuest, CutPower)
_ON_REPLACEMENT: tuple[Strike, ...] = (KillMaster, KillNoded, CutPower)


def _Places(stage: Stage, *choices: Iterable[int]) -> Iterator[tuple[int, ...]]:
    """Go through the places that the choices make, from the one on that the run was told to begin with."""
    places = list(itertools.product(*choices))
    for number, place in enumerate(places[stage.first - 1 :], stage.first):
        stage.say(f"  place {number} of {len(places)}")
        yield place


def _AtPlace(stage: Stage, strikes: Sequence[Strike], *place: int) -> list[Strike]:
    """Return what strikes at a place: the one whose turn it is, or the others or all, as the run was told.

    The last choice of a place is the node's.  The master is the same for each, so it is among the others of the first only.
    """
    turn = (stage.seed + sum(place)) % len(strikes)
    others = [*strikes[turn + 1 :], *strikes[:turn]]
    if place[-1] and KillMaster in others:
        others.remove(KillMaster)
    return {"one": [strikes[turn]], "others": others, "all": [strikes[turn], *others]}[stage.strikes]


def _Interrupt(stage: Stage, argv: list[str], mark: str, step: int, strike: Callable[[], Callable[[], None]]) -> str:
    """Run a command on the master and strike when its output has ``step`` lines with ``mark``.

    Return how its job ended, if that was not well.  Raise AssertionError if the command had ended before the strike.
    """
    words, name = " ".join(argv), argv[-1]
    begin = "rm -f /run/story.*; touch /run/story.log;"
    run = f"(gnt-{words} >/run/story.log 2>&1; echo ENDED >/run/story.end) </dev/null >/dev/null 2>&1 &"
    stage.cluster.master.Shell(f"{begin} {run}")
    wait = f"until [ $(grep -c '{mark}' /run/story.log) -ge {step} ] || [ -e /run/story.end ]; do sleep 0.1; done"
    look = (
        f"grep '{mark}' /run/story.log | sed -n '{step}p'; [ ! -e /run/story.end ] || cat /run/story.log /run/story.end"
    )
    printed = stage.cluster.master.Shell(f"{wait}; {look}", seconds=600)
    # What is lost after the end interrupts nothing, and the story would end well whatever becomes of interrupted jobs.
    assert printed.strip() and "ENDED" not in printed, (
        f"gnt-{words} ended before anything was lost at its line {step}:\n{printed}"
    )
    stage.say(f"         line {step} of gnt-{words}: {printed.strip()}")
    repair = strike()
    if stage.cluster.master.machine.running:
        # What the job itself makes of it while the node is away.
        _WaitForJobs(stage)
    repair()
    _WaitForJobs(stage)
    return _Trouble(stage, name)


def _WaitForJobs(stage: Stage) -> None:
    end = time.monotonic() + _JOBS_SECONDS
    while True:
        done = stage.cluster.Gnt("job", "list", "--no-headers", "--running", check=False)
        # A master daemon that was killed does not answer, and has no jobs.
        if done.status or not done.stdout.strip():
            return
        assert time.monotonic() < end, f"a job does not end: {done.stdout}"
        time.sleep(1)


def _Trouble(stage: Stage, name: str) -> str:
    """Return what the last migration or replacement of the instance said when it failed: its error, and hints in its log."""
    fields = "--no-headers", "--separator=|", "-o", "status,id,summary,opresult"
    lines = stage.cluster.Gnt("job", "list", *fields).stdout.splitlines()
    jobs = [line.split("|", 3) for line in lines if f"({name})" in line and re.search("MIGRATE|REPLACE_DISKS", line)]
    if not jobs or jobs[-1][0] == "success":
        return ""
    _, job, _, result = jobs[-1]
    hints = re.findall(r"Hint: (.*)", stage.cluster.Gnt("job", "info", job).stdout)
    said = "\n".join([result, *hints])
    stage.say(f"         the job said: {said}")
    return said


def _RunThere(stage: Stage, name: str, said: str) -> None:
    """Run on a node the commands in what was said that end devices and remove volumes."""
    node = next(node for node in stage.cluster.nodes if node.name == name)
    for command, what in re.findall(r"'(drbdsetup down|lvremove) (\S+)'", said):
        # Nobody can be asked.
        node.Run(*command.split(), *(["-q", "-f"] if command == "lvremove" else []), what)
        stage.say(f"         as it said: {command} {what} on {name}")


def _DoAsTold(stage: Stage, name: str, said: str, command: str = "") -> None:
    """Do what a failed job says, and what the commands say that it names, until one of them helps.

    ``command``: the one that was interrupted, where it is to be repeated if nothing else is said.
    """
    for _ in range(_ROUNDS):
        told = [verb.strip() for verb in re.findall(rf"'gnt-instance ({_ADVISED}) {name}'", said)]
        if command and (not told or re.search("repeat the command|try again", said)):
            told.append(command)
        if not said or not told:
            break
        if found := re.search(r"Node (\S+) has volumes of instance", said):
            _RunThere(stage, found.group(1), said)
        for verb in dict.fromkeys(told):
            # Without a terminal nobody can be asked.
            force = ["-f"] if verb.startswith("migrate") else []
            done = stage.cluster.Gnt("instance", *verb.split(), *force, name, check=False)
            said = f"{done.stdout}{done.stderr}" if done.status else ""
            stage.say(f"         as it said: gnt-instance {verb} {name}: {said or 'done'}")
    assert not said, f"what was said did not help: {said}"


def _Start(stage: Stage, name: str) -> None:
    """Set up both sides, and start the guest if its machine or its process was lost."""
    stage.Gnt("instance", "activate-disks", name)
    if "running" not in stage.Gnt("instance", "list", "--no-headers", "-o", "status", name):
        stage.Gnt("instance", "startup", name)


# --- migration ------------------------------------------------------------------------------------------------------------


def _Migration(stage: Stage, strikes: Sequence[Strike], step: int, side: int) -> None:
    """Strike the node that the guest leaves (``side`` 0) or the other one at a step of a migration, one migration each."""
    with stage.Instance("drbd", *Pair(stage)) as name, Writer(stage.cluster, name) as writer:
        for strike in strikes:
            WaitForSync(stage, name)
            writer.WaitFor()
            source = stage.Primary(name)
            victim = (source, stage.Other(source))[side]
            argv = ["instance", "migrate", "-f", name]
            said = _Interrupt(stage, argv, " [*] ", step, partial(strike, stage, victim, name, writer))
            _DoAsTold(stage, name, said, "migrate")
            _Start(stage, name)
            WaitForSync(stage, name)
            CheckOnePrimary(stage, name)
            writer.WaitFor()
            # Both sides have every write, whichever the guest is on now.
            primary = stage.Primary(name)
            stage.CheckWrites(writer, primary)
        MoveAndCheck(stage, name, stage.Other(primary))
        stage.CheckWrites(writer, stage.Other(primary))


def _SomeStep(stage: Stage) -> tuple[int, int]:
    return stage.random.randint(1, STEPS_OF_MIGRATION), stage.random.choice(_SIDES)


def interrupted_migration_without_master(stage: Stage) -> None:
    """The master daemon is killed at a step of a migration."""
    _Migration(stage, [KillMaster], *_SomeStep(stage))


def interrupted_migration_without_noded(stage: Stage) -> None:
    """The node daemon of either node is killed at a step of a migration."""
    _Migration(stage, [KillNoded], *_SomeStep(stage))


def interrupted_migration_without_guest(stage: Stage) -> None:
    """The guest's process on either node ends at a step of a migration."""
    _Migration(stage, [EndGuest], *_SomeStep(stage))


def interrupted_migration_without_power(stage: Stage) -> None:
    """Either node loses its power at a step of a migration, and comes back."""
    _Migration(stage, [CutPower], *_SomeStep(stage))


def interrupted_migration_everywhere(stage: Stage) -> None:
    """At each step of a migration each node loses something, one thing after the other in turn."""
    for step, side in _Places(stage, range(1, STEPS_OF_MIGRATION + 1), _SIDES):
        _Migration(stage, _AtPlace(stage, _ON_MIGRATION, step, side), step, side)


# --- replacement of a side's volumes --------------------------------------------------------------------------------------


def _RemoveUnknown(stage: Stage) -> None:
    """Remove the devices and volumes that an interrupted replacement left, with the commands that gnt-cluster verify prints."""
    findings = stage.Verify()
    # Devices first: they hold the volumes.
    for what in (r"DRBD minor \d+ is in use, but belongs to no disk", r"volume \S+ is unknown"):
        for line in findings:
            if found := re.search(rf"node (\S+): {what}", line):
                _RunThere(stage, found.group(1), line)


def _Replacement(stage: Stage, strikes: Sequence[Strike], step: int, side: int, where: str) -> None:
    """Strike a node at a step of a replacement, one replacement each.

    ``side``: 0 for the primary node, which is the master, 1 for the secondary one, 2 for the new one of a replacement with ``-n``.
    """
    primary, *others = stage.cluster.nodes
    with stage.Instance("drbd", primary, others[0]) as name:
        with Writer(stage.cluster, name) as writer:
            for strike in strikes:
                WaitForSync(stage, name)
                writer.WaitFor()
                if stage.Primary(name) is not primary:
                    MoveAndCheck(stage, name, primary)
                    stage.CheckWrites(writer, primary)
                nodes, options = [primary, _Secondary(stage, name, primary)], [where]
                if where == "-n":
                    nodes.append(next(node for node in others if node is not nodes[1]))
                    options.append(nodes[2].name)
                argv = ["instance", "replace-disks", *options, name]
                said = _Interrupt(stage, argv, "STEP", step, partial(strike, stage, nodes[side], name, writer))
                _DoAsTold(stage, name, said, " ".join(argv[1:-1]))
                _Start(stage, name)
                CheckOnePrimary(stage, name)
                writer.WaitFor()
                _RemoveUnknown(stage)
                MoveAndCheck(stage, name, nodes[-1])
        stage.CheckWrites(writer, nodes[-1])


def _Secondary(stage: Stage, name: str, primary: Node) -> Node:
    return next(node for node, _ in Minors(stage, name) if node is not primary)


def _Replace(stage: Stage, strike: Strike, side: int) -> None:
    step = stage.random.randint(1, STEPS_OF_REPLACEMENT)
    _Replacement(stage, [strike], step, side, stage.random.choice(["-p", "-s"]))


def interrupted_replace_without_master(stage: Stage) -> None:
    """The master daemon is killed at a step of replace-disks."""
    _Replace(stage, KillMaster, 0)


def interrupted_replace_without_noded(stage: Stage) -> None:
    """The node daemon of either node is killed at a step of replace-disks."""
    _Replace(stage, KillNoded, stage.random.choice(_SIDES))


def interrupted_replace_without_primary(stage: Stage) -> None:
    """The primary, which is the master, loses its power at a step of replace-disks, and comes back."""
    _Replace(stage, CutPower, 0)


def interrupted_replace_without_secondary(stage: Stage) -> None:
    """The secondary loses its power at a step of replace-disks, and comes back."""
    _Replace(stage, CutPower, 1)


def interrupted_replace_everywhere(stage: Stage) -> None:
    """At each step of replace-disks, of either side, each node loses something, one thing after the other in turn."""
    for step, replaced, side in _Places(stage, range(1, STEPS_OF_REPLACEMENT + 1), _SIDES, _SIDES):
        strikes = _AtPlace(stage, _ON_REPLACEMENT, step, replaced, side)
        _Replacement(stage, strikes, step, side, ("-p", "-s")[replaced])


@Needs(3)
def interrupted_new_secondary(stage: Stage) -> None:
    """One of the three nodes loses something at a step of a mirror's way to another node."""
    step, side = stage.random.randint(1, STEPS_OF_REPLACEMENT), stage.random.choice(_THREE)
    _Replacement(stage, [stage.random.choice(_ON_REPLACEMENT)], step, side, "-n")


@Needs(3)
def interrupted_new_secondary_everywhere(stage: Stage) -> None:
    """At each step of a mirror's way to another node each of the three loses something, one thing after the other in turn."""
    for step, side in _Places(stage, range(1, STEPS_OF_REPLACEMENT + 1), _THREE):
        _Replacement(stage, _AtPlace(stage, _ON_REPLACEMENT, step, side), step, side, "-n")
