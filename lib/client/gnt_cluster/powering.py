"""What ``gnt-cluster epo`` does to nodes: asks them and their controllers, and has them switched on and off.

A master daemon without a majority of its candidates takes in no job and ends none.  So a job that switches off too many of
them cannot be seen to end, and where they are off, enough of them are switched on from here, before there can be a job.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from ganeti import constants, errors, runtime
from ganeti.cli import jobs, output
from ganeti.cli.parser import Options
from ganeti.opcodes import OpOobCommand
from ganeti.rpc.resolver import NodedPort
from ganeti.utils import oob, parallel
from ganeti.utils.text import NiceSort

_PING_TIMEOUT = 1.0
# Seconds between looks at nodes that do not answer, and until they are given up.
LOOK_EVERY = 2.0
BOOT_TIME = 15 * 60.0
# Controllers that are asked at the same time.
_ASKED_AT_ONCE = 16
_MINUTE = 60.0
# How long the master daemon may need to notice that candidates are back.
_RECOVERY_TIME = 90.0
_FINISHED = frozenset(constants.JOBS_FINALIZED)


class Node(NamedTuple):
    """What is recorded of a node; ``powered`` is None without an out-of-band program."""

    name: str
    address: str
    group: str
    is_master: bool
    candidate: bool
    offline: bool
    powered: bool | None
    program: str


class State(NamedTuple):
    """What the controller of a node says: whether it is on, or why that is not known."""

    powered: bool | None
    problem: str = ""


def Answers(node: Node) -> bool:
    """Return whether the node daemon accepts a connection."""
    try:
        runtime.ConnectTcp(node.address, NodedPort(), timeout=_PING_TIMEOUT).close()
    except OSError:
        return False
    return True


def Answering(nodes: Sequence[Node]) -> set[str]:
    """Return the names of the nodes that answer."""
    return {node.name for node, answers in parallel.Each(nodes, Answers) if answers}


def EnoughVoters(every: Collection[Node], without: Collection[Node] = ()) -> bool:
    """Return whether enough master candidates answer for a job, if those in ``without`` did not."""
    candidates = [node for node in every if node.candidate and node not in without]
    others = [node for node in candidates if not node.is_master]
    return len(candidates) - len(others) + len(Answering(others)) >= Majority(every)


def Ask(nodes: Sequence[Node], options: Options) -> dict[str, State]:
    """Run the programs of the nodes from here, without a job, for the states of their machines."""

    def ask(node: Node) -> State:
        try:
            answer = oob.Run(node.program, oob.POWER_STATUS, node.name, options.oob_timeout)
        except errors.OpExecError as err:
            return State(None, str(err))
        problem = oob.AnswerProblem(oob.POWER_STATUS, answer)
        if problem:
            return State(None, f"'{oob.CommandLine(node.program, oob.POWER_STATUS, node.name)}': {problem}")
        return State(answer["powered"])

    return {node.name: state for node, state in parallel.Each(nodes, ask, at_once=_ASKED_AT_ONCE)}


def Wait(done: Callable[[], bool], seconds: float) -> bool:
    """Look until ``done`` or the time is over; the last look is at the end."""
    deadline = runtime.Monotonic() + seconds
    while not done():
        if runtime.Monotonic() >= deadline:
            return False
        runtime.Sleep(LOOK_EVERY)
    return True


# --- jobs ---------------------------------------------------------------------------------------------------------------


def _Command(nodes: Sequence[Node], command: str, options: Options) -> OpOobCommand:
    op = OpOobCommand(
        node_names=[node.name for node in nodes],
        command=command,
        ignore_status=True,
        timeout=options.oob_timeout,
        power_delay=options.power_delay,
    )
    jobs.SetGenericFields([op], options)
    return op


def _Problems(entries: Sequence[Any]) -> int:
    failed = [name for (_, name), (status, _) in entries if status != constants.RS_NORMAL]
    for name in failed:
        output.ToStderr(f"There was a problem changing power for {name}, please investigate")
    return len(failed)


def SwitchOff(nodes: Sequence[Node], every: Sequence[Node], options: Options, feedback: jobs.Feedback) -> bool:
    """Switch nodes off; return whether all are, as their controllers say."""
    client = jobs.GetClient()
    job_id = client.SubmitJob([_Command(nodes, oob.POWER_OFF, options)])
    output.ToStdoutAndFlush(f"Submitted job {job_id}, which switches the nodes off")
    if not _EndedOrCutOff(job_id, nodes, every, options, feedback):
        return False
    [[status]] = client.QueryJobs([job_id], ["status"])
    if status in _FINISHED:
        problems = _Problems(jobs.PollJob(job_id, client, _Silent())[0])
        return _AllOff(nodes, options) and not problems
    output.ToStdout(
        f"All these nodes are off.  Too few master candidates are left to record the end of job {job_id}; it ends when they"
        " are back."
    )
    return True


def _AllOff(nodes: Sequence[Node], options: Options) -> bool:
    """Wait until the controllers say that the nodes are off; name those of which they do not.

    A machine may need a while after its controller accepted the command.
    """
    states: dict[str, State] = {}

    def off() -> bool:
        left = [node for node in nodes if states.get(node.name, State(None)).powered is not False]
        states.update(Ask(left, options))
        return all(state.powered is False for state in states.values())

    return Wait(off, options.oob_timeout) or _NameOn(states)


def _NameOn(states: Mapping[str, State]) -> bool:
    for name, state in states.items():
        if state.powered:
            output.ToStderr(f"Node {name} is still on, as its controller says; switch it off by hand")
        elif state.powered is None:
            output.ToStderr(f"Whether node {name} is off is not known: {state.problem}")
    return False


class _Silent(jobs.Feedback):
    """The log was printed already."""

    def Log(self, timestamp: Sequence[int], kind: str, message: Any) -> None:
        del timestamp, kind, message


def _EndedOrCutOff(
    job_id: int, nodes: Sequence[Node], every: Sequence[Node], options: Options, feedback: jobs.Feedback
) -> bool:
    """Follow a job until it ends, or cannot record its end and all nodes are off; return False if neither happens in time."""
    client = jobs.GetClient()
    info, serial = None, None
    deadline: float | None = None
    quiet_since = runtime.Monotonic()
    while True:
        answer = client.WaitForJobChangeOnce(job_id, ["status"], info, serial, timeout=LOOK_EVERY)
        feedback.Polled()
        if answer is None:
            raise errors.JobLost(f"Job with id {job_id} lost")
        values, log = (info or [None], []) if answer == "nochange" else answer
        for number, timestamp, kind, message in log:
            feedback.Log(timestamp, kind, message)
            serial = max(number, serial or 0)
        feedback.Flush()
        info = list(values)
        if log:
            continue
        if info[0] in _FINISHED:
            return True
        if info[0] != constants.JOB_STATUS_RUNNING:
            if runtime.Monotonic() >= quiet_since + _MINUTE:
                quiet_since = runtime.Monotonic()
                feedback.Waiting(job_id, info[0])
            continue
        deadline = deadline or runtime.Monotonic() + len(nodes) * options.oob_timeout + BOOT_TIME / 10
        states: dict[str, State] = {}
        if not Answering(nodes) and not EnoughVoters(every):
            states = Ask(nodes, options)
            if all(state.powered is False for state in states.values()):
                return True
        if runtime.Monotonic() >= deadline:
            output.ToStderr(f"Job {job_id} does not end; 'gnt-job info {job_id}' shows how far it is")
            return _NameOn(states or Ask(nodes, options))


def SwitchOn(nodes: Sequence[Node], options: Options) -> bool:
    """Switch nodes on; return whether their programs reported no problem."""
    client = jobs.GetClient()
    op = _Command(nodes, oob.POWER_ON, options)
    deadline = runtime.Monotonic() + _RECOVERY_TIME
    while True:
        try:
            job_id = client.SubmitJob([op])
            break
        except (errors.OpPrereqError, errors.LuxiError):
            raise
        except errors.GenericError:
            # Candidates that answer again are noticed a little later.
            if runtime.Monotonic() >= deadline:
                raise
            runtime.Sleep(LOOK_EVERY)
    return not _Problems(jobs.PollJob(job_id, client)[0])


# --- a majority of the candidates ---------------------------------------------------------------------------------------


def Majority(nodes: Collection[Node]) -> int:
    """Return how many master candidates must answer before there can be a job."""
    return sum(1 for node in nodes if node.candidate) // 2 + 1


def RaiseMajority(every: Sequence[Node], allowed: Sequence[Node], options: Options) -> bool:
    """Switch candidates among ``allowed`` on without a job, if too few answer; return whether enough do in the end."""
    candidates = [node for node in every if node.candidate]
    needed = Majority(every)

    if EnoughVoters(every):
        return True
    answering = Answering(candidates)
    asleep = [node for node in candidates if node in allowed and node.program and node.name not in answering]
    output.ToStdout(f"Too few of the {len(candidates)} master candidates answer for a job; switching some on from here")
    for node in asleep:
        output.ToStdoutAndFlush(f"Running '{oob.CommandLine(node.program, oob.POWER_ON, node.name)}'")
        try:
            oob.Run(node.program, oob.POWER_ON, node.name, options.oob_timeout)
        except errors.OpExecError as err:
            output.ToStderr(str(err))
        runtime.Sleep(options.power_delay)
    said = runtime.Monotonic()

    def enough() -> bool:
        nonlocal said
        if EnoughVoters(every):
            return True
        if runtime.Monotonic() >= said + _MINUTE:
            said = runtime.Monotonic()
            silent = {node.name for node in candidates} - Answering(candidates)
            output.ToStdoutAndFlush(f"Still waiting for master candidates: {', '.join(NiceSort(silent))}")
        return False

    if Wait(enough, BOOT_TIME):
        return True
    silent = NiceSort({node.name for node in candidates} - Answering(candidates))
    output.ToStderr(
        f"{needed} of {len(candidates)} master candidates must answer before there can be a job; these do not:"
        f" {', '.join(silent)}.  Switch them on by hand, then run the command again."
    )
    return False
