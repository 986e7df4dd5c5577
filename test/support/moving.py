"""Units that submit jobs: runs those jobs, too."""

from __future__ import annotations

from typing import Any

from ganeti import opcodes, serializer
from ganeti.htools import answer
from ganeti.htools.choosing.allocate import Rules
from ganeti.htools.sources import loading, request
from support.asking import Played
from support.master import Callbacks, Master


def Hail() -> Played:
    """The program hail, without its process."""

    def decide(message: dict[str, Any]) -> str:
        asked = request.Parse(serializer.Dump(message))
        try:
            reply: Any = answer.Reply(loading.Build(asked.raw, loading.Wishes()), asked.request, Rules())
        except answer.Impossible as err:
            reply = err
        return answer.Dump(reply)

    return Played(decide)


def RunWithJobs(master: Master, op: opcodes.OpCode) -> list[list[opcodes.OpCode]]:
    """Run an opcode, then the jobs that it submits and those that they submit, in order; return these jobs."""
    callbacks = Callbacks()
    master.Run(op, callbacks)
    done: list[list[opcodes.OpCode]] = []
    waiting = list(callbacks.jobs)
    while waiting:
        job = waiting.pop(0)
        done.append(job)
        for part in job:
            of_job = Callbacks()
            master.Run(part, of_job)
            waiting += of_job.jobs
    return done


def Ids(jobs: list[list[opcodes.OpCode]]) -> list[list[str]]:
    return [[op.OP_ID.removeprefix("OP_INSTANCE_") for op in job] for job in jobs]
