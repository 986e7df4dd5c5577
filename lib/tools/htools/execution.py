"""Carrying out a solution: jobs, set by set (doc/reference/htools.md 9)."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from ganeti import constants, errors, runtime
from ganeti.htools.choosing import solution
from ganeti.htools.choosing.balance import Step
from ganeti.htools.options import Values
from ganeti.luxi.client import Client
from ganeti.tools.htools.master import Explain
from ganeti.tools.htools.output import Failed, Streams

_FIRST_DELAY, _LONGEST_DELAY = 0.5, 15.0
BUSY: Final = frozenset(
    [
        constants.JOB_STATUS_QUEUED,
        constants.JOB_STATUS_WAITING,
        constants.JOB_STATUS_CANCELING,
        constants.JOB_STATUS_RUNNING,
    ]
)

Opcode = dict[str, Any]


class Interrupted(Exception):
    """Somebody asked for an end at once."""


class QueueFailed(errors.GenericError):
    """Jobs cannot be submitted or looked at any more."""


class Queue(Protocol):
    """The cluster's job queue, however it is reached; errors are GenericErrors."""

    def Submit(self, jobs: Sequence[Sequence[Opcode]]) -> tuple[list[int], list[str]]:
        """Submit jobs together; return the ids of those that were accepted, and why others were not."""

    def States(self, ids: Sequence[int]) -> list[tuple[int, str | None]]:
        """Return id and status of jobs; the status of a job that does not exist is None."""


class LuxiQueue:
    """The queue of the master daemon on this machine."""

    def __init__(self, client: Client):
        self._client = client

    def Submit(self, jobs: Sequence[Sequence[Opcode]]) -> tuple[list[int], list[str]]:
        answers = self._client.SubmitManyJobs(jobs)
        refused = [str(text) for accepted, text in answers if not accepted]
        return [int(number) for accepted, number in answers if accepted], refused

    def States(self, ids: Sequence[int]) -> list[tuple[int, str | None]]:
        rows = self._client.QueryJobs(ids, ["id", "status"]) if ids else []
        found = {int(row[0]): row[1] for row in rows if row}
        return [(number, found.get(number)) for number in ids]


class Stopper:
    """Takes SIGINT as "after this set" and SIGTERM as "now", as long as a solution is carried out."""

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> Stopper:
        self._previous = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
        signal.signal(signal.SIGINT, self._Later)
        signal.signal(signal.SIGTERM, self._Now)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._previous:
            signal.signal(number, handler)

    def _Later(self, _number: int, _frame: object) -> None:
        self.asked = True

    def _Now(self, _number: int, _frame: object) -> None:
        raise Interrupted


def Annotated(opcodes: Sequence[Opcode], comment: str, source: str, options: Values) -> list[Opcode]:
    """Return opcodes with what every job of ours says: comment, reason, priority."""
    text = ReasonText(source, options)
    priority = options.values.get("priority")
    reason = [[source, text, int(runtime.Time() * 1e9)]]
    return [
        {
            **opcode,
            "comment": comment,
            "reason": reason,
            "priority": 0 if priority is None else priority,
            "depends": None,
        }
        for opcode in opcodes
    ]


def ReasonText(source: str, options: Values) -> str:
    """Return why the jobs of a program are submitted."""
    return options.values.get("reason") or f"{source} {constants.RELEASE_VERSION} called"


def RequireLuxi(program: str, options: Values) -> None:
    """Raise Failed unless the cluster was read over LUXI."""
    if options.luxi is None:
        raise Failed(f"{program}: Execution of commands possible only on LUXI")


class Executor:
    """Submits jobs and waits for them."""

    def __init__(self, queue: Queue, streams: Streams):
        self.queue = queue
        self._streams = streams

    def Run(self, jobs: Sequence[Sequence[Opcode]]) -> None:
        """Submit jobs together and wait for their ends; raises Failed unless all succeed."""
        if not jobs:
            return
        ids, refused = self.queue.Submit(jobs)
        if ids:
            self._streams.Out(f"Got job IDs {','.join(map(str, ids))}")
        bad = [f"job {number}: {state}" for number, state in self.Wait(ids) if state != constants.JOB_STATUS_SUCCESS]
        if bad or refused:
            self._streams.Err(f"Not all jobs completed successfully: {', '.join([*bad, *refused])}")
            raise Failed("Aborting.")

    def Wait(self, ids: Sequence[int]) -> list[tuple[int, str | None]]:
        """Wait until all jobs have ended; return what ``Queue.States`` does."""
        delay = _FIRST_DELAY
        while ids:
            runtime.Sleep(delay)
            delay = min(2 * delay, _LONGEST_DELAY)
            states = self.queue.States(ids)
            if not any(state in BUSY for _, state in states):
                return states
        return []


Job = list[Opcode]


def RunSets(
    executor: Executor, sets: Sequence[Sequence[Job]], annotated: Callable[[Job], Job], streams: Streams
) -> int:
    """Carry out sets of jobs, one after the other; return the exit status.

    ``annotated``: adds to a job what all of ours say.  Nothing is submitted after an interruption.
    """
    begun = 0
    with Stopper() as stopper:
        try:
            for jobs in sets:
                if stopper.asked:
                    streams.Out(f"Stopped as asked: {begun} job sets were submitted, {len(sets) - begun} were not")
                    return 0
                begun += 1
                executor.Run([annotated(job) for job in jobs])
        except Interrupted:
            streams.Err("Ended at once; jobs that were submitted go on, see 'gnt-job list'")
            return 2
        except errors.GenericError as err:
            left = f"; {len(sets) - begun} job sets were not submitted" if begun < len(sets) else ""
            raise Failed(f"{Explain(err)}; jobs that were submitted go on, see 'gnt-job list'{left}") from err
    return 0


def StepOpcodes(step: Step, names: Callable[[int], str]) -> list[Opcode]:
    """Return the opcodes of a step; ``names``: index of a node -> its full name, "" for none."""
    return solution.Opcodes(step.instance, step.move, names(step.move.target))
