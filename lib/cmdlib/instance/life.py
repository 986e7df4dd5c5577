"""Removing, renaming and reinstalling an instance (doc/reference/drivers.md d.2)."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from typing import Any

from ganeti import errors, locking, objects, opcodes
from ganeti.cmdlib.base import Feedback, Filled
from ganeti.cmdlib.common import (
    STATE_DOWN,
    STATE_NOT_RUNNING,
    CheckInstanceState,
    CheckNodeOnline,
    ReleaseLocks,
    StillThere,
)
from ganeti.cmdlib.disk.devices import DiskNodes, InfoText, RemoveDisks, ShutdownDisks, StartDisks
from ganeti.cmdlib.disk.generate import CheckTemplateEnabled
from ganeti.cmdlib.disk.reserved import IsBegun
from ganeti.cmdlib.instance import image, untrusted
from ganeti.cmdlib.instance.base import AllOsParams, CheckNotForthcoming, CheckOs, InstanceLU
from ganeti.cmdlib.instance.create import CheckAddressIsFree, IsOsBlacklisted, NormalizeName, ResolveName
from ganeti.cmdlib.instance.moving.looking import LookAround
from ganeti.cmdlib.instance.room import IsShared
from ganeti.params import disk as disk_params


class LUInstanceRemove(InstanceLU[opcodes.OpInstanceRemove]):
    """Stops an instance and deletes it, disks and all."""

    LOCKS_NODES = True
    LOCKS_RES = True

    _bare = False

    def ExpandNames(self) -> None:
        found = self.snapshot.ExpandName("instance", self.op.instance_name)
        known = found is not None and self.op.instance_uuid in (None, found.uuid)
        self._bare = known and self.snapshot.IsBare(found)
        if not self._bare:
            super().ExpandNames()
            return
        # Nothing of it is on nodes, and without a name it has no lock: no job can do anything else with it.
        self.op.instance_name, self.op.instance_uuid = found.known_as, found.uuid
        self.needed_locks = {locking.LEVEL_INSTANCE: [found.name] if found.name else []}

    def OwnEnv(self) -> dict[str, Any]:
        return {"SHUTDOWN_TIMEOUT": self.op.shutdown_timeout}

    def BuildHooksEnv(self) -> dict[str, Any]:
        if self._bare:
            return {**self.OwnEnv(), "INSTANCE_NAME": self.instance.known_as}
        # Afterwards the instance does not exist: the scripts get its last state.
        if self.instance.uuid in self.snapshot.instances:
            self._env = super().BuildHooksEnv()
        return self._env

    def CheckPrereq(self) -> None:
        if self._bare:
            found = self.snapshot.instances.get(Filled(self.op.instance_uuid))
            self.instance = StillThere(found, "Instance", self.op.instance_name)
            self._all_nodes: list[str] = []
            return
        super().CheckPrereq()
        self._all_nodes = list(self.snapshot.AllNodes(self.instance))
        if not self.instance.forthcoming and not self.op.ignore_failures:
            situation = LookAround(self, self.instance)
            if not situation.StopsWith(self.instance.primary_node):
                raise situation.Refusal("cannot be removed")

    def BuildHooksNodes(self) -> tuple[Iterable[str], Iterable[str]]:
        master = self.snapshot.cluster.master_node
        return [master], [*self._all_nodes, master]

    def Exec(self, feedback: Feedback) -> None:
        instance = self.instance
        if not instance.forthcoming:
            self._Stop(instance)
        if not self._bare and (not instance.forthcoming or IsBegun(self.snapshot, instance)):
            self.LogInfo(f"Removing block devices of instance {instance.name}")
            RemoveInstanceDisks(self, instance, self.op.ignore_failures)
        self.LogInfo(f"Removing instance {instance.known_as} from the cluster's configuration")
        self.cfg.RemoveInstance(instance.uuid)
        if instance.name is not None:
            self.remove_locks[locking.LEVEL_INSTANCE] = instance.name

    def _Stop(self, instance: objects.Instance) -> None:
        result = self.rpc.call_instance_shutdown(
            instance.primary_node, instance, self.op.shutdown_timeout, self.op.reason
        )
        if self.op.ignore_failures:
            result.Warn(f"Instance {instance.name} could not be shut down", self.LogWarning)
        else:
            result.Raise(f"Instance {instance.name} could not be shut down on node {result.node_name}")


def RemoveInstanceDisks(lu: InstanceLU, instance: objects.Instance, ignore_failures: bool) -> None:
    """Remove the devices; raise OpExecError if some are left, unless that is to be ignored."""
    if RemoveDisks(lu, instance):
        return
    if not ignore_failures:
        raise errors.OpExecError(
            f"Can't remove the disks of instance {instance.name}",
            hint=f"repair the nodes and try again, or use 'gnt-instance remove --ignore-failures {instance.name}'",
        )
    lu.LogWarning("Can't remove instance's disks, what is left must be removed by hand")


class LUInstanceRename(InstanceLU[opcodes.OpInstanceRename]):
    """Gives a stopped instance another name; holds the locks of both names, and leaves only that of the new one."""

    def CheckArguments(self) -> None:
        if self.op.ip_check and not self.op.name_check:
            raise errors.OpPrereqError("IP address check requires a name check", errors.ECODE_INVAL)
        self.op.new_name = NormalizeName(self.op.new_name)
        self._address: str | None = None
        if self.op.name_check:
            self.op.new_name, self._address = ResolveName(self, self.op.new_name)

    def ExpandNames(self) -> None:
        super().ExpandNames()
        self._CheckUnused()
        self.add_locks[locking.LEVEL_INSTANCE] = self.op.new_name

    def OwnEnv(self) -> dict[str, Any]:
        return {"INSTANCE_NEW_NAME": self.op.new_name}

    def NodesToConfirm(self) -> set[str]:
        return self.OnlineNodes(self.snapshot.AllNodes(self.instance))

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        instance, snapshot = self.instance, self.snapshot
        CheckNotForthcoming(instance)
        template = snapshot.DiskTemplate(instance)
        if disk_params.With(file_based=True) & {template}:
            CheckTemplateEnabled(snapshot, template)
        CheckNodeOnline(snapshot.nodes[instance.primary_node])
        CheckInstanceState(self, instance, STATE_NOT_RUNNING)
        self._CheckUnused()
        if self.op.ip_check and self._address is not None:
            CheckAddressIsFree(self._address, self.op.new_name)

    def _CheckUnused(self) -> None:
        if self.snapshot.InstanceByName(self.op.new_name) is not None:
            raise errors.OpPrereqError(f"Instance '{self.op.new_name}' is already in the cluster", errors.ECODE_EXISTS)

    def Exec(self, feedback: Feedback) -> str:
        old_name, new_name = self.instance.name, self.op.new_name
        old_directory = self._FileDirectory()
        if old_directory is not None:
            self._CheckDirectory(old_directory)
        instance = self.cfg.RenameInstance(self.instance.uuid, new_name)
        # From now on the lock of the new name is the instance's, and goes on being held; whoever waits for the other learns
        # that it is gone.
        self.remove_locks[locking.LEVEL_INSTANCE] = Filled(old_name)
        if old_directory is not None:
            self._RenameDirectory(instance, old_directory, old_name)
        StartDisks(self, instance, force=False)
        try:
            self._TellDevices(instance)
            result = self.rpc.call_instance_run_rename(
                instance.primary_node, instance, old_name, Filled(self.op.debug_level)
            )
            result.Warn(
                f"Could not run OS rename script for instance {new_name} on node {result.node_name}"
                " (but the instance has been renamed in Ganeti)",
                self.LogWarning,
            )
        finally:
            ShutdownDisks(self, instance)
        return new_name

    def _FileDirectory(self) -> str | None:
        """Return the directory of the disks' files, where it has the instance's name."""
        found = [disk_params.Of(disk).Directory(disk) for disk in self.snapshot.InstanceDisks(self.instance)]
        return next((directory for directory in found if directory), None)

    def _CheckDirectory(self, old: str) -> None:
        """Raise OpExecError if something is where the directory goes; an empty one, as a conversion may leave, is removed."""
        instance, new = self.instance, posixpath.join(posixpath.dirname(old), self.op.new_name)
        result = self.rpc.call_file_storage_dir_remove(instance.primary_node, new)
        if result.fail_msg and self._IsInPlace():
            raise errors.OpExecError(
                f"Directory '{new}' on node {result.node_name} is in the way of the disks of instance {instance.name};"
                f" nothing was changed: {result.fail_msg}",
                hint=f"'ls -l {new}' on node {result.node_name} shows what is there; 'gnt-cluster verify' names what belongs"
                " to an instance",
            )

    def _IsInPlace(self) -> bool:
        """Return whether the files lie under the instance's present name, for all that is known.

        They do not after a renaming that was cut off, which this one takes back.
        """
        disk = self.snapshot.InstanceDisks(self.instance)[0]
        result = self.rpc.call_blockdev_find(self.instance.primary_node, (disk, self.instance))
        return bool(result.fail_msg or result.payload)

    def _RenameDirectory(self, instance: objects.Instance, old: str, old_name: str) -> None:
        new = posixpath.join(posixpath.dirname(old), instance.name)
        result = self.rpc.call_file_storage_dir_rename(instance.primary_node, old, new)
        if result.fail_msg:
            raise errors.OpExecError(
                f"Could not rename on node {result.node_name} directory '{old}' to '{new}'"
                f" (but the instance has been renamed in Ganeti): {result.fail_msg}",
                hint=f"'gnt-instance rename {instance.name} {old_name}' gives the instance its old name back",
            )

    def _TellDevices(self, instance: objects.Instance) -> None:
        for disk in self.snapshot.InstanceDisks(instance):
            for node_uuid in DiskNodes(self, instance, disk):
                result = self.rpc.call_blockdev_setinfo(node_uuid, (disk, instance), InfoText(instance))
                result.Warn(f"Error setting info on node {result.node_name} for disk {disk.iv_name}", self.LogWarning)


class LUInstanceReinstall(InstanceLU[opcodes.OpInstanceReinstall]):
    """Installs a stopped instance again, by its operating system's scripts or from an image, or only checks whether it could.

    A job that stops the instance first begins with such a check, so that a mistake is found while the guest still runs.
    """

    def ExpandNames(self) -> None:
        super().ExpandNames()
        assert self.needed_locks is not None
        if self.snapshot.cluster.install_image:
            self.needed_locks[locking.LEVEL_NODE_RES] = []

    def DeclareLocks(self, level: int) -> None:
        """A helper, if one is needed, takes memory of the primary node."""
        if level == locking.LEVEL_NODE_RES:
            assert self.needed_locks is not None
            instance = self.snapshot.instances.get(Filled(self.op.instance_uuid))
            self.needed_locks[level] = [instance.primary_node] if instance is not None else []

    @property
    def HPATH(self) -> str | None:
        return None if self.op.check_only else super().HPATH

    def CheckPrereq(self) -> None:
        super().CheckPrereq()
        instance, snapshot = self.instance, self.snapshot
        CheckNotForthcoming(instance)
        CheckNodeOnline(snapshot.nodes[instance.primary_node], "Instance primary node offline, cannot reinstall")
        if not instance.disks:
            raise errors.OpPrereqError(f"Instance '{instance.name}' has no disks, cannot reinstall", errors.ECODE_INVAL)
        if not self.op.check_only:
            CheckInstanceState(self, instance, STATE_DOWN)
        self._Plan(instance)

    def _Plan(self, instance: objects.Instance) -> None:
        """Return the instance as it will be: its OS and own parameters, checked on the primary node."""
        op = self.op
        os_name = op.os_type or instance.os
        public = {**instance.osparams, **{k: str(v) for k, v in (op.osparams or {}).items()}}
        if op.os_type is not None and not (op.osparams or {}).get(image.OS_IMAGE):
            public.pop(image.OS_IMAGE, None)  # the system that was named counts
        disks = self.snapshot.InstanceDisks(instance)
        self._image = image.ImageOf(public, disks)
        if self._image:
            image.CheckImage(self, instance.primary_node, self._image, disks[0].size)
        elif not os_name:
            raise errors.OpPrereqError(
                f"Instance '{instance.name}' has no operating system", errors.ECODE_INVAL, hint="name one"
            )
        if op.os_type is not None and IsOsBlacklisted(self.snapshot.cluster, os_name):
            raise errors.OpPrereqError(f"Guest OS '{os_name}' is not allowed for installation", errors.ECODE_STATE)
        private = {**instance.osparams_private, **{k: str(v) for k, v in (op.osparams_private or {}).items()}}
        self._planned = instance.Replace(os=os_name, osparams=public, osparams_private=private)
        self._os_params = AllOsParams(self.snapshot, self._planned, secret=op.osparams_secret)
        if os_name:
            CheckOs(self, [instance.primary_node], os_name, self._os_params, op.force_variant, required=not self._image)
        self._needs_helper = not self._image and untrusted.NeedsHelper(self, self._planned, len(disks))

    def Exec(self, feedback: Feedback) -> None:
        if self.op.check_only:
            return
        if not (self._needs_helper and IsShared(self.snapshot, self.instance.primary_node)):
            ReleaseLocks(self, locking.LEVEL_NODE_RES)
        if self._planned.os != self.instance.os:
            feedback(f"Changing OS to '{self._planned.os}'...")
        instance = self.cfg.Update(self._planned, self.ec_id)
        StartDisks(self, instance, force=False)
        helper = None
        try:
            current = self.snapshot.instances[instance.uuid]
            if self._image:
                feedback(f"Filling the first disk from {self._image}...")
                image.Fill(self, current, self.snapshot.InstanceDisks(current)[0], self._image)
                return
            debug = Filled(self.op.debug_level)
            if self._needs_helper:
                extra = {"INSTANCE_REINSTALL": "1", "DEBUG_LEVEL": str(debug)}
                helper = untrusted.Installing(self, current, feedback, self._os_params, extra)
                helper.Run(untrusted.START_SECONDS, untrusted.END_SECONDS)
                return
            feedback("Running the instance OS create scripts...")
            result = self.rpc.call_instance_os_add(instance.primary_node, (current, self._os_params), True, debug)
            result.Raise(f"Could not install OS for instance {instance.name} on node {result.node_name}")
        finally:
            if helper is None or not helper.may_run:
                ShutdownDisks(self, instance)
