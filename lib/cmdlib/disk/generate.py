"""From what a request says of disks to disk objects: sizes, names, identities, room for them (doc/reference/config.md 16)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import constants, errors, objects, params, pathutils
from ganeti.cmdlib.base import LogicalUnit
from ganeti.cmdlib.common import Invalid
from ganeti.params import disk as disk_params
from ganeti.params import nd, units
from ganeti.params.disk import DiskPlan, DiskRequest
from ganeti.utils.text import ParseUnit, Repeated

if TYPE_CHECKING:
    from ganeti.rpc import RpcResult

_MOST_SIZE = 1 << 43
"""MiB: as many bytes as a device can have."""
_PARAM_NAME_LIMIT = 128
_ADOPTABLE_DIRECTORY = "/dev/disk/"


def ParseSize(value: Any, where: str) -> int:
    """Return a size in MiB from a number or a text with a unit."""
    try:
        size = ParseUnit(value) if isinstance(value, str) else int(value)
    except (errors.UnitParseError, ValueError, TypeError) as err:
        raise Invalid(f"Invalid size of {where}: {err}") from err
    if not 0 < size <= _MOST_SIZE:
        raise Invalid(f"Invalid size of {where}: {value}; 1 to {_MOST_SIZE} MiB are possible")
    return size


def DeviceName(value: str | None) -> str | None:
    """Return a device's name; ``none`` means that it has none."""
    return None if value is None or value.lower() == constants.VALUE_NONE else value


def CheckDeviceNames(names: Iterable[str | None], uuids: Collection[str], kind: str) -> None:
    """Check that names of devices are unique and cannot be mistaken for an index or another device's uuid."""
    seen: set[str] = set()
    for name in names:
        if name is None:
            continue
        if name.isdigit():
            raise Invalid(f"Invalid name '{name}' of a {kind}: it must not be a number")
        if name in uuids:
            raise Invalid(f"Invalid name '{name}' of a {kind}: it is the uuid of a device")
        if name in seen:
            raise Invalid(f"The name '{name}' is given to more than one {kind}")
        seen.add(name)


def CheckProviderParams(values: Mapping[str, Any], where: str) -> None:
    """Check that a provider's scripts can be given these parameters; they come to them in the environment."""
    for key, value in values.items():
        if not 0 < len(key) <= _PARAM_NAME_LIMIT or not key.isprintable() or "=" in key:
            raise Invalid(f"Invalid name {key[:_PARAM_NAME_LIMIT]!r} of a parameter of {where}")
        if "\0" in str(value):
            raise Invalid(f"Invalid value of the parameter {key} of {where}: it has a null character")


def ParseDisk(values: Mapping[str, Any], index: int, template: str) -> DiskRequest:
    """Return one disk of a request, after the checks that need no other disk."""
    where = f"disk {index}"
    adopt = values.get("adopt")
    if "size" not in values and not adopt:
        raise Invalid(f"Missing size of {where}")
    ext = {key: value for key, value in values.items() if key not in disk_params.ALL_KEYS}
    takes_provider = disk_params.TEMPLATES[template].provider
    with_provider = ", ".join(sorted(disk_params.With(provider=True)))
    if ext and not takes_provider:
        raise Invalid(
            f"Unknown parameter of {where}: {', '.join(sorted(ext))}; only template {with_provider} takes parameters"
        )
    CheckProviderParams(ext, where)
    if takes_provider and not values.get("provider"):
        raise Invalid(f"Missing provider of {where}, which template {template} needs")
    if not takes_provider and values.get("provider"):
        raise Invalid(f"A provider of {where} is only possible with template {with_provider}, not with {template}")
    spindles = values.get("spindles")
    if spindles is not None and spindles < 1:
        raise Invalid(f"The number of spindles of {where} must be positive")
    return DiskRequest(
        size=0 if adopt and not values.get("size") else ParseSize(values["size"], where),
        mode=values.get("mode", constants.DISK_RDWR),
        name=DeviceName(values.get("name")),
        vg=values.get("vg"),
        metavg=values.get("metavg"),
        adopt=adopt,
        provider=values.get("provider"),
        access=values.get("access"),
        spindles=spindles,
        ext=ext,
    )


def ParseDisks(requests: Sequence[Mapping[str, Any]], template: str) -> list[DiskRequest]:
    """Return all disks of a request, after checking their number, their names, and that all or none are adopted."""
    if len(requests) > constants.MAX_DISKS:
        raise Invalid(f"Too many disks: {len(requests)}, at most {constants.MAX_DISKS}")
    has_disks = disk_params.TEMPLATES[template].has_disks
    if requests and not has_disks:
        raise Invalid("A diskless instance cannot have disks")
    if not requests and has_disks:
        raise Invalid(f"No disks given; use template {constants.DT_DISKLESS} for an instance without disks")
    disks = [ParseDisk(values, index, template) for index, values in enumerate(requests)]
    CheckDeviceNames([disk.name for disk in disks], (), "disk")
    adopted = [disk for disk in disks if disk.adopt]
    traits = disk_params.TEMPLATES[template]
    if adopted and len(adopted) != len(disks):
        raise Invalid("Either all disks are adopted, or none")
    if adopted and traits.adopts is None:
        raise Invalid(f"Disk adoption is not supported for the '{template}' disk template")
    if traits.must_adopt and not adopted:
        raise Invalid(f"Disk template {template} requires disk adoption, but no 'adopt' parameter given")
    return disks


def FileDirectory(snapshot: objects.Snapshot, template: str, below: str | None, instance_name: str) -> str | None:
    """Return the directory of an instance's disks: the cluster's, a directory below, the instance's name."""
    cluster = snapshot.cluster
    known = disk_params.TEMPLATES[template]
    if not (known.name_in_path and known.directory):
        return None
    base = getattr(cluster, known.directory)
    if not base:
        raise errors.OpPrereqError(
            f"The cluster has no directory for disks of template {template}",
            errors.ECODE_STATE,
            hint="set it with 'gnt-cluster modify'",
        )
    if below and (posixpath.isabs(below) or posixpath.normpath(below).startswith("..")):
        raise Invalid(f"The file storage directory '{below}' must lie below the cluster's, give a relative path")
    return posixpath.normpath(posixpath.join(base, below or "", instance_name))


# --- objects ------------------------------------------------------------------------------------------------------------


class JobReservations:
    """Identities for new disks, reserved until the job of a unit ends (``params.disk.base.Reservations``)."""

    def __init__(self, lu: LogicalUnit):
        self._cfg = lu.cfg
        self._ec_id = lu.ec_id

    def UniqueId(self) -> str:
        return self._cfg.GenerateUniqueID(self._ec_id)

    def Minors(self, nodes: Sequence[str], disk_uuid: str) -> Sequence[int]:
        return self._cfg.AllocateDRBDMinor(nodes, disk_uuid, self._ec_id)

    def Port(self) -> int:
        return self._cfg.AllocatePort(self._ec_id)

    def Secret(self) -> str:
        return self._cfg.GenerateDRBDSecret(self._ec_id)


def PlanDisks(snapshot: objects.Snapshot, template: str, instance_uuid: str, primary: str, **more: Any) -> DiskPlan:
    """Return the plan for an instance's disks, with what the cluster says of the template filled in."""
    group = snapshot.nodegroups[snapshot.nodes[primary].group]
    return DiskPlan(
        template=template,
        instance_uuid=instance_uuid,
        primary=primary,
        vg=snapshot.cluster.volume_group_name,
        values=params.FillDiskParams(snapshot, group)[template],
        **more,
    )


def GenerateDisks(
    lu: LogicalUnit, plan: DiskPlan, requests: Sequence[DiskRequest], first_index: int = 0
) -> list[objects.Disk]:
    """New disk objects with identities of their own; minors and ports are reserved for the job."""
    template, ids = disk_params.TEMPLATES[plan.template], JobReservations(lu)
    return [template.MakeDisk(ids, plan, request, first_index + number) for number, request in enumerate(requests)]


# --- room and rules -----------------------------------------------------------------------------------------------------


def CheckTemplateEnabled(snapshot: objects.Snapshot, template: str) -> None:
    enabled = snapshot.cluster.enabled_disk_templates
    if template not in enabled:
        raise Invalid(f"Disk template '{template}' is not enabled in the cluster; enabled are: {', '.join(enabled)}")


def SpaceNeeded(snapshot: objects.Snapshot, template: str, requests: Iterable[DiskRequest]) -> dict[str, int]:
    """MiB by volume group that new disks take; empty where free space is not looked at."""
    known = disk_params.TEMPLATES[template]
    if not known.space_checked:
        return {}
    needed: dict[str, int] = {}
    for request in requests:
        vg = request.vg or snapshot.cluster.volume_group_name
        if vg is None:
            raise errors.OpPrereqError(
                f"The cluster has no volume group, which disk template {template} needs",
                errors.ECODE_STATE,
                hint="set it with 'gnt-cluster modify --vg-name=VG'",
            )
        needed[vg] = needed.get(vg, 0) + request.size + known.overhead
    return needed


def CheckFreeSpace(
    lu: LogicalUnit, nodes: Sequence[str], needed: Mapping[str, int], kind: str = constants.ST_LVM_VG
) -> None:
    """Check that every node has room in every volume group, or storage unit of another kind.

    With exclusive storage spindles count instead.
    """
    if not needed:
        return
    what, short = ("volume group", "vg") if kind == constants.ST_LVM_VG else (units.Of(kind).text.lower(),) * 2
    for result in lu.rpc.call_node_info(list(nodes), [(kind, unit) for unit in needed], None).values():
        result.Raise(f"Cannot get current information from node {result.node_name}", prereq=True)
        free = {entry["name"]: entry["storage_free"] for entry in result.payload[1]}
        for unit, amount in needed.items():
            if not isinstance(free.get(unit), int):
                raise errors.OpPrereqError(
                    f"Node {result.node_name} did not report the free space of {what} '{unit}'; is it there?"
                    f" 'gnt-node list-storage --storage-type={kind} {result.node_name}' lists what it has",
                    errors.ECODE_ENVIRON,
                )
            if free[unit] < amount:
                raise errors.OpPrereqError(
                    f"Not enough disk space on target node {result.node_name} {short} {unit}: required {amount} MiB,"
                    f" available {free[unit]} MiB",
                    errors.ECODE_NORES,
                    hint=f"'gnt-node list-storage --storage-type={kind}' shows which node has room, 'gnt-cluster verify' which"
                    " volumes nobody needs",
                )


def CheckSpindles(
    snapshot: objects.Snapshot, nodes: Iterable[str], template: str, requests: Iterable[DiskRequest]
) -> bool:
    """Return whether the nodes use exclusive storage; if so, check the template and the disks' spindles."""
    exclusive = any(params.FillND(snapshot, snapshot.nodes[uuid])[nd.ND_EXCLUSIVE_STORAGE] for uuid in nodes)
    if exclusive and not disk_params.TEMPLATES[template].exclusive_storage:
        raise errors.OpPrereqError(
            f"Disk template {template} is not supported with exclusive storage", errors.ECODE_STATE
        )
    for number, request in enumerate(requests):
        if exclusive and request.spindles is None and not request.adopt:
            raise Invalid(f"Exclusive storage needs the number of spindles of disk {number}")
        if not exclusive and request.spindles is not None:
            raise Invalid("Spindles in instance disks cannot be specified when exclusive storage is not active")
    return exclusive


# --- adoption -----------------------------------------------------------------------------------------------------------


def PrepareAdoption(lu: LogicalUnit, template: str, requests: Sequence[DiskRequest], node_uuid: str) -> None:
    """Find the storage to adopt on the node, reserve it and fill in the sizes."""
    if disk_params.TEMPLATES[template].adopts == disk_params.ADOPT_VOLUME:
        _PrepareVolumes(lu, requests, node_uuid)
    else:
        _PrepareDevices(lu, requests, node_uuid)


def _PrepareVolumes(lu: LogicalUnit, requests: Sequence[DiskRequest], node_uuid: str) -> None:
    default_vg = lu.snapshot.cluster.volume_group_name
    names = [f"{request.vg or default_vg}/{request.adopt}" for request in requests]
    if again := Repeated(names):
        raise Invalid(f"A volume is to be adopted more than once: {', '.join(again)}")
    _ReserveAdopted(lu, "Volume", names)
    result = lu.rpc.call_lv_list([node_uuid], [])[node_uuid]
    result.Raise(f"Cannot get logical volume information from node {result.node_name}", prereq=True)
    _CheckInterrupted(lu.snapshot, names, node_uuid, result.payload)
    missing = sorted(set(names) - set(result.payload))
    if missing:
        raise Invalid(f"Missing logical volume(s) on node {result.node_name}: {', '.join(missing)}")
    online = sorted(name for name in names if result.payload[name][2])
    if online:
        raise errors.OpPrereqError(
            f"Online logical volumes found, cannot adopt: {', '.join(online)}", errors.ECODE_STATE
        )
    for request, name in zip(requests, names, strict=True):
        request.size = int(float(result.payload[name][0]))


def _CheckInterrupted(
    snapshot: objects.Snapshot, names: Iterable[str], node_uuid: str, present: Collection[str]
) -> None:
    """Raise OpPrereqError for a volume that an instance was about to adopt when its job ended."""
    disks = [snapshot.disks[uuid] for uuid in snapshot.NodeDisks(node_uuid)]
    waiting = [disk for disk in disks if disk.adopts is not None and not set(disk.VolumeNames()) & set(present)]
    marked = {"/".join(disk.OwnId()): disk for disk in waiting}
    for name in names:
        owner = snapshot.DiskOwner(marked[name].uuid) if name in marked else None
        if owner is not None:
            instance = snapshot.instances[owner].name
            raise errors.OpPrereqError(
                f"Volume {name} cannot be adopted: its adoption by instance {instance} was interrupted",
                errors.ECODE_NOTUNIQUE,
                hint=f"'gnt-instance remove {instance}' gives it back",
            )


def _ReserveAdopted(lu: LogicalUnit, what: str, names: Iterable[str]) -> None:
    """Take volumes or devices for this job; raises OpPrereqError for one that an instance or another job has."""
    for name in names:
        try:
            lu.cfg.ReserveLV(name, lu.ec_id)
        except errors.ReservationError as err:
            raise errors.OpPrereqError(f"{what} {name} cannot be adopted: {err}", errors.ECODE_NOTUNIQUE) from err


def _PrepareDevices(lu: LogicalUnit, requests: Sequence[DiskRequest], node_uuid: str) -> None:
    paths = [posixpath.normpath(str(request.adopt)) for request in requests]
    if again := Repeated(paths):
        raise Invalid(f"A block device is to be adopted more than once: {', '.join(again)}")
    outside = sorted(path for path in paths if not path.startswith(_ADOPTABLE_DIRECTORY))
    if outside:
        raise Invalid(f"Device node(s) {', '.join(outside)} lie outside {_ADOPTABLE_DIRECTORY} and cannot be adopted")
    used = _DevicesInUse(lu.snapshot, node_uuid)
    for path in paths:
        if path in used:
            raise errors.OpPrereqError(
                f"Device {path} cannot be adopted: {_UserOf(lu.snapshot, used[path])} has it", errors.ECODE_NOTUNIQUE
            )
    _ReserveAdopted(lu, "Device", paths)
    _CheckIdentities(lu, paths, used, node_uuid)
    result = lu.rpc.call_bdev_sizes([node_uuid], paths)[node_uuid]
    result.Raise(f"Cannot get block device information from node {result.node_name}", prereq=True)
    missing = sorted(set(paths) - set(result.payload))
    if missing:
        raise Invalid(f"Missing block device(s) on node {result.node_name}: {', '.join(missing)}")
    for request, path in zip(requests, paths, strict=True):
        request.adopt = path
        request.size = int(float(result.payload[path]))


def _DevicesInUse(snapshot: objects.Snapshot, node_uuid: str) -> dict[str, objects.Disk]:
    """Return the disks by the paths that their devices and volumes have on a node."""
    used = {
        disk_params.Of(disk).Place(disk): disk
        for disk in snapshot.disks.values()
        if disk_params.Of(disk).adopts == disk_params.ADOPT_DEVICE
    }
    for uuid in snapshot.NodeDisks(node_uuid):
        disk = snapshot.disks[uuid]
        used.update((f"/dev/{name}", disk) for name in disk.VolumeNames())
    return used


def _UserOf(snapshot: objects.Snapshot, disk: objects.Disk) -> str:
    owner = snapshot.DiskOwner(disk.uuid)
    return f"instance {snapshot.instances[owner].name}" if owner is not None else f"the detached disk {disk.uuid}"


def _CheckIdentities(lu: LogicalUnit, paths: Sequence[str], used: Mapping[str, objects.Disk], node_uuid: str) -> None:
    """Raise OpPrereqError for a device that a disk, another job or the node itself has, whatever it is called there."""
    result = lu.rpc.call_bdev_identities([node_uuid], sorted({*paths, *used}))[node_uuid]
    result.Raise(f"Cannot get block device information from node {result.node_name}", prereq=True)
    others: dict[tuple[int, int], tuple[str, str]] = {}
    for path, disk in used.items():
        if path in result.payload:
            others[tuple(result.payload[path][:2])] = path, f"{_UserOf(lu.snapshot, disk)} has it"
    for path in paths:
        if path not in result.payload:
            continue  # missing, which the question for sizes says as well
        major, minor, real, held = result.payload[path]
        if (major, minor) in others:
            other, problem = others[major, minor]
            raise errors.OpPrereqError(
                f"Device {path} cannot be adopted: it is the same as {other} ({real} on node {result.node_name}), and"
                f" {problem}",
                errors.ECODE_NOTUNIQUE,
            )
        if held:
            raise errors.OpPrereqError(
                f"Device {path} cannot be adopted: node {result.node_name} has {real} in use itself (mounted, as swap, or"
                " below volumes, arrays or mirrors), or an instance there has it",
                errors.ECODE_STATE,
                hint=f"'lsblk {real}' and 'ls -l {pathutils.DISK_LINKS_DIR}' on node {result.node_name} show by what",
            )
        others[major, minor] = path, "it is to be adopted, too"
    reals = [f"{result.payload[path][2]} of node {result.node_name}" for path in paths if path in result.payload]
    _ReserveAdopted(lu, "Device", reals)


def MarkAdopted(disks: Iterable[objects.Disk], requests: Iterable[DiskRequest]) -> list[objects.Disk]:
    """Return new disks with the names that their volumes have until they are adopted."""
    return [disk.Replace(adopts=request.adopt) for disk, request in zip(disks, requests, strict=True)]


def AdoptVolumes(lu: LogicalUnit, instance: objects.Instance, disks: Iterable[objects.Disk]) -> RpcResult:
    """Give adopted volumes the names that the configuration has for them already.

    Before, they have the administrator's names; afterwards, those of an instance's disks: whenever a master dies, they
    belong to somebody.
    """
    renames = [((disk.Replace(logical_id=disk.OwnId()), instance), disk.logical_id) for disk in disks]
    return lu.rpc.call_blockdev_rename(instance.primary_node, renames)


_INDEX = re.compile(r"-?\d+")


def FindDevice(identifier: int | str, devices: Sequence[Any], kind: str, owner: str | None) -> tuple[int, Any]:
    """Return (index, device) of an index (-1 for the last one), a name or a uuid; ``owner``: the instance's name."""
    text = str(identifier)
    if _INDEX.fullmatch(text):
        index = int(text)
        if index == -1 and devices:
            return len(devices) - 1, devices[-1]
        if 0 <= index < len(devices):
            return index, devices[index]
        raise errors.OpPrereqError(
            f"There is no {kind} {index}: instance {owner} has {f'{len(devices)}, counted from 0' if devices else 'none'}",
            errors.ECODE_INVAL,
        )
    found = [(index, device) for index, device in enumerate(devices) if text in (device.uuid, device.name)]
    if not found:
        raise errors.OpPrereqError(
            f"Instance {owner} has no {kind} with the name or uuid '{text}'",
            errors.ECODE_NOENT,
            hint=f"'gnt-instance info {owner}' shows those that it has",
        )
    return found[0]
