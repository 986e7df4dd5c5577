"""gnt-node list-storage: what nodes keep disks in."""

from __future__ import annotations

from ganeti.cli import jobs
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Options, Value
from ganeti.client.gnt_node import storage
from ganeti.opcodes import OpNodeQueryStorage
from ganeti.params import units
from ganeti.params.disk import UnitTypes

_TITLES = {**units.OWN_FIELDS, **units.FIELDS}
_MORE_TITLES = {name: field for kind in units.TYPES.values() for name, field in kind.more.items()}
STORAGE_TYPE = Value(
    "-t", "--storage-type", dest="user_storage_type", choices=list(UnitTypes()),
    text="Type of the storage units; default: that of the cluster's first disk template",
)  # fmt: skip


def Run(options: Options, arguments: list[str]) -> int:
    fields, as_json = storage.Split(options, list(_TITLES))
    op = OpNodeQueryStorage(nodes=arguments, storage_type=options.user_storage_type, output_fields=fields)
    titles = {name: field[:2] for name, field in (_TITLES | _MORE_TITLES).items()}
    return storage.PrintTable(titles, fields, jobs.SubmitOpCode(op, options), options, as_json)


COMMAND = Command(
    Run,
    "List the storage units of nodes: physical volumes, volume groups, directories",
    (AnyNumber("node"),),
    (*o.SET_HEADERS, *o.SET_PRIORITY, o.UNITS, o.OUTPUT, STORAGE_TYPE),
    details=f"Fields are {', '.join(_TITLES)}, and for volume groups missing: the UUIDs of the physical volumes that are away"
    " (on the node, 'pvs -o+pv_uuid' shows them too), returned: the paths of those that are there again but count as missing"
    " until 'vgextend --restoremissing GROUP PATH'.",
)
