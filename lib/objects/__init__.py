"""The objects of the configuration: what ``config.data`` holds, frozen, declared once.

::

    Snapshot ---- cluster                      one
       |--------- nodegroups <-- group -- nodes
       |--------- instances -- primary_node --> nodes
       |               |------ nics[] -- network --> networks
       |               '------ disks[] --> disks -- nodes[] --> nodes
       |--------- disks -- children[]          DRBD: data and metadata
       |--------- networks <-- networks{} -- nodegroups
       '--------- filters                      rules about jobs

An object is read with ``FromDict`` (every value checked), written with ``ToDict`` or ``Json`` and changed by making
another one with ``Replace``.  ``configfile.LoadConfig`` reads a whole file, ``ConfigText`` writes it.

Glossary:

field
    a declared key of an object: type, default, when it is written, since which release
fragment
    an object's JSON text, kept with the object: files and rows are joined from fragments
extra
    keys that this release does not know; they survive reading and writing, in place
run-time field
    a field that exists in node RPC only and never in the stored form
root, snapshot
    the whole configuration at one moment
row
    one object in the store: (kind, id, fragment)
forthcoming
    a reservation of an instance or disk: only uuid and serial number must be there
"""

from ganeti.objects.base import (
    MISSING,
    ConfigObject,
    Field,
    FieldInfo,
    FrozenDict,
)
from ganeti.objects.cluster import DATA_COLLECTORS, Cluster
from ganeti.objects.indexes import Gained as GainedValues
from ganeti.objects.instance import NIC, CommonTemplate, Disk, Instance
from ganeti.objects.network import FilterRule, Network
from ganeti.objects.node import (
    NODE_ROLES,
    ROLE_CANDIDATE,
    ROLE_DRAINED,
    ROLE_MASTER,
    ROLE_OFFLINE,
    ROLE_REGULAR,
    Node,
    NodeGroup,
)
from ganeti.objects.snapshot import KIND_MAPS, ROW_KINDS, ConfigText, ConfigTextOfRows, Snapshot

__all__ = [
    "NODE_ROLES",
    "ROLE_CANDIDATE",
    "ROLE_DRAINED",
    "ROLE_MASTER",
    "ROLE_OFFLINE",
    "ROLE_REGULAR",
    "DATA_COLLECTORS",
    "KIND_MAPS",
    "MISSING",
    "NIC",
    "ROW_KINDS",
    "Cluster",
    "CommonTemplate",
    "ConfigObject",
    "ConfigText",
    "ConfigTextOfRows",
    "Disk",
    "Field",
    "FieldInfo",
    "FilterRule",
    "FrozenDict",
    "GainedValues",
    "Instance",
    "Network",
    "Node",
    "NodeGroup",
    "Snapshot",
]
