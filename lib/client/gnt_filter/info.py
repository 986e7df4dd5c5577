"""gnt-filter info."""

from __future__ import annotations

from ganeti import constants
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Options
from ganeti.client.shared.rows import QueryRows, WarnLeftOut

_TITLES = {
    "watermark": "Watermark",
    "priority": "Priority",
    "predicates": "Predicates",
    "action": "Action",
    "reason_trail": "Reason trail",
}


def Run(options: Options, arguments: list[str]) -> int:
    wanted = ["|", *(["==", "uuid", uuid] for uuid in arguments)] if arguments else None
    rows = QueryRows(jobs.GetClient(), "filter", ("uuid", *_TITLES), wanted)
    WarnLeftOut("filter", arguments, [row["uuid"] for row in rows])
    if options.output:
        output.PrintJson(rows)
        return constants.EXIT_SUCCESS
    for row in rows:
        output.ToStdout(output.WithoutControls(f"UUID: {row['uuid']}"))
        for name, title in _TITLES.items():
            output.ToStdout(output.WithoutControls(f"  {title}: {row[name]}"))
    return constants.EXIT_SUCCESS


COMMAND = Command(Run, "Show rules", (AnyNumber("filter"),), (o.OUTPUT_FORMAT,))
