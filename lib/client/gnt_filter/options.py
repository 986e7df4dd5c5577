"""What a filter rule consists of: options of gnt-filter add and replace."""

from __future__ import annotations

from ganeti import constants, errors, runtime
from ganeti.cli import jobs, output
from ganeti.cli.parser import Options, Value

PRIORITY = Value(
    "--priority", dest="priority", type="int", default=0, metavar="NUMBER",
    text="Place among the rules: those with lower numbers are tried first",
)  # fmt: skip
PREDICATES = Value(
    "--predicates", dest="predicates", type="json", default=[], metavar="JSON",
    text="What a job must be like; without predicates the rule applies to every job", grammar="predicates",
)  # fmt: skip
ACTION = Value(
    "--action", dest="action", type="filteraction", default="CONTINUE", metavar="ACTION",
    text="What happens to a job to which the rule applies", grammar="filter-action",
)  # fmt: skip
SET_RULE = (PRIORITY, PREDICATES, ACTION)


def Write(options: Options, uuid: str | None) -> int:
    """Store a rule, with ``uuid`` instead of the one that has it; print its UUID."""
    if options.priority < 0:
        raise errors.OpPrereqError(
            f"'{options.priority}' is not a valid priority of a filter rule: 0 or more is allowed", errors.ECODE_INVAL
        )
    reason = [[jobs.REASON_USER, options.reason, int(runtime.Time() * 1e9)]] if options.reason else []
    stored = jobs.GetClient().ReplaceFilter(uuid, options.priority, options.predicates, options.action, reason)
    output.ToStdout(stored)
    return constants.EXIT_SUCCESS
