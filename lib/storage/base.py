"""The contract of a block device driver.

A ``BlockDev`` stands for one disk object on this node.  Making one touches nothing; the methods say what they
look at and what they change.  Trees (a mirror above its data and metadata volumes) are walked by ``storage.tree``
alone: a driver acts on its own layer and may use ``self.children`` only as far as its method says.

Every driver keeps these rules:

* All sizes are MiB unless the name says otherwise; only ``Dimensions`` speaks bytes.
* Every failure is ``errors.BlockDeviceError``; its text names the device, what happened and what to do.
* ``Attach``, ``Status``, ``Dimensions``, ``UserspaceUri``, ``ExportCommand`` change nothing.
* ``Assemble``, ``Open``, ``Close``, ``Shutdown``, ``Remove`` may be repeated: doing what is done already succeeds.
* ``Create`` never takes over storage that exists; ``Remove`` of what is gone succeeds.
* External commands are built by pure functions (arguments in, argv out) and parsed by others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, NoReturn

from ganeti import constants, errors, objects
from ganeti.storage import decisions

# Data flows in blocks of this size; a multiple of every sector size.
BLOCK_BYTES = 1024 * 1024

_ACCESS, _USERSPACE = "access", "userspace"


@dataclasses.dataclass(frozen=True)
class DeviceStatus:
    """The state of a device and of those below it (doc/reference/noderpc.md 3.4)."""

    dev_path: str | None
    major: int | None = None
    minor: int | None = None
    sync_percent: float | None = None
    estimated_time: float | None = None
    is_degraded: bool = False
    ldisk_status: int = constants.LDS_OKAY

    def Combine(self, child: DeviceStatus) -> DeviceStatus:
        """Return this layer's status made worse by a child's; paths and numbers stay this layer's."""
        percents = [p for p in (self.sync_percent, child.sync_percent) if p is not None]
        times = [t for t in (self.estimated_time, child.estimated_time) if t is not None]
        return dataclasses.replace(
            self,
            sync_percent=min(percents, default=None),
            estimated_time=max(times, default=None),
            is_degraded=self.is_degraded or child.is_degraded,
            ldisk_status=max(self.ldisk_status, child.ldisk_status),
        )

    def ToDict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


class BlockDev:
    """One layer of one disk on this node.

    ``disk`` is the disk object as the master sent it, with filled ``params`` and ``dynamic_params``.  ``children``
    has the devices below, in the order of the disk's children; None stands for one that is not there.

    ``attached`` says whether the device was found; ``dev_path``, ``major`` and ``minor`` are set while it is.
    ``dev_path`` stays None for storage that only a hypervisor's own client can reach (see ``UserspaceUri``).
    """

    # Assembled, and opened, on every node that holds the disk, not only where the instance runs.
    ASSEMBLED_ON_SECONDARY: ClassVar[bool] = False
    OPENED_ON_SECONDARY: ClassVar[bool] = False
    # Any node reaches the storage, and masters open it for a migration without having assembled it there.
    OPEN_ASSEMBLES: ClassVar[bool] = False
    # How many children must be there to assemble this layer; None = all of them.
    CHILDREN_NEEDED: ClassVar[int | None] = None
    # Which child holds the data of this layer; None = the layer itself does.
    DATA_CHILD: ClassVar[int | None] = None
    # Whether ``dev_path`` may be a symbolic link, as the names of volumes are.
    PATH_MAY_BE_LINK: ClassVar[bool] = True
    # What to look at when the device is not there.
    IF_MISSING: ClassVar[str] = "are the instance's disks active?"

    def __init__(self, disk: objects.Disk, children: Sequence[BlockDev | None] = ()):
        self.disk = disk
        self.children = list(children)
        self.attached = False
        self.dev_path: str | None = None
        self.major: int | None = None
        self.minor: int | None = None
        # Whose it is (as for SetInfo); known while it is created.
        self.note = ""

    def __str__(self) -> str:
        return f"{self.disk.dev_type} {'/'.join(str(part) for part in self.unique_id)}"

    @property
    def unique_id(self) -> tuple[Any, ...]:
        return tuple(self.disk.logical_id or ())

    @property
    def if_missing(self) -> str:
        """Return what to look at when this device was not found."""
        return self.IF_MISSING

    def IfLost(self, what: str) -> str:
        """Return what to do if ``what``, such as "the file", is gone for good; a node does not know whose disk it is."""
        number = self.disk.iv_name.removeprefix("disk/")
        return (
            f"If {what} is lost, so is its data: 'gnt-instance shutdown INSTANCE', then 'gnt-instance recreate-disks"
            f" --disk={number if number.isdecimal() else 'N'} INSTANCE' makes it again, empty; restore the data from a backup"
        )

    @property
    def userspace(self) -> bool:
        """Return whether hypervisors are to reach the data with a client of their own (parameter ``access``)."""
        return self.disk.params.get(_ACCESS) == _USERSPACE

    # --- looking ------------------------------------------------------------------------------------------------------

    def Attach(self) -> bool:
        """Look for the device and set ``attached``, ``dev_path``, ``major``, ``minor``; return False when it does not exist.

        An assembled device is found; whether storage that is not assembled is found too is the driver's business.
        Raises only when the state cannot be found out.
        """
        raise NotImplementedError

    def Status(self) -> DeviceStatus:
        """Return this layer's status.  The device must be attached.  Drivers without redundancy keep this default."""
        return DeviceStatus(self.dev_path, self.major, self.minor)

    def Dimensions(self) -> tuple[int, int | None]:
        """Real size in **bytes** and the number of spindles (None when the driver does not count them)."""
        raise NotImplementedError

    def UserspaceUri(self, _hypervisor: str) -> str | None:
        """Return how a hypervisor reaches the data without a device of the node; None: through ``dev_path`` only.

        The device must be attached.  Drivers without the parameter ``access`` keep this default.
        """
        return None

    # --- life ---------------------------------------------------------------------------------------------------------

    def Create(self, size: int, exclusive: bool = False) -> None:
        """Make the storage of ``size`` MiB.

        Children exist and are assembled.  ``exclusive``: the node has exclusive storage on.  Existing storage is an
        error, never taken over.  A failure leaves nothing behind.
        """
        raise NotImplementedError

    def Assemble(self) -> None:
        """Make the device usable on this node and attach it.  Its children are assembled as far as they exist."""
        raise NotImplementedError

    def Open(self, force: bool = False, exclusive: bool = True) -> None:
        """Make the device writable here.

        ``force``: even if the data is not known to be the newest (a mirror just created).  ``exclusive`` False: a
        second node may have it open too, as live migration needs.
        """

    def Close(self) -> None:
        """Give up write access; the opposite of ``Open``."""

    def Shutdown(self) -> None:
        """Undo ``Assemble``: take the device off this node and keep the data."""
        raise NotImplementedError

    def Remove(self) -> None:
        """Shut the device down and destroy this layer's data on this node."""
        raise NotImplementedError

    # --- change -------------------------------------------------------------------------------------------------------

    def Rename(self, _new_id: Sequence[Any]) -> None:
        """Give the storage another logical id; the object then stands for the new name."""
        self._Unsupported("renaming")

    def Grow(self, amount: int, dry_run: bool, backing_store: bool, exclusive: bool = False) -> None:
        """Add ``amount`` MiB to this layer alone.

        ``tree.Grow`` calls it in two phases: with ``backing_store`` True for the layer that holds the data, with False
        for those above it (a mirror), which by then have the room.  A layer does nothing in a phase that is not its own.
        ``dry_run`` checks as far as possible and changes nothing.
        """
        del amount, dry_run, backing_store, exclusive
        self._Unsupported("growing")

    def Snapshot(self, _name: str | None = None, _size: int | None = None) -> list[Any]:
        """Make a snapshot and return its logical id.  An older one of that name is replaced.

        ``tree.Snapshot`` calls it for the layer that holds the data.
        """
        self._Unsupported("snapshots")

    def SetInfo(self, text: str) -> None:
        """Record the owner on the storage itself, if the storage can keep a note."""

    def AddChildren(self, _children: Sequence[BlockDev]) -> None:
        """Give a mirror its local storage: the children's metadata is written anew."""
        self._Unsupported("adding children")

    def RemoveChildren(self, _children: Sequence[objects.Disk]) -> None:
        """Take a mirror's local storage away; the disks named must be the children it has."""
        self._Unsupported("removing children")

    def PauseResumeSync(self, pause: bool) -> None:
        """Pause or resume a background copy, if there is one."""

    # --- data ---------------------------------------------------------------------------------------------------------

    def ExportCommand(self, mib: int | None = None) -> list[str]:
        """Return the command that copies the content, or its first ``mib`` MiB, to standard output (doc/reference/interfaces.md f.1)."""
        if mib is None:
            mib = (self.Dimensions()[0] + BLOCK_BYTES - 1) // BLOCK_BYTES
        return BuildExport(self._Path(), mib, self.PATH_MAY_BE_LINK)

    def ImportCommand(self) -> list[str]:
        """Return the command that fills the device from standard input; when it succeeds, all is on stable storage."""
        return BuildImport(self._Path(), self.PATH_MAY_BE_LINK)

    def WipeCommand(self, offset: int, size: int) -> list[str]:
        """Return the command that writes zeros over ``size`` MiB from MiB ``offset``, as durably as ``ImportCommand``."""
        return BuildWipe(self._Path(), offset, size, self.PATH_MAY_BE_LINK)

    # --- for drivers --------------------------------------------------------------------------------------------------

    def _Path(self) -> str:
        if not self.attached or self.dev_path is None:
            raise errors.BlockDeviceError(f"{self}: not active on this node; activate the instance's disks first")
        return self.dev_path

    def _SetFound(self, path: str | None, major: int | None = None, minor: int | None = None) -> None:
        self.attached, self.dev_path, self.major, self.minor = True, path, major, minor

    def _CheckShared(self, exclusive: bool) -> None:
        """Raise BlockDeviceError where each disk must have physical disks of its own."""
        if exclusive:
            self._Unsupported("exclusive storage")

    def _CheckGrowth(self, amount: int) -> None:
        if amount < 0:
            raise errors.BlockDeviceError(f"{self}: cannot shrink (asked for {amount} MiB more)")

    def _SetGone(self) -> None:
        self.attached, self.dev_path, self.major, self.minor = False, None, None, None

    def _Unsupported(self, what: str) -> NoReturn:
        raise errors.BlockDeviceError(f"{self}: {what} is not possible with disk template {self.disk.dev_type}")


class Mirror(BlockDev):
    """A device that keeps the same data on two nodes.  Only templates mirrored by us have such a driver.

    ``Peer()`` is what the configuration says of the other side (doc/design-drbd.rst):

    * counts: no write is acknowledged by this side alone, a lost link freezes the device; ``Open`` waits for the
      handshake and fails if there is none, or one side has no complete data and is not being filled;
    * behind: this side has the newest data and may be open alone; a device that was frozen continues if its own data is
      complete; data that was marked as outdated is accepted, incomplete data only while the other side fills it;
    * ahead: this side is not opened before it is connected with a complete side, and is either complete too or cannot be
      taken for complete;
    * not said (a master of release 3.1): as 3.1, nothing freezes, and ``Open`` waits only if its own data is not complete.
    """

    ASSEMBLED_ON_SECONDARY = True
    CHILDREN_NEEDED = 0
    DATA_CHILD = 0

    def __str__(self) -> str:
        # The logical id contains the shared secret.
        return f"{self.disk.dev_type} {self.disk.iv_name or self.disk.uuid} (minor {self.LocalMinor()})"

    def Peer(self) -> str | None:
        """Return one of ``constants.PEER_ALL``, or None from a master that does not know them."""
        return (self.disk.dynamic_params or {}).get(constants.PEER)

    def LocalMinor(self) -> int | None:
        return (self.disk.dynamic_params or {}).get("local-minor")

    def Obeying(self) -> AbstractContextManager[None]:
        """Lock the device for the block, in which it is made to obey ``Peer()``; raise BlockDeviceError in a late call.

        Whoever opens or connects the device, changes what it does on a lost link, or gives up its data, does so within.
        """
        minor, number = self.LocalMinor(), (self.disk.dynamic_params or {}).get(constants.DECISION)
        if not (isinstance(minor, int) and isinstance(number, int | None)):
            raise errors.BlockDeviceError(f"{self}: the call does not say which device of this node it is")
        return decisions.Obeying(str(self), minor, self.disk.uuid, number)

    def Stranger(self) -> str | None:
        """Return what has this device's number here without being this device, or what it is linked with in place of its
        other side; None where all is as the disk says.  Nothing of the kind is used, changed or counted.
        """
        return None

    def Follow(self) -> None:
        """Make an active device obey ``Peer()`` now, without waiting: freeze on a lost link or not, continue or not."""
        raise NotImplementedError

    def Release(self) -> None:
        """Fail the requests that wait on a frozen side that does not count, or whose own data may be incomplete; leave any
        other side alone.

        Whoever has it open must have been killed: a request whose data is on the local disk already is reported as done.
        """
        raise NotImplementedError

    @classmethod
    def States(cls) -> dict[int, MirrorState]:
        """Return the state of every mirror that is configured on this node, by minor."""
        raise NotImplementedError

    def DisconnectNet(self) -> None:
        """Disconnect from the other side; return when that is certain."""
        raise NotImplementedError

    def AttachNet(self, multimaster: bool) -> None:
        """Obey ``Peer()`` and have a link to the other side, without waiting for it; ``multimaster``: both may be open.

        A link that is there is kept if that can be changed on it: then no request of a user waits.
        """
        raise NotImplementedError

    def Connection(self) -> MirrorState:
        """Return the state of the link and of both sides, without waiting."""
        raise NotImplementedError

    def NeedsActivation(self) -> bool:
        """Return whether an active disk must be assembled again: it is missing, standalone or without local data."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class MirrorState:
    """The network side of a mirror (doc/reference/drivers.md a.4)."""

    connected: bool
    standalone: bool
    in_resync: bool
    local_uptodate: bool
    peer_uptodate: bool
    sync_percent: float | None = None
    # Open here; its I/O is suspended because the other side counts and is not there.
    primary: bool = False
    frozen: bool = False
    # Bytes; None where it cannot be told.
    size: int | None = None
    # Without a disk, or without some of its data: nobody can use it before it has been filled.
    incomplete: bool = False
    # The other side is connected, and open there.
    peer_primary: bool = False
    # The other side is known to lack some of the data, or was when the link was lost.
    peer_older: bool = False
    # The state of the local disk in the words of the program; None where it is not known.
    disk: str | None = None
    # What is there in its place (``Mirror.Stranger``): then everything else says that there is nothing,
    # but for ``primary`` of a device that is this one and has another's link.
    stranger: str | None = None


# Its statistics would be the last line of what dd says, where the reason of a failure is looked for.
_QUIETLY = "status=none"
# Past the cache does not mean durable: the extents of a sparse file and a disk's own cache need this too.
_DURABLY = "conv=nocreat,notrunc,fsync"


def BuildExport(path: str, mib: int, may_be_link: bool = True) -> list[str]:
    """Return the command that copies ``mib`` MiB of a device to standard output, past the cache."""
    return ["dd", f"if={path}", f"bs={BLOCK_BYTES}", f"count={mib}", f"iflag={_Direct(may_be_link)}", _QUIETLY]


def BuildImport(path: str, may_be_link: bool = True) -> list[str]:
    """Return the command that copies standard input to an existing device, past the cache and durably."""
    flags = ["iflag=fullblock", f"oflag={_Direct(may_be_link)}"]
    return ["dd", f"of={path}", f"bs={BLOCK_BYTES}", *flags, _DURABLY, _QUIETLY]


def BuildWipe(path: str, offset: int, size: int, may_be_link: bool = True) -> list[str]:
    """Return the command that writes zeros over ``size`` MiB from MiB ``offset``, durably."""
    return [
        "dd",
        "if=/dev/zero",
        f"seek={offset}",
        f"bs={BLOCK_BYTES}",
        f"oflag={_Direct(may_be_link)}",
        f"of={path}",
        f"count={size}",
        _DURABLY,
        _QUIETLY,
    ]


def _Direct(may_be_link: bool) -> str:
    return "direct" if may_be_link else "direct,nofollow"
