"""Mirrors of two nodes: template ``drbd`` (doc/design-drbd.rst, doc/reference/drivers.md a.4).

Logical id: both nodes, port, both minors, secret; children: data and metadata.  What this node sees of it comes in
``dynamic_params``: ``local-minor``, ``local-ip``, ``remote-ip`` and what counts of the other side.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence
from typing import Any

from ganeti import constants, errors, objects
from ganeti.storage import waiting
from ganeti.storage.base import BLOCK_BYTES, BlockDev, DeviceStatus, Mirror, MirrorState
from ganeti.storage.drivers import drbdmeta
from ganeti.storage.utilities import drbdtools
from ganeti.storage.utilities.drbdtools import Address, Config, Minor

_HANDSHAKE_SECONDS = 30.0
_DISCONNECT_SECONDS = 60.0
_DETACH_SECONDS = 20.0
# Until an open side without a disk is connected with the one that served it, if that is there.
_REJOIN_SECONDS = 15.0
# Until both sides have told each other how their disks are, after the handshake, and that one is closed.
_SETTLE_SECONDS = 3.0
# For processes that were killed: what they wrote last may be on its way to a slow disk, or to the other node.
_END_SECONDS = 60.0

_FENCING = {
    constants.PEER_COUNTS: drbdtools.FREEZE,
    constants.PEER_AHEAD: drbdtools.FREEZE,
    constants.PEER_BEHIND: drbdtools.GO_ALONE,
}


class Drbd(Mirror):
    """A device of the DRBD module.  It is found while it is configured, unless another device has its number."""

    IF_MISSING = "are the instance's disks active? 'cat /proc/drbd' shows what there is"

    # --- looking ------------------------------------------------------------------------------------------------------

    def Attach(self) -> bool:
        self._SetGone()
        minor = self.LocalMinor()
        state = None if minor is None else self._State()
        if state is None or not state.in_use or self._Stranger() is not None:
            return False
        self._SetFound(f"/dev/drbd{minor}", drbdtools.MAJOR, minor)
        return True

    def Status(self) -> DeviceStatus:
        state = self._Known()
        if state.diskless:
            ldisk = constants.LDS_FAULTY
        elif state.disk == drbdtools.UPTODATE:
            ldisk = constants.LDS_OKAY
        elif state.in_resync:
            ldisk = constants.LDS_SYNC
        else:
            ldisk = constants.LDS_UNKNOWN
        degraded = not state.connected or state.disk != drbdtools.UPTODATE
        return DeviceStatus(self.dev_path, self.major, self.minor, state.percent, state.estimate, degraded, ldisk)

    def Dimensions(self) -> tuple[int, int | None]:
        self._Path()
        return drbdtools.DeviceBytes(self._Minor()), None

    @property
    def if_missing(self) -> str:
        try:
            other = self._Stranger()
        except errors.BlockDeviceError:
            other = None
        return self.IF_MISSING if other is None else drbdtools.StrangerAdvice(other)

    def Connection(self) -> MirrorState:
        drbdtools.Refresh()
        return drbdtools.StateOf(self._Known())

    @classmethod
    def States(cls) -> dict[int, MirrorState]:
        return {number: drbdtools.StateOf(minor) for number, minor in drbdtools.Minors().items() if minor.in_use}

    def NeedsActivation(self) -> bool:
        state = self._State()
        if state is None or not state.in_use or state.standalone:
            return True
        # A disk that failed after the link did may crash the kernel when it is attached before that is back (design-drbd).
        return state.diskless and not (state.frozen and self.Peer() == constants.PEER_COUNTS)

    # --- life ---------------------------------------------------------------------------------------------------------

    def Create(self, size: int, exclusive: bool = False) -> None:
        self._CheckShared(exclusive)
        drbdtools.LoadedVersion()
        state = self._State()
        if state is not None and state.in_use:
            raise errors.BlockDeviceError(
                f"{self}: the number is in use already by {self._Config()}; it is left as it is. Look at it with"
                f" 'drbdsetup show {self._Minor()}'"
            )
        data, meta = self._Children()
        if data is None or meta is None:
            raise errors.BlockDeviceError(f"{self}: its data and metadata volumes must exist before it is created")
        if data.Dimensions()[0] < size * BLOCK_BYTES:
            raise errors.BlockDeviceError(f"{self}: its data volume is smaller than {size} MiB")
        drbdmeta.Make(str(self), meta, self._Minor())

    def Assemble(self) -> None:
        with self.Obeying():
            stranger = self._Stranger()
            if stranger is not None:
                raise errors.BlockDeviceError(f"{self}: {drbdtools.StrangerAdvice(stranger)}")
            state = self._State()
            if state is None or not state.in_use:
                self._Bring()
            else:
                self._Complete(state)
        if not self.Attach():
            raise errors.BlockDeviceError(f"{self}: is gone after its activation")

    def Open(self, force: bool = False, exclusive: bool = True) -> None:
        self._Path()
        if exclusive:
            # A node that died a moment ago still looks alive until the link's own time limit is over.
            self._WaitUntilClosedThere(_HANDSHAKE_SECONDS if self.Peer() == constants.PEER_BEHIND else _SETTLE_SECONDS)
        drbdtools.Refresh()
        self._CheckLink()
        self._CheckClosedThere(exclusive)
        waits = not (force or self._Known().primary)
        if waits and self.Peer() in (constants.PEER_COUNTS, constants.PEER_AHEAD):
            self._WaitForHandshake()
        elif waits and self._Known().disk == drbdtools.INCONSISTENT:
            # It can be used while the other side, whatever is recorded of it, fills the rest.
            self._WaitForLink(_HANDSHAKE_SECONDS)
        if not force:
            waiting.Until(lambda: self._MayBeOpened(self._Fresh()), _SETTLE_SECONDS)
        with self.Obeying():
            self._CheckClosedThere(exclusive)
            self._OpenNow(force)

    def _WaitUntilClosedThere(self, seconds: float) -> None:
        """Return when the other side is closed, which is known here a moment later, or the time is over."""
        waiting.Until(lambda: self._Fresh().peer_role != drbdtools.PRIMARY, seconds)

    def _CheckLink(self) -> None:
        away = self._ForeignLink()
        if away is not None and not self._Known().standalone:
            raise errors.BlockDeviceError(f"{self}: {drbdtools.LinkAdvice(away)}")

    def _CheckClosedThere(self, exclusive: bool) -> None:
        if exclusive and self._Known().peer_role == drbdtools.PRIMARY:
            raise errors.BlockDeviceError(f"{self}: is open on the other node; stop its use there first")

    def _OpenNow(self, force: bool) -> None:
        state = self._Known()
        if state.primary:
            if not (force or self._MayBeOpened(state)):
                raise self._NotOpened(state)
            self._FollowNow()
            return
        if force:
            self._Do("primary", "cannot be opened", "--force")
            return
        if not self._MayBeOpened(state):
            raise self._NotOpened(state)
        self._Promote(state)

    def _MayBeOpened(self, state: Minor) -> bool:
        """Return whether what the sides have is in order, or recorded; ``state``: after the handshake."""
        if self.Peer() == constants.PEER_AHEAD:
            if state.primary:
                # It stays open: a start may find it so.
                return True
            # Beside a side without a disk the kernel takes outdated data for complete.  What is known to be incomplete is
            # never used by itself: the other side serves all requests, or the rest.
            filled = state.connected and state.disk == drbdtools.UPTODATE
            served = state.agreed and state.disk in (drbdtools.DISKLESS, drbdtools.INCONSISTENT)
            return (filled or served) and state.peer_disk == drbdtools.UPTODATE
        if self.Peer() == constants.PEER_COUNTS and state.connected:
            return state.disk == state.peer_disk == drbdtools.UPTODATE
        return True

    def _NotOpened(self, state: Minor) -> errors.BlockDeviceError:
        return errors.BlockDeviceError(f"{self}: {drbdtools.OpenAdvice(state, self.Peer() == constants.PEER_AHEAD)}")

    def Close(self) -> None:
        state = self._State()
        if state is None or not state.in_use or not state.primary:
            return
        if state.frozen and self.Peer() == constants.PEER_AHEAD:
            with self.Obeying():
                if self._Known().frozen:
                    self._ReleaseNow()
                    self._Demote()
                    return
            state = self._Known()
        if state.frozen and state.pending:
            raise errors.BlockDeviceError(
                f"{self}: cannot be closed, {state.pending} requests wait for the other node, which is not connected."
                " Let the link come back, or have the master decide which side counts: 'gnt-cluster verify' says how"
            )
        # A program that looks at devices, as udev's do after each write, may have it open for a moment.
        self._Demote(drbdtools.HELD_OPEN)

    def Shutdown(self) -> None:
        drbdtools.Refresh()
        if not self.Attach():
            return
        self.Close()
        # What is taken down while it is connected lets a primary peer go on alone, without a record.
        self._CutOff()
        drbdtools.Act(drbdtools.Syntax().Down(self._Minor()), f"{self}: cannot be taken down")
        self._SetGone()

    def Remove(self) -> None:
        self.Shutdown()

    # --- change -------------------------------------------------------------------------------------------------------

    def Grow(self, amount: int, dry_run: bool, backing_store: bool, exclusive: bool = False) -> None:
        del exclusive
        self._CheckGrowth(amount)
        if backing_store or dry_run:
            return
        with self.Obeying():
            drbdtools.Enlarge(self._Minor(), self.disk.size + amount, str(self))
        self.Attach()

    def SetInfo(self, text: str) -> None:
        """Do nothing: the owner is noted on the volumes below."""

    def AddChildren(self, children: Sequence[BlockDev]) -> None:
        self._CheckDiskless()
        if len(children) != 2:
            raise errors.BlockDeviceError(f"{self}: needs a data and a metadata volume, got {len(children)}")
        for child in children:
            child.Open()
        self.children = list(children)
        with self.Obeying():
            self._CheckDiskless()
            # The program does not touch the metadata of a number that is configured.
            drbdmeta.Make(str(self), children[1], drbdtools.UnusedMinor())
            self._AttachDisk()
        self.Attach()

    def _CheckDiskless(self) -> None:
        if not self._Known().diskless:
            raise errors.BlockDeviceError(f"{self}: has local storage already; detach it first")

    def RemoveChildren(self, children: Sequence[objects.Disk]) -> None:
        named = [_PathOf(child) for child in children]
        with self.Obeying():
            if self._Known().diskless:
                return
            config = self._Config()
            if config is None or named != [config.data, config.meta]:
                raise errors.BlockDeviceError(
                    f"{self}: the volumes to detach ({', '.join(named)}) are not those it has"
                    f" ({config.data if config else 'none'}, {config.meta if config else 'none'})"
                )
            self._Detach()
        self.children = []
        self.Attach()

    def _Detach(self) -> None:
        """Take the volumes away; those of an open side only while the other one serves it.

        The kernel waits for the requests of an open device first.  Once the link is lost these wait for the other side, and
        so does every other command for the device.
        """
        state = self._Fresh()
        trouble = "its local storage cannot be detached"
        if state.primary and not (state.agreed and state.peer_disk == drbdtools.UPTODATE):
            raise errors.BlockDeviceError(
                f"{self}: {trouble}: the other side, which would serve the guest, is {state.peer_disk}, {state.connection}"
            )
        try:
            self._Do("detach", trouble, seconds=_DETACH_SECONDS)
        except errors.BlockDeviceError as err:
            if not self._Fresh().frozen:
                raise
            raise errors.BlockDeviceError(
                f"{err}; the link was lost meanwhile, and no command for the device ends until it is back. Bring the other"
                " node back, or restart this one"
            ) from err

    def PauseResumeSync(self, pause: bool) -> None:
        self._Path()
        if pause:
            self._Do("pause-sync", "its resync cannot be paused", bears=drbdtools.ALREADY_PAUSED)
        else:
            self._Do("resume-sync", "its resync cannot be resumed", bears=drbdtools.ALREADY_RUNS)

    # --- the link -----------------------------------------------------------------------------------------------------

    def Follow(self) -> None:
        drbdtools.Refresh()
        if self.Attach():
            with self.Obeying():
                self._FollowNow()

    def _FollowNow(self) -> None:
        config, policy = self._Config(), self._Policy()
        now = (config.fencing if config is not None else None) or drbdtools.GO_ALONE
        if policy is not None and policy != now and self._Known().has_disk:
            self._SetOptions(drbdtools.Syntax().Fencing(policy))
        self._Obey()
        self._SetNoDataPolicy()

    def Release(self) -> None:
        drbdtools.Refresh()
        if self.Attach():
            with self.Obeying():
                state, peer = self._Known(), self.Peer()
                # Otherwise the record decides about what waits.
                if (
                    state.frozen
                    and peer is not None
                    and (peer == constants.PEER_AHEAD or state.disk != drbdtools.UPTODATE)
                ):
                    self._ReleaseNow()

    def DisconnectNet(self) -> None:
        self._Path()
        self._CutOff()

    def _CutOff(self) -> None:
        if not self._DropLink():
            raise errors.BlockDeviceError(
                f"{self}: is still {self._Known().connection} after {_DISCONNECT_SECONDS:g} s of disconnecting; try again"
            )

    def AttachNet(self, multimaster: bool) -> None:
        drbdtools.Refresh()
        self._Path()
        self._CheckLink()
        if self._Ends() is None:
            raise errors.BlockDeviceError(f"{self}: the addresses of its link are not known")
        with self.Obeying():
            # With a new other side the record of the old one is gone.
            self._FollowNow()
            if not self._Permit(multimaster):
                self._Connect(multimaster)

    # --- steps --------------------------------------------------------------------------------------------------------

    def _Bring(self) -> None:
        """Configure a device of which the module knows nothing; if that fails, nothing of it stays."""
        made = False
        try:
            for argv in drbdtools.Syntax().Prepare(self._Minor()):
                drbdtools.Act(argv, f"{self}: cannot be made")
                made = True
            made = True
            self._SetNoDataPolicy()
            self._Equip()
        except errors.BlockDeviceError:
            if made:
                self._Undo()
            raise

    def _Equip(self) -> None:
        """Give a device that was just made its volumes and its link."""
        if self._UsableChildren() is not None:
            self._AttachDisk()
        elif self._Ends() is None:
            raise errors.BlockDeviceError(f"{self}: its volumes on this node cannot be used, and it has no link")
        else:
            logging.error("%s: comes up without local storage, the other node has to serve all requests", self)
        self._Obey()
        if self._Ends() is not None:
            self._Connect(False)

    def _Complete(self, state: Minor) -> None:
        """Add what is missing to a device that is configured, and have it obey its parameters."""
        if self._IsShort(state):
            # It was attached before its growth was recorded; its peer refuses it, and it does not grow alone.
            drbdtools.Act(drbdtools.Syntax().Down(self._Minor()), f"{self}: cannot be taken down to be made larger")
            self._Bring()
            return
        self._SetNoDataPolicy()
        if self._MayHaveMore(state):
            # While the link is up the kernel would never finish comparing the two; with a new one this side's data goes.
            if not self._DropLink():
                raise errors.BlockDeviceError(
                    f"{self}: its link cannot be dropped before its data is given up; try again"
                )
            state = self._Fresh()
        too_old = False
        if state.has_disk:
            self._SetOptions(self._ResyncOptions() + self._FencingOptions())
        elif state.diskless and self._UsableChildren() is not None:
            try:
                too_old = not self._AttachUnlessOld()
            except errors.BlockDeviceError:
                self._ConnectAgain()
                raise
        self._Obey()
        if self._NeedsNewLink():
            self._DropLink()
        self._ConnectAgain()
        if too_old:
            self._AttachToBeFilled()

    def _NeedsNewLink(self) -> bool:
        """Return whether there is a link that goes elsewhere, or that is not up and was made for something else.

        A migration that was cut off leaves both sides permitted to be open.  And that the data of a closed side may be
        discarded can only be said when the link is made.
        """
        config, state = self._Config(), self._Fresh()
        if config is None or config.remote is None:
            return False
        gives_way = self.Peer() == constants.PEER_AHEAD and not state.primary
        outlived = not state.agreed and (config.two_primaries or gives_way)
        return outlived or (config.local, config.remote) != self._Ends()

    def _ConnectAgain(self) -> None:
        if self._Ends() is not None and self._Fresh().standalone:
            self._Connect(False)

    def _MayHaveMore(self, state: Minor) -> bool:
        """Return whether the volumes of a closed side that does not count, which are to be attached, may have what the other lacks."""
        if self.Peer() != constants.PEER_AHEAD or state.primary:
            return False
        return state.disk == drbdtools.NEGOTIATING or (state.diskless and self._UsableChildren() is not None)

    def _AttachUnlessOld(self) -> bool:
        """Attach the volumes; return False if the device is open, and its users have seen newer data than these have."""
        try:
            self._AttachDisk()
        except errors.BlockDeviceError as err:
            if drbdtools.OLD_DATA not in str(err):
                raise
            return False
        return True

    def _AttachToBeFilled(self) -> None:
        """Attach the volumes of an open side that has lost the other one, which served it, once that is back."""
        self._WaitForLink(_REJOIN_SECONDS)
        if not (self._Known().agreed and self._AttachUnlessOld()):
            raise errors.BlockDeviceError(
                f"{self}: its data on this node is older than what the guest has seen, and the other node, which has it all,"
                f" is not connected ({self._Fresh().connection}); the guest waits for it. Bring that node back, then use"
                " 'gnt-instance activate-disks INSTANCE'"
            )

    def _IsShort(self, state: Minor) -> bool:
        """Return whether it is smaller than recorded, and may be taken down."""
        idle = not (state.primary or state.agreed or state.diskless)
        return idle and 0 < (drbdtools.SizeOf(self._Minor()) or 0) < self.disk.size * BLOCK_BYTES

    def _Undo(self) -> None:
        """Take down what was just brought up in vain."""
        try:
            drbdtools.Act(drbdtools.Syntax().Down(self._Minor()), f"{self}: cannot be taken down again")
        except errors.BlockDeviceError as err:
            logging.warning("%s", err)

    def _Obey(self) -> None:
        """Do what is recorded of the two sides, as far as it is not an option."""
        state = self._Fresh()
        # Without complete data of its own there is nothing to go on with: what waits would fail.
        if self.Peer() == constants.PEER_BEHIND and state.frozen and state.disk == drbdtools.UPTODATE:
            self._Do("resume-io", "cannot continue")
        elif self.Peer() == constants.PEER_AHEAD:
            self._StepBack(state)

    def _StepBack(self, state: Minor) -> None:
        """Keep this side, which does not count, from being used before it has been filled again."""
        # A primary cannot be marked: it stays frozen until it is closed.
        if not state.primary and not state.agreed and state.disk in (drbdtools.CONSISTENT, drbdtools.UPTODATE):
            self._Do("outdate", "its data cannot be marked as outdated")

    def _ReleaseNow(self) -> None:
        """Fail what waits on a device that was left behind, or lost its data, while it was open.

        Requests whose data is on the local disk already are reported as done: whoever has the device open must have been
        killed before, and ends now.
        """
        logging.warning("%s: has no data that counts while it is open; requests that wait are failed", self)
        self._SetNoDataPolicy(drbdtools.FAIL)
        self._Do("detach", "its local storage cannot be detached", "--force")
        self._Do("resume-io", "its requests cannot be ended")

    def _Demote(self, passing: str = "") -> None:
        """Make the device secondary; try again for a while after an error, if ``passing`` is in its text."""
        problems: list[errors.BlockDeviceError] = []

        def closed() -> bool:
            try:
                self._Do("secondary", "cannot be closed")
            except errors.BlockDeviceError as err:
                if passing not in str(err):
                    raise
                problems.append(err)
                return False
            return True

        if not waiting.Until(closed, _END_SECONDS):
            raise problems[-1]

    def _AttachDisk(self) -> None:
        data, meta = self._Children()
        assert data is not None and meta is not None
        params, syntax = self.disk.params, drbdtools.Syntax()
        options = syntax.Barriers(params.get("disabled-barriers", "n"), bool(params.get("disable-meta-flush")))
        options += self._FencingOptions() + self._Custom("disk-custom")
        commands = syntax.Attach(
            self._Minor(), data._Path(), meta._Path(), self.disk.size or None, options, self._ResyncOptions()
        )
        for argv in commands:
            drbdtools.Act(argv, f"{self}: its local storage cannot be attached")

    def _Permit(self, two_primaries: bool) -> bool:
        """Change on the link whether both sides may be open; return whether there is a link."""
        if self._Fresh().standalone:
            return False
        if self._Known().primary and not two_primaries:
            self._WaitUntilClosedThere(_SETTLE_SECONDS)
        if drbdtools.Syntax().CHANGES_LINK:
            try:
                argv = drbdtools.Syntax().Permit(self._Link(two_primaries))
                drbdtools.Act(argv, f"{self}: cannot be changed while it is connected")
            except errors.BlockDeviceError as err:
                # The other side may have refused the link since the look.
                if self._Fresh().standalone:
                    return False
                if drbdtools.OLD_PEER not in str(err):
                    raise
            else:
                return True
        config = self._Config()
        if config is not None and config.two_primaries == two_primaries:
            return True
        self._CutOff()
        return False

    def _Connect(self, two_primaries: bool) -> None:
        drbdtools.Act(
            drbdtools.Syntax().Connect(self._Minor(), self._Link(two_primaries)), f"{self}: cannot be connected"
        )

    def _Link(self, two_primaries: bool) -> drbdtools.Link:
        """Return how the sides are to be connected."""
        ends = self._Ends()
        assert ends is not None
        secret = self.unique_id[5] if len(self.unique_id) > 5 else None
        return drbdtools.Link(
            *ends,
            protocol="C" if two_primaries else self._Protocol(),
            secret=secret,
            two_primaries=two_primaries,
            # The record has chosen already which side's data goes.  An open side has none to give up if it is served.
            discard_own=self.Peer() == constants.PEER_AHEAD and not self._IsServed(self._Fresh()),
            custom=tuple(self._Custom("net-custom")),
        )

    @staticmethod
    def _IsServed(state: Minor) -> bool:
        """Return whether the side is open without complete data of its own; the kernel refuses it to give that up."""
        return state.primary and state.disk in (drbdtools.DISKLESS, drbdtools.INCONSISTENT)

    def _DropLink(self) -> bool:
        """Drop the link without agreeing with the other side on what that means; return whether it is gone."""
        config = self._Config()
        ends = (
            None if config is None or config.local is None or config.remote is None else (config.local, config.remote)
        )

        def gone() -> bool:
            if self._Fresh().standalone:
                return True
            if ends is not None:
                try:
                    argv = drbdtools.Syntax().Disconnect(self._Minor(), *ends)
                    drbdtools.Act(argv, f"{self}: cannot be disconnected")
                except errors.BlockDeviceError as err:
                    logging.warning("%s", err)
            return self._Fresh().standalone

        return waiting.Until(gone, _DISCONNECT_SECONDS)

    def _WaitForLink(self, seconds: float) -> None:
        """Return once both sides have compared their data, this one does not wait for the other, or the time is over."""

        def over() -> bool:
            state = self._Fresh()
            return state.agreed or state.standalone

        waiting.Until(over, seconds)

    def _WaitForHandshake(self) -> None:
        """Return once both sides have compared their data."""
        self._WaitForLink(_HANDSHAKE_SECONDS)
        state = self._Known()
        if state.agreed:
            return
        if state.standalone:
            raise errors.BlockDeviceError(
                f"{self}: the two sides are not connected (StandAlone): they may both have data that the other one lacks."
                " 'gnt-cluster verify' reports it with the command that chooses a side"
            )
        if self.Peer() == constants.PEER_AHEAD:
            raise self._NotOpened(state)
        raise errors.BlockDeviceError(
            f"{self}: the other side did not answer within {_HANDSHAKE_SECONDS:g} s ({state.connection}), and it may have"
            " newer data. Bring its node back; if it is lost, mark it offline with 'gnt-node modify --offline yes NODE'"
            " and try again"
        )

    def _Promote(self, state: Minor) -> None:
        # Whoever is connected serves a side that it fills.  One without a disk has compared nothing: beside it the kernel takes
        # any data for complete.
        filled = state.agreed and state.peer_disk == drbdtools.UPTODATE and not state.diskless
        if self.Peer() != constants.PEER_BEHIND or state.disk in (drbdtools.CONSISTENT, drbdtools.UPTODATE) or filled:
            self._Do("primary", "cannot be opened")
        elif state.disk == drbdtools.OUTDATED:
            self._Do("primary", "cannot be opened", "--force")
        else:
            raise errors.BlockDeviceError(
                f"{self}: its data on this node is not complete ({state.disk}), and the other side's does not count;"
                " restore the instance from a backup, or connect the node that has complete data"
            )

    # --- parameters ---------------------------------------------------------------------------------------------------

    def _ResyncOptions(self) -> list[str]:
        """Return the options; those that ``disk-custom`` sets stay as it set them when the disk was attached."""
        if self.disk.params.get("resync-rate") is None:
            return []
        # With 8.3, whose options have no "=", another command takes them.
        words = drbdtools.Syntax().Resync(self.disk.params)
        return [word for word in words if "=" not in word or not self._IsCustom(word.partition("=")[0])]

    def _IsCustom(self, option: str) -> bool:
        """Return whether ``disk-custom`` sets an option; the program takes shortened names."""
        given = {word.partition("=")[0] for word in self._Custom("disk-custom")}
        return any(len(name) > len("--") and option.startswith(name) for name in given)

    def _FencingOptions(self) -> list[str]:
        policy = self._Policy()
        return [] if policy is None else drbdtools.Syntax().Fencing(policy)

    def _Policy(self) -> str | None:
        """Return the policy on a lost link; None where it is left alone."""
        peer = self.Peer()
        if peer is None or not self._SetsPolicies():
            return None
        # The module does not connect with both, and who chose protocol A does not count on each write being there twice.
        return drbdtools.GO_ALONE if self._Protocol() == "A" else _FENCING[peer]

    def _SetsPolicies(self) -> bool:
        """Return whether it is ours to say what becomes of requests on a lost link, and without data."""
        return self.Peer() is not None and drbdtools.Syntax().CHANGES_FENCING and not self._IsCustom("--fencing")

    def _SetNoDataPolicy(self, policy: str = drbdtools.WAIT) -> None:
        """Have requests wait while neither side's data can be reached, instead of failing, which is the default.

        A guest that is served by the other side would see errors as soon as the link is lost.
        """
        if not self._SetsPolicies():
            return
        config = self._Config()
        if config is not None and (config.no_data or drbdtools.FAIL) == policy:
            return
        try:
            drbdtools.Act(
                drbdtools.Syntax().NoData(self._Minor(), policy), f"{self}: requests without data stay as they were"
            )
        except errors.BlockDeviceError as err:
            # Nothing that anybody waits for.
            logging.warning("%s", err)

    def _Protocol(self) -> str:
        """Return when a write counts as done: A (it is sent), B (it has arrived) or C (it is on both disks)."""
        return str(self.disk.params.get("protocol") or "C")

    def _Custom(self, name: str) -> list[str]:
        try:
            return shlex.split(self.disk.params.get(name) or "")
        except ValueError as err:
            raise errors.BlockDeviceError(
                f"{self}: the disk parameter {name} cannot be split into words: {err}"
            ) from err

    def _SetOptions(self, options: Sequence[str]) -> None:
        if options:
            drbdtools.Act(drbdtools.Syntax().Options(self._Minor(), options), f"{self}: its parameters cannot be set")

    # --- identity -----------------------------------------------------------------------------------------------------

    def _Minor(self) -> int:
        minor = self.LocalMinor()
        if minor is None:
            raise errors.BlockDeviceError(f"{self}: the master did not say which number it has on this node")
        return minor

    def _State(self) -> Minor | None:
        return drbdtools.Minors().get(self._Minor())

    def _Known(self) -> Minor:
        state = self._State()
        if state is None or not state.in_use:
            raise errors.BlockDeviceError(f"{self}: not active on this node; activate the instance's disks first")
        if not state.readable:
            raise errors.BlockDeviceError(
                f"{self}: {drbdtools.PROC_FILE} describes it in a way that cannot be read; look at it there"
            )
        return state

    def _Fresh(self) -> Minor:
        """Return the state now; a device that is not configured yet has neither disk nor link."""
        drbdtools.Refresh()
        state = self._State()
        if state is None or not state.in_use:
            return Minor(self._Minor(), drbdtools.STANDALONE, disk=drbdtools.DISKLESS)
        return state

    def _Config(self) -> Config | None:
        return drbdtools.Configs().get(self._Minor())

    def Stranger(self) -> str | None:
        if not drbdtools.Minors():
            return None
        other = self._Stranger()
        if other is not None:
            return drbdtools.StrangerAdvice(other)
        away = self._ForeignLink()
        return None if away is None else drbdtools.LinkAdvice(away)

    def _Stranger(self) -> Config | None:
        """Return what has this device's number or name but is not this device.

        It is ours if it has our name and our volumes.  Where it has none, or the master did not say which are ours, it is
        if it has our link; with neither volumes nor link it is by its name alone.
        """
        minor, configs = self._Minor(), drbdtools.Configs()
        name = f"resource{minor}"
        for config in configs.values():
            if config.resource == name and config.minor != minor:
                return config
        own = configs.get(minor)
        if own is None:
            return None
        if own.resource != name:
            return own
        if own.data is not None and self.disk.children:
            return None if self._HasOurVolumes(own) else own
        if own.remote is None:
            return None if own.data is None else own
        return None if (own.local, own.remote) == self._Ends() else own

    def _HasOurVolumes(self, own: Config) -> bool:
        data, meta = (*map(_PathOf, self.disk.children), None)[:2]
        return own.data == data and (own.meta is None or own.meta == meta)

    def _ForeignLink(self) -> Config | None:
        """Return this device as it is if its link goes elsewhere than to its other side."""
        own, ends = self._Config(), self._Ends()
        if own is None or own.remote is None or ends is None or (own.local, own.remote) == ends:
            return None
        return own

    def _Ends(self) -> tuple[Address, Address] | None:
        """Return both ends of the link; None while one of them is not known."""
        values = self.disk.dynamic_params or {}
        port = self.unique_id[2] if len(self.unique_id) > 2 else None
        local, remote = values.get("local-ip"), values.get("remote-ip")
        if port is None or not local or not remote:
            return None
        ends = drbdtools.MakeAddress(local, port), drbdtools.MakeAddress(remote, port)
        if ends[0].Family() != ends[1].Family():
            raise errors.BlockDeviceError(f"{self}: one of {local} and {remote} is an IPv4, the other an IPv6 address")
        return ends

    def _Children(self) -> tuple[BlockDev | None, BlockDev | None]:
        data, meta = (*self.children, None, None)[:2]
        return data, meta

    def _UsableChildren(self) -> tuple[BlockDev, BlockDev] | None:
        data, meta = self._Children()
        if data is None or meta is None:
            return None
        if not drbdtools.Readable(meta._Path()):
            logging.error("%s: its metadata volume %s cannot be read", self, meta)
            return None
        return data, meta

    def _Do(self, command: str, trouble: str, *options: str, **how: Any) -> None:
        """Run a command for the device; ``how``: as ``drbdtools.Act`` takes it."""
        drbdtools.Act(drbdtools.Syntax().Do(command, self._Minor(), *options), f"{self}: {trouble}", **how)


def _PathOf(child: objects.Disk) -> str:
    return "/dev/{}/{}".format(*child.logical_id)
