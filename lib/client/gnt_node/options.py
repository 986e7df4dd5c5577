"""Options of several commands of gnt-node."""

from __future__ import annotations

from ganeti.cli.parser import Flag, Value

MASTER_CAPABLE = Value(
    "--master-capable", dest="master_capable", type="bool",
    text="Whether the node may become a master candidate or the master",
)  # fmt: skip
VM_CAPABLE = Value("--vm-capable", dest="vm_capable", type="bool", text="Whether the node may run instances")
AUTO_PROMOTE = Flag(
    "--auto-promote", dest="auto_promote", text="Promote other nodes if there are too few master candidates otherwise"
)
