"""gnt-node info."""

from __future__ import annotations

from typing import Any

from ganeti import constants
from ganeti.cli import info, jobs
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Options
from ganeti.client.shared.rows import QueryNamed

_FIELDS = (
    "name", "pip", "sip", "master_candidate", "drained", "offline", "master_capable", "vm_capable", "powered", "pinst_list",
    "sinst_list", "ndparams", "custom_ndparams", "hv_state", "disk_state",
)  # fmt: skip
_RECORDED = (("hv_state", "recorded memory and CPUs"), ("disk_state", "recorded disk space"))


def Describe(row: dict[str, Any]) -> info.Pairs:
    tree = info.Pairs(
        [
            ("Node name", row["name"]),
            ("primary ip", row["pip"]),
            ("secondary ip", row["sip"]),
            ("master candidate", row["master_candidate"]),
            ("drained", row["drained"]),
            ("offline", row["offline"]),
        ]
    )
    if row["powered"] is not None:
        tree.append(("powered", row["powered"]))
    tree.append(("master_capable", row["master_capable"]))
    tree.append(("vm_capable", row["vm_capable"]))
    if row["vm_capable"]:
        tree.append(("primary for instances", sorted(row["pinst_list"])))
        tree.append(("secondary for instances", sorted(row["sinst_list"])))
    tree.append(("node parameters", info.WithDefaults(row["custom_ndparams"], row["ndparams"])))
    tree.extend((title, row[name]) for name, title in _RECORDED if row[name] is not None)
    return tree


def Run(options: Options, arguments: list[str]) -> int:
    rows = QueryNamed(jobs.GetClient(), "node", _FIELDS, arguments)
    if options.output:
        info.PrintInfo(rows, as_json=True)
    else:
        info.PrintInfo([Describe(row) for row in rows])
    return constants.EXIT_SUCCESS


COMMAND = Command(Run, "Show the state and the settings of nodes", (AnyNumber("node"),), (o.OUTPUT_FORMAT,))
