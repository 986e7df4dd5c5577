"""Taking over and handing back, step by step.

Each step can be done and undone more than once.  The journal has what is done and what has begun, so that a run that was cut
off anywhere is continued, or taken back, by the next one.  A step that fails before the master daemon of this release has
served is taken back at once, with all before it; later ones are reported.

On the way back a node that fails, or is lost, is left behind and named: it must not keep the others without a master.  It is given
back by a later run, as a node that was offline is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from ganeti import errors, pathutils, runtime, serializer
from ganeti.tools import hand_back
from ganeti.tools.adopt import plan, records, release, remote

# REVERTED: the cluster runs the original, but for nodes that were offline or were left behind.
TAKING_OVER, ADOPTED, REVERTING, REVERTED = "taking over", "adopted", "reverting", "reverted"
# After the master daemon has stopped: the node daemons write the last changes to the files.
_LAST_FILES = 2.0
# While it runs: seconds within which the files show the last change.
_FILES_WITHIN = 30.0
_POLL = 0.5

Say = Callable[[str], None]
Config = Callable[[], Mapping[str, Any]]


class Journal:
    """What is done, on the master's disk before the next thing begins.

    ``state``; ``done``: names of finished steps in order; ``current``: the one that has begun; ``nodes``: names of the nodes
    that belong to this release; ``prefix`` of the original; ``drained``: whether the queue was before; ``found``: what steps
    have to remember; ``left``: nodes that were left behind while going back, each with the reason.
    """

    def __init__(self, data: Mapping[str, Any]):
        self.state: str = data["state"]
        self.prefix: str = data["prefix"]
        self.nodes: list[str] = list(data["nodes"])
        self.done: list[str] = list(data.get("done", ()))
        self.current: str | None = data.get("current")
        self.drained: bool = data.get("drained", False)
        self.found: dict[str, Any] = dict(data.get("found", {}))
        self.left: dict[str, str] = dict(data.get("left", {}))

    @staticmethod
    def Read() -> Journal | None:
        data = records.ReadJson(pathutils.ADOPTION_JOURNAL)
        try:
            return None if data is None else Journal(data)
        except (LookupError, TypeError) as err:
            raise errors.ConfigurationError(f"{pathutils.ADOPTION_JOURNAL} is damaged: {err!r}") from err

    def Save(self) -> None:
        runtime.WriteFile(pathutils.ADOPTION_JOURNAL, serializer.Dump(vars(self)), 0o600)


class Work:
    """What the steps work on.  ``nodes``: those that are online, this one too; ``wait``: seconds to wait for jobs.

    ``config`` reads config.data.  Nodes that were left behind are none of the nodes.
    """

    def __init__(self, journal: Journal, nodes: Sequence[remote.Node], wait: float, say: Say, config: Config):
        self.journal = journal
        self._nodes = list(nodes)
        self.wait = wait
        self.say = say
        self.config = config
        self.original = release.Original(journal.prefix)

    @property
    def nodes(self) -> list[remote.Node]:
        return [node for node in self._nodes if node.name not in self.journal.left]

    @property
    def own(self) -> list[remote.Node]:
        return [node for node in self.nodes if node.own]

    @property
    def others(self) -> list[remote.Node]:
        return [node for node in self.nodes if not node.own]

    def Do(self, nodes: Sequence[remote.Node], *steps: str) -> dict[str, Any]:
        """Do these steps on all nodes at once and return what they answered; OpExecError with all reasons if any failed."""
        return remote.Do(nodes, *steps, **self._Arguments())

    def DoBack(self, nodes: Sequence[remote.Node], *steps: str) -> dict[str, Any]:
        """Do the same while going back, and leave other nodes behind that fail; OpExecError if this one fails."""
        values, failures = remote.Ask(nodes, *steps, **self._Arguments())
        for node in nodes:
            why = failures.get(node.name)
            if why is not None and node.own:
                raise errors.OpExecError(f"{node.name}: {why}")
            if why is not None:
                self.say(f"  {node.name} is left behind: {why}")
                self.journal.left[node.name] = why
                self.SaveIfPossible()
        return values

    def _Arguments(self) -> dict[str, Any]:
        return {"original": self.journal.prefix, "drained": self.journal.drained}

    def SaveIfPossible(self) -> None:
        """Save the journal while going back: a full disk must not keep the cluster without a master.

        Each step may be undone again, so an older journal leads ``--revert`` to the same end.
        """
        try:
            self.journal.Save()
        except OSError as err:
            self.say(f"  {pathutils.ADOPTION_JOURNAL} could not be written: {err.strerror}")

    def StopJobs(self, side: release.Release) -> None:
        """Let no job begin, and wait until those that have been submitted are finished."""
        side.Command("gnt-cluster", "queue", "drain")
        deadline = runtime.Monotonic() + self.wait
        told: list[str] = []
        while jobs := side.LiveJobs():
            if runtime.Monotonic() > deadline:
                raise errors.OpExecError(
                    f"Jobs {', '.join(jobs)} have not ended within {self.wait:g} seconds",
                    hint="wait for them with 'gnt-job watch ID', or give more time with --wait",
                )
            if jobs != told:
                self.say(f"  waiting for jobs {', '.join(jobs)}")
                told = jobs
            runtime.Sleep(_POLL)

    def AllowJobs(self, side: release.Release) -> None:
        if not self.journal.drained:
            side.Command("gnt-cluster", "queue", "undrain")


# --- steps --------------------------------------------------------------------------------------------------------------


class Step:
    """``text``: what it does; ``downtime``: what is not available meanwhile; ``seconds`` that it usually takes.

    ``wears_off``: until the original has stopped, time or people may undo it; a run that continues does it ``Again``.
    """

    name = ""
    text = ""
    downtime = ""
    seconds = ""
    wears_off = False

    def Do(self, work: Work) -> None:
        raise NotImplementedError

    def Again(self, work: Work) -> None:
        """Do it anew; the exchange may have begun."""
        self.Do(work)

    def Undo(self, work: Work) -> None:
        """Make undone what ``Do`` did, or a part of it."""
        raise NotImplementedError


class Record(Step):
    name = "record"
    text = "record owners, modes and what the machines start"
    seconds = "1"

    def Do(self, work: Work) -> None:
        work.Do(work.nodes, "record")

    def Undo(self, work: Work) -> None:
        work.DoBack(work.nodes, "forget")


class Drain(Step):
    name = "drain"
    text = "let no further job start, wait for those that run"
    downtime = "no new jobs"
    seconds = "as long as the jobs"
    wears_off = True

    def Do(self, work: Work) -> None:
        drained = runtime.Exists(pathutils.JOB_QUEUE_DRAIN_FILE)
        if "drain begun" not in work.journal.found:
            work.journal.drained = drained
            work.journal.found["drain begun"] = True
            work.journal.Save()
        elif work.journal.drained and not drained:
            work.journal.drained = False  # people have undrained it since
            work.journal.Save()
        work.StopJobs(work.original)

    def Again(self, work: Work) -> None:
        if _HasBegun(work.journal, Exchange) and not _Answers(work.original):
            work.say("  the original's master has stopped: no job can start")
        else:
            self.Do(work)

    def Undo(self, work: Work) -> None:
        work.AllowJobs(work.original)


class Pause(Step):
    name = "pause"
    text = "pause the watchers, wait for those at work"
    downtime = "no new jobs, no watcher"
    seconds = "1"
    wears_off = True

    def Do(self, work: Work) -> None:
        _SayNotes(work, work.Do(work.nodes, "pause"))
        work.journal.found["instances"] = work.original.Instances()
        work.journal.found["guests"] = work.Do(work.nodes, "guests")

    def Again(self, work: Work) -> None:
        if _HasBegun(work.journal, Exchange):
            # What is to be compared with is what was found when all nodes had the original.
            _SayNotes(work, work.Do(work.nodes, "pause"))
        else:
            self.Do(work)

    def Undo(self, work: Work) -> None:
        work.DoBack(work.nodes, "unpause")


def _SayNotes(work: Work, notes: Mapping[str, Sequence[str]]) -> None:
    for name, lines in notes.items():
        for line in lines:
            work.say(f"  {name}: {line}")


class Exchange(Step):
    """One run of the program on each node, as each is time without master.  The master's daemons end first: they call others."""

    name = "exchange"
    text = "stop the original; copy DATA aside, correct owners, switch what the machines start; start the node daemons"
    downtime = "no master, no node daemons"
    seconds = "3 to 10"

    def Do(self, work: Work) -> None:
        work.Do(work.own, "stop-original")
        work.Do(work.nodes, "stop-original", "switch", "start")

    def Undo(self, work: Work) -> None:
        removed = [line for lines in work.DoBack(work.own, "hand-back").values() for line in lines]
        work.DoBack(work.others, "hand-back", "switch-back", "start-original")
        work.DoBack(work.own, "switch-back", "start-original")
        for line in removed:
            work.say(f"  {line}")


class StartMaster(Step):
    name = "start master"
    text = "start the master daemon, which takes configuration and jobs over"
    downtime = "no master until it ends"
    seconds = "2 to 10"

    def Do(self, work: Work) -> None:
        work.Do(work.own, "start-master")

    def Undo(self, work: Work) -> None:
        with _QueueGivenBack(work):
            _Judge(work, _Answers(release.OURS))
        work.DoBack(work.own, "stop-master")
        runtime.Sleep(_LAST_FILES)


class StartRest(Step):
    name = "start rest"
    text = "start confd and the remote interface"
    downtime = "no new jobs, no confd, no remote interface"
    seconds = "1 to 3"

    def Do(self, work: Work) -> None:
        work.Do(work.nodes, "start-rest")

    def Undo(self, work: Work) -> None:
        """They end with the node daemons."""


class Compare(Step):
    """Looks only: what has changed is for people to judge."""

    name = "compare"
    text = "compare instances and guests with before"
    downtime = "no new jobs, no watcher"
    seconds = "1 to 5"

    def Do(self, work: Work) -> None:
        found = work.journal.found
        differences = _Differences(found["instances"], release.OURS.Instances())
        guests = work.Do(work.nodes, "guests")
        differences += [
            f"guest {name} on {node} is not the same as before"
            for node, before in found["guests"].items()
            for name, what in before.items()
            if guests.get(node, {}).get(name) != what
        ]
        if differences:
            raise errors.OpExecError(
                "Not everything is as it was: " + "; ".join(differences),
                hint=f"if this is expected, run '{pathutils.ADOPT} --take-over --accept'; '{pathutils.ADOPT} --revert' goes back",
            )

    def Undo(self, work: Work) -> None:
        """Nothing was changed."""


class Release(Step):
    name = "release"
    text = "let jobs and watchers start again"
    seconds = "1"

    def Do(self, work: Work) -> None:
        work.AllowJobs(release.OURS)
        work.Do(work.nodes, "unpause")

    def Undo(self, work: Work) -> None:
        _NoteQueue(work.journal)
        with _QueueGivenBack(work):
            work.StopJobs(release.OURS)
        _SayNotes(work, work.DoBack(work.nodes, "pause"))


STEPS: tuple[Step, ...] = (
    Record(),
    Drain(),
    Pause(),
    Exchange(),
    StartMaster(),
    StartRest(),
    Compare(),
    Release(),
)
# Once this one is done the cluster belongs to this release, and going back is for people to decide.
_DECISIVE = StartMaster.name
_LATER = (
    f"remove the cause, then run '{pathutils.ADOPT} --take-over' again, which continues; '{pathutils.ADOPT} --revert' goes back. A node"
    " that stays away can be left out: 'gnt-cluster queue undrain', then 'gnt-node modify --offline=yes NODE' with its name"
)


def _HasBegun(journal: Journal, step: type[Step]) -> bool:
    return step.name == journal.current or step.name in journal.done


def BeforeExchange(journal: Journal) -> bool:
    """Return whether the exchange is not finished: the original may be at work, and people with it."""
    return Exchange.name not in journal.done


def ExchangeHasBegun(journal: Journal) -> bool:
    return _HasBegun(journal, Exchange)


def HasServed(journal: Journal) -> bool:
    """Return whether this release's master daemon may have been used."""
    return journal.state == ADOPTED or _HasBegun(journal, StartMaster)


def _Answers(side: release.Release) -> bool:
    """Return whether the master of a release is at work."""
    try:
        side.LiveJobs()
    except errors.OpExecError:
        return False
    return True


def _NoteQueue(journal: Journal) -> None:
    """Remember whether people had drained the queue before going back began.

    While it has not been released the mark is also that of the way forward; then people can only have taken it away.
    """
    if "revert begun" not in journal.found:
        marked = runtime.Exists(pathutils.JOB_QUEUE_DRAIN_FILE)
        journal.drained = marked and (journal.drained or journal.state == ADOPTED or Release.name in journal.done)
        journal.found["revert begun"] = True
        journal.Save()


def CheckGivable(work: Work) -> None:
    """Let no job begin, and raise OpPrereqError if the cluster uses what the original does not support; then jobs may run again.

    As long as this release's master can mark it so, a node that does not reply has to be offline.
    """
    answers = work.journal.state == ADOPTED or _Answers(release.OURS)
    silent = remote.Ask(work.nodes, "guests")[1] if answers else {}
    if silent:
        raise errors.OpPrereqError(
            "\n".join(f"Node {name} did not reply: {why}" for name, why in silent.items()),
            errors.ECODE_ENVIRON,
            hint="repair it, or run 'gnt-node modify --offline=yes NODE' with its name, then try again",
        )
    _NoteQueue(work.journal)
    with _QueueGivenBack(work):
        _Judge(work, answers)


def _Judge(work: Work, answers: bool) -> None:
    """Raise OpPrereqError if the cluster uses what the original does not support.

    config.data follows a change of a moment ago: it counts when it shows all that this node's copy of the store holds, and no job
    is left that could change anything.  ``answers``: whether this release's master daemon is there, and may have such jobs.
    """
    if answers:
        work.StopJobs(release.OURS)
    _AwaitFiles()
    used = plan.OnlyHere(work.config())
    if used:
        raise errors.OpPrereqError(
            "The original does not support what the cluster uses:\n" + "\n".join(f"- {line}" for line in used),
            errors.ECODE_STATE,
            hint="give that up first, then run this again",
        )


@contextlib.contextmanager
def _QueueGivenBack(work: Work) -> Iterator[None]:
    """Let jobs start again, as before, whatever ends the block early: people may have lost patience, or their terminal."""
    try:
        yield
    except BaseException:
        journal = work.journal
        if journal.state != REVERTING:
            journal.found.pop("revert begun", None)
        if not journal.drained:
            try:
                work.AllowJobs(release.OURS)
                work.say("  Jobs may start again: the queue is not drained any longer.")
            except (errors.GenericError, OSError) as err:
                work.say(
                    f"  The queue stays drained, as '{pathutils.SBIN_DIR}/gnt-cluster queue undrain' failed: {err}"
                )
        work.SaveIfPossible()
        raise


def _AwaitFiles() -> None:
    deadline = runtime.Monotonic() + _FILES_WITHIN
    while True:
        try:
            hand_back.CheckExact()
            return
        except hand_back.FilesBehind:
            if runtime.Monotonic() > deadline:
                raise
        runtime.Sleep(_POLL)


def _Differences(before: Sequence[Sequence[str]], after: Sequence[Sequence[str]]) -> list[str]:
    old = {row[0]: row[1:] for row in before}
    new = {row[0]: row[1:] for row in after}
    return [
        f"instance {name} was {'/'.join(old.get(name, ['absent']))}, is {'/'.join(new.get(name, ['absent']))}"
        for name in sorted(old.keys() | new.keys())
        if list(old.get(name, ())) != list(new.get(name, ()))
    ]


def Expected() -> list[str]:
    """Return the table of the steps with what they interrupt."""
    lines = ["Steps, what each interrupts, and its usual duration in seconds; instances keep running:"]
    for number, step in enumerate(STEPS, 1):
        lines.append(f"  {number}. {step.text} ({step.downtime or 'nothing'}; {step.seconds})")
    return lines


# --- forward and back -----------------------------------------------------------------------------------------------------


def TakeOver(work: Work, accept: bool = False) -> None:
    """Do what is not done yet; on a failure before the master has served, undo everything and raise the error.

    ``accept``: differences that were found between before and after are expected.
    """
    journal = work.journal
    for step in STEPS:
        again = step.name in journal.done
        if again and not (step.wears_off and BeforeExchange(journal)):
            work.say(f"* {step.text}: done before")
            continue
        if accept and step.name == Compare.name:
            journal.done.append(step.name)
            continue
        work.say(f"* {step.text}")
        began = runtime.Monotonic()
        try:
            if again:
                # Nothing else is noted: a later step may have begun, and would have to be undone.
                step.Again(work)
                journal.Save()
            else:
                _DoFirst(work, step)
        except (errors.GenericError, OSError) as err:
            _HandleFailure(work, step, err)
        work.say(f"  {runtime.Monotonic() - began:.1f} s")
    journal.state = ADOPTED
    try:
        journal.Save()
    except OSError as err:
        raise _NotWritten(err) from err


def _DoFirst(work: Work, step: Step) -> None:
    journal = work.journal
    journal.current = step.name
    journal.Save()
    step.Do(work)
    journal.done.append(step.name)
    journal.current = None
    journal.Save()


def _HandleFailure(work: Work, step: Step, err: errors.GenericError | OSError) -> NoReturn:
    """Raise the error of a step; before the master has served, undo everything first."""
    if _DECISIVE in work.journal.done:
        if isinstance(err, errors.GenericError):
            err.hint = err.hint or _LATER
            raise err
        raise _NotWritten(err) from err
    work.say(f"  failed: {err}")
    work.say("Taking back what was done:")
    Revert(work)
    raise errors.OpExecError(
        f"'{step.text}' failed, and the cluster runs the original again: {err}{Behind(work.journal)}",
        hint=err.hint if isinstance(err, errors.GenericError) else None,
    ) from err


def _NotWritten(err: OSError) -> errors.OpExecError:
    return errors.OpExecError(
        f"The cluster belongs to this release, but {pathutils.ADOPTION_JOURNAL} could not be written: {err.strerror}",
        hint=f"remove the cause, then run '{pathutils.ADOPT} --take-over' again; it continues from here",
    )


def Revert(work: Work) -> None:
    """Undo what is done or has begun, the last one first; the error of a step that fails here names what to do next.

    Other nodes that fail are left behind: they stay in the journal, as those do that are not among the work's.
    """
    journal = work.journal
    journal.state = REVERTING
    work.SaveIfPossible()
    for step in reversed(STEPS):
        if step.name not in journal.done and step.name != journal.current:
            continue
        work.say(f"* back: {step.text}")
        try:
            step.Undo(work)
        except (errors.GenericError, OSError) as err:
            raise errors.OpExecError(
                f"'{step.text}' could not be taken back: {err}",
                hint=f"remove the cause, then run '{pathutils.ADOPT} --revert' again; it continues from here",
            ) from err
        journal.done = [name for name in journal.done if name != step.name]
        journal.current = None
        work.SaveIfPossible()
    done = {node.name for node in work.nodes}
    Keep(journal, [name for name in journal.nodes if name not in done])


def Keep(journal: Journal, names: Sequence[str]) -> None:
    """Remember the nodes that are still to be given back, now that the cluster runs the original; nothing if there are none."""
    if not names:
        records.Remove(pathutils.ADOPTION_JOURNAL)
        return
    journal.state, journal.nodes, journal.left = REVERTED, list(names), {}
    journal.Save()


def Behind(journal: Journal) -> str:
    """Return what is to be done about nodes that were left behind, in a line of its own; nothing if there are none."""
    if journal.state != REVERTED:
        return ""
    return (
        f"\nNodes that still have this release: {', '.join(journal.nodes)}. When they are up again, and before one that is offline"
        f" is marked online, '{pathutils.ADOPT} --revert' gives them back"
    )


def RevertLate(work: Work, online: Sequence[remote.Node], offline: Sequence[remote.Node]) -> None:
    """Give back nodes that were away when the cluster was; nothing is started on those that count as offline.

    One without a record has nothing to give back.
    """
    late = [*online, *offline]
    work.say(f"* giving back {', '.join(node.name for node in late)}")
    prepared = {name for name, report in work.Do(late, "look").items() if report["record"]}
    for nodes, start in ((online, ("start-original", "unpause")), (offline, ())):
        changed = [node for node in nodes if node.name in prepared]
        if changed:
            work.Do(changed, "hand-back-late", "switch-back", *start, "forget")
    names = {node.name for node in late}
    Keep(work.journal, [name for name in work.journal.nodes if name not in names])


def TakeOverLate(work: Work, late: Sequence[remote.Node]) -> None:
    """Take over nodes that were offline when the cluster was taken over; one that fails does not keep the others."""
    failures: list[errors.GenericError] = []
    for node in late:
        work.say(f"* taking over {node.name}")
        try:
            work.Do([node], "record", "pause", "stop-original", "switch", "start", "start-rest", "unpause")
        except errors.GenericError as err:
            work.say(f"  failed: {err}")
            failures.append(err)
            continue
        work.journal.nodes.append(node.name)
        work.journal.Save()
    if failures:
        raise failures[0]
