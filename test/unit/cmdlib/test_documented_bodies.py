"""The documented bodies of requests are ones that the master takes."""

from __future__ import annotations

import json
from collections.abc import Callable

from support.master import Master
from support.rapicalls import Act, Find, JobMethods

from ganeti import mcpu, opcodes
from ganeti.cmdlib import LU_MAPPING


def test_no_documented_body_is_refused_for_what_it_says(make: Callable[..., Master]) -> None:
    context = make(1).context
    for path, verb in JobMethods():
        example = Find(path).methods[verb].example
        if example is not None:
            _, sent = Act(path, verb, example)
            op = opcodes.OpCode.FromDict(json.loads(json.dumps(sent.ops[0])))
            LU_MAPPING[op.OP_ID](mcpu.Processor(context, 1, LU_MAPPING), op, context)
