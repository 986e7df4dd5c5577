"""What commands have in common that send the content of disks to another node."""

from __future__ import annotations

from ganeti import constants, errors
from ganeti.cli.parser import COMPLETE_NODE, Opt, Options, Value

TARGET_NODE = Value(
    "-n", "--node", dest="target_node", metavar="NODE", completion=COMPLETE_NODE, text="Node to move to"
)


def Compression(name: str) -> Opt:
    """Declare the option that names the program which compresses disks on their way."""
    return Value(
        name, dest="compress", default=constants.NO_COMPRESSION, metavar="TOOL",
        text="Compress the data on their way with a tool such as gzip-fast; 'gnt-cluster info' lists the allowed ones",
    )  # fmt: skip


COMPRESS = Compression("--compress")


def CheckTarget(options: Options) -> None:
    """Raise OpPrereqError if no node was given."""
    if not options.target_node:
        raise errors.OpPrereqError("Target node must be specified", errors.ECODE_INVAL, hint="name it with -n NODE")
