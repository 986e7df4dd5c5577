"""gnt-instance list."""

from ganeti.cli import lists, tables

_JOINED = (
    "tags",
    "disk.sizes",
    "nic.macs",
    "nic.ips",
    "nic.modes",
    "nic.links",
    "nic.bridges",
    "nic.networks",
    "snodes",
    "snodes.group",
    "snodes.group.uuid",
)

KIND = lists.ListKind(
    "instance",
    ("name", "hypervisor", "os", "pnode", "status", "oper_ram"),
    formatters=dict.fromkeys(_JOINED, tables.JoinList),
)

COMMAND = lists.ListCommand(KIND, "List instances", "instance")
