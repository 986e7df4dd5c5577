"""How arguments are written for the wire: one function per encoding of the table (doc/reference/noderpc.md 3.1).

What callers hand in, where it is more than the plain value:

====================  ==============================================================================================
encoding              value
====================  ==============================================================================================
OBJ                   a configuration object or a dictionary
INST                  ``instance``
INST+osp              ``(instance, osparams)`` or ``instance``
INST for IO           ``(instance, io)``: what the node at that end of a transfer has to know
INST+hvp,bep          ``(instance, hvparams, beparams)`` or ``instance``; the last two may be None
DISK                  ``(disk, instance)``; instance None for a detached disk
[DISK]                ``(disks, instance)``, or a list of such pairs for several instances
[DISK] by node        {node: as [DISK]}
[[DISK, id]]          [((disk, instance), new id)]
[DISK or false]       ``(disks, instance)``, disks may hold False
NIC or DISK           ``(nic or disk, instance)``
IO                    ("file", path), ("raw", (disk, instance)), ("script", ((disk, instance), index))
storage units         [(type, key)], None, or {node: such a list}
BLOB                  text or bytes
FILE                  path of a file of this node, or (path, content, mode, user, group, atime, mtime)
vpath                 path of this node
====================  ==============================================================================================

A dictionary (or a list of them) in the place of an object is taken as written already.  An instance may carry its disk objects
(``disks_info``); one that does not has those of the configuration.
"""

from __future__ import annotations

import base64
import grp
import pwd
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ganeti import errors, params, pathutils, runtime, serializer
from ganeti.params import units
from ganeti.params.disk import TEMPLATES

if TYPE_CHECKING:
    from ganeti import objects
    from ganeti.rpc.procedures import Procedure

COMPRESS_FROM = 512  # bytes
_COMPRESS_LEVEL = 3
MAX_FILE = 32 * 1024 * 1024


class Context(NamedTuple):
    """An encoder's facts: the configuration (None during bootstrap), the target as the caller names it, its uuid."""

    snapshot: objects.Snapshot | None
    node: str
    node_uuid: str

    def Config(self) -> objects.Snapshot:
        if self.snapshot is None:
            raise errors.ProgrammerError("this call needs the configuration and the runner has none")
        return self.snapshot


class Written(NamedTuple):
    """A request body, and how many elements its first argument has if that is a list."""

    data: bytes
    elements: int | None


class Body:
    """The request body of one call, for each of its nodes; written once if all get the same."""

    def __init__(self, procedure: Procedure, args: Sequence[Any], snapshot: objects.Snapshot | None):
        self._procedure = procedure
        self._args = args
        self._snapshot = snapshot
        self._per_node = any(arg.encoding.per_node for arg in procedure.args)
        self._shared: Written | None = None

    def For(self, node: str, uuid: str) -> Written:
        if self._shared is not None:
            return self._shared
        body = self._Write(Context(self._snapshot, node, uuid))
        if not self._per_node:
            self._shared = body
        return body

    def _Write(self, context: Context) -> Written:
        values = [self._Encode(arg.enc, arg.name, value, context) for arg, value in self._Pairs()]
        data = serializer.DumpBytes(values[0] if self._procedure.body_object else values)
        return Written(data, len(values[0]) if values and isinstance(values[0], list) else None)

    def _Pairs(self) -> list[tuple[Any, Any]]:
        return list(zip(self._procedure.args, self._args, strict=True))

    def _Encode(self, enc: str, name: str, value: Any, context: Context) -> Any:
        encoder = _ENCODERS.get(enc)
        return encoder(value, context) if encoder is not None else value


def Blob(value: str | bytes) -> list[Any]:
    """Text as it is when it is short, compressed else."""
    data = value.encode("utf-8") if isinstance(value, str) else value
    if len(data) < COMPRESS_FROM:
        try:
            return [0, data.decode("utf-8")]
        except UnicodeDecodeError:
            pass  # only the compressed form can carry other bytes
    return [1, base64.b64encode(zlib.compress(data, _COMPRESS_LEVEL)).decode("ascii")]


def ReadBlob(value: Sequence[Any], limit: int = MAX_FILE) -> bytes:
    """Decode a BLOB; raise ParseError when it is damaged or has more than ``limit`` bytes."""
    kind, text = value
    if kind == 0:
        data = text.encode("utf-8", "surrogatepass")
        if len(data) > limit:
            raise errors.ParseError(f"content of {len(data)} bytes is over the limit of {limit}")
        return data
    try:
        packed = base64.b64decode(text, validate=True)
        inflater = zlib.decompressobj()
        data = inflater.decompress(packed, limit + 1)
    except (ValueError, zlib.error) as err:
        raise errors.ParseError(f"content cannot be unpacked: {err}") from err
    if len(data) > limit:
        raise errors.ParseError(f"content is over the limit of {limit} bytes")
    if not inflater.eof:
        raise errors.ParseError("content ends early")
    return data


def _Object(value: Any, context: Context) -> Any:
    del context
    return value if isinstance(value, Mapping) else value.ToDict()


def _Instance(value: Any, context: Context) -> Any:
    return value if isinstance(value, Mapping) else _FilledInstance(value, context).ToDict(runtime=True)


def _InstanceWithOs(value: Any, context: Context) -> Any:
    if not isinstance(value, tuple):
        return _Instance(value, context)
    instance, osparams = value
    filled = _FilledInstance(instance, context)
    return filled.Replace(osparams={**filled.osparams, **(osparams or {})}).ToDict(runtime=True)


def _InstanceWithParams(value: Any, context: Context) -> Any:
    if not isinstance(value, tuple):
        return _Instance(value, context)
    instance, hvparams, beparams = value
    filled = _FilledInstance(instance, context)
    return filled.Replace(
        hvparams={**filled.hvparams, **(hvparams or {})}, beparams={**filled.beparams, **(beparams or {})}
    ).ToDict(runtime=True)


def _InstanceOfEnd(value: Any, context: Context) -> Any:
    """A node that only keeps a file of an instance gets its name and its system's, and nothing that is not its business."""
    if isinstance(value, Mapping):
        return value
    instance, (kind, _) = value
    filled = _FilledInstance(instance, context)
    if kind == "file":
        filled = filled.Replace(hvparams={}, osparams={}, osparams_private={}, nics=(), disks_info=())
    return filled.ToDict(runtime=True)


def _FilledInstance(instance: objects.Instance, context: Context) -> objects.Instance:
    snapshot = context.Config()
    return instance.Replace(
        hvparams=params.FillHV(snapshot, instance),
        beparams=params.FillBE(snapshot, instance),
        osparams=params.FillOS(snapshot, instance),
        nics=tuple(_FilledNic(nic, context) for nic in instance.nics),
        secondary_nodes=tuple(snapshot.SecondaryNodes(instance)),
        disks_info=tuple(_FilledDisk(disk, instance, context) for disk in snapshot.InstanceDisks(instance)),
    )


def _FilledNic(nic: objects.NIC, context: Context) -> objects.NIC:
    snapshot = context.Config()
    filled = nic.Replace(nicparams=params.FillNIC(snapshot, nic))
    if nic.network is None:
        return filled
    network = snapshot.networks.get(nic.network)
    return filled if network is None else filled.Replace(netinfo=network.ToDict())


def _FilledDisk(disk: objects.Disk, instance: objects.Instance | None, context: Context) -> objects.Disk:
    """Return the disk with its device parameters, and what holds for the target node, all the way down."""
    snapshot = context.Config()
    node = instance.primary_node if instance is not None else context.node_uuid
    return _WithDynamicParams(params.AnnotateDisk(snapshot, disk, node), context)


def _WithDynamicParams(disk: objects.Disk, context: Context) -> objects.Disk:
    template = TEMPLATES.get(disk.dev_type)
    own: Mapping[str, Any] = {}
    if template:
        own = template.NodeParams(disk, context.node_uuid, context.Config().nodes)
        disk = template.ForNode(disk, context.node_uuid)
    return disk.Replace(
        children=tuple(_WithDynamicParams(child, context) for child in disk.children),
        dynamic_params=own,
    )


def _Disk(value: Any, context: Context) -> Any:
    if isinstance(value, Mapping):
        return value
    disk, instance = value
    return disk if isinstance(disk, Mapping) else _FilledDisk(disk, instance, context).ToDict(runtime=True)


def _Disks(value: Any, context: Context) -> list[Any]:
    """Encode ``(disks, instance)``, a list of such pairs, or a list of what is encoded already."""
    if isinstance(value, tuple):
        disks, instance = value
        return [_Disk((disk, instance), context) for disk in disks]
    result: list[Any] = []
    for item in value:
        result.extend([item] if isinstance(item, Mapping) else _Disks(item, context))
    return result


def _DisksByNode(value: Any, context: Context) -> list[Any]:
    return _Disks(_OwnPart(value, context), context)


def _OwnPart(value: Any, context: Context) -> Any:
    """Return a node's own entry of a dictionary by node."""
    if not isinstance(value, Mapping):
        return value
    for name in (context.node, context.node_uuid):
        if name in value:
            return value[name]
    raise errors.ProgrammerError(f"this argument has nothing for node {context.node}")


def _Renames(value: Any, context: Context) -> list[Any]:
    return [[_Disk(disk, context), list(new_id)] for disk, new_id in value]


def _DisksOrFalse(value: Any, context: Context) -> list[Any]:
    if not isinstance(value, tuple):
        return list(value)
    disks, instance = value
    return [disk is not False and _Disk((disk, instance), context) for disk in disks]


def _Device(value: Any, context: Context) -> Any:
    if isinstance(value, Mapping):
        return value
    device, instance = value
    if device.KIND == "nic":
        return _FilledNic(device, context).ToDict(runtime=True)
    return _Disk((device, instance), context)


def _InputOutput(value: Any, context: Context) -> list[Any]:
    kind, what = value
    if kind == "file":
        return [kind, [pathutils.MakeVirtualPath(what)]]
    if kind == "raw":
        return [kind, [_Disk(what, context)]]
    if kind == "script":
        disk, index = what
        return [kind, [_Disk(disk, context), index]]
    raise errors.ProgrammerError(f"no such end of a transfer: {kind!r}")


def _StorageUnits(value: Any, context: Context) -> list[Any] | None:
    """Some units carry their node's exclusive_storage flag."""
    wanted = _OwnPart(value, context)
    if wanted is None:
        return None
    return [[unit[0], unit[1], _StorageParams(unit, context)] for unit in wanted]


def _StorageParams(unit: Sequence[Any], context: Context) -> list[Any]:
    if not units.Of(unit[0]).exclusive:
        return list(unit[2]) if len(unit) > 2 and unit[2] else []
    snapshot = context.Config()
    node = snapshot.nodes.get(context.node_uuid)
    if node is None:
        return [False]
    return [bool(params.FillND(snapshot, node).get("exclusive_storage", False))]


def _File(value: Any, context: Context) -> list[Any]:
    del context
    if isinstance(value, str):
        value = ReadForUpload(value)
    path, content, *rest = value
    return [pathutils.MakeVirtualPath(path), Blob(content), *rest]


def ReadForUpload(path: str) -> tuple[str, bytes, int, str, str, float, float]:
    """Read a file of this node with mode, owner and group by name, and its times."""
    info = runtime.Stat(path)
    data = runtime.ReadFile(path, MAX_FILE)
    mode = info.st_mode & 0o7777
    return (path, data, mode, _UserName(info.st_uid), _GroupName(info.st_gid), info.st_atime, info.st_mtime)


def _UserName(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        raise errors.OpExecError(f"user id {uid} has no name on this node; give the file a known owner") from None


def _GroupName(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        raise errors.OpExecError(f"group id {gid} has no name on this node; give the file a known group") from None


_ENCODERS: dict[str, Callable[[Any, Context], Any]] = {
    "OBJ": _Object,
    "INST": _Instance,
    "INST+osp": _InstanceWithOs,
    "INST for IO": _InstanceOfEnd,
    "INST+hvp,bep": _InstanceWithParams,
    "DISK": _Disk,
    "[DISK]": _Disks,
    "[DISK] by node": _DisksByNode,
    "[[DISK, id]]": _Renames,
    "[DISK or false]": _DisksOrFalse,
    "NIC or DISK": _Device,
    "IO": _InputOutput,
    "storage units": _StorageUnits,
    "BLOB": lambda value, _: Blob(value),
    "FILE": _File,
    "vpath": lambda value, _: pathutils.MakeVirtualPath(value),
    "vpath renames": lambda value, _: [[pathutils.MakeVirtualPath(path) for path in pair] for pair in value],
}
