"""The KVM driver: guests as QEMU processes (doc/reference/drivers.md b.3)."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ganeti import _autoconf, constants, errors, objects, pathutils, runtime
from ganeti.hypervisor import base
from ganeti.hypervisor.kvm import (
    caps,
    cmdline,
    confine,
    devices,
    display,
    hotplug,
    incoming,
    layout,
    migration,
    network,
    probe,
    qmp,
    runfile,
    screen,
    tuning,
)
from ganeti.params import hv, runstate

_MIB = 1024 * 1024
_MAX_MEMORY = 2**50
# Preallocating much memory takes its time.
_START_SECONDS = 600.0
_REBOOT_SECONDS = 120.0
_ASK_AGAIN_SECONDS = 5.0
_LEAST_SECONDS = 0.5
_LOOK_QUESTIONS = ("query-status", "query-migrate")
_INFO_QUESTIONS = ("query-status", "query-cpus-fast", "query-balloon")
_IO_URING_VERSION = (5, 0, 0)
_ERROR_CHARS = 2000
_MACHINE_NOISE = re.compile(r"^qemu-system-\S+: warning: .*$", re.MULTILINE)


class KvmHypervisor(base.Hypervisor):
    """Each guest is one QEMU process that answers on a QMP socket."""

    NAME = constants.HT_KVM
    CAN_MIGRATE = True

    # --- starting -----------------------------------------------------------------------------------------------------

    def Start(self, instance: objects.Instance, disks: Sequence[base.GuestDisk], paused: bool) -> None:
        self._CheckNotRunning(instance.name, "start")
        hvp = instance.hvparams
        known = caps.Get(hvp["kvm_path"])
        accel = self._Accelerator(hvp)
        if accel == cmdline.ACCEL_TCG and hvp["kvm_flag"] == "":
            logging.warning("Instance %s: no usable KVM on this node, running it in software emulation", instance.name)
        command = cmdline.BuildSaved(instance, known, accel)
        machine = cmdline.FindOption(command, "-machine") or ""
        places = devices.Places(hvp, machine, [entry.disk.hvinfo for entry in disks])
        nics = tuple(devices.PlaceNic(nic, hvp, places) for nic in instance.nics)
        placed = tuple(
            base.GuestDisk(devices.PlaceDisk(entry.disk, hvp, places), entry.path, entry.uri) for entry in disks
        )
        content = runfile.RunFile(tuple(command), nics, dict(hvp), placed)
        self._StartFrom(instance, content, known)
        try:
            self._LetGo(instance, paused)
        except errors.HypervisorError:
            self.Stop(instance, force=True)
            self.Cleanup(instance.name)
            raise

    def _StartFrom(
        self,
        instance: objects.Instance,
        content: runfile.RunFile,
        known: caps.Capabilities,
        arriving: bool = False,
    ) -> None:
        """Start a held guest; a failure leaves nothing behind."""
        name = instance.name
        layout.MakeDirs()
        layout.RemoveFiles(name)
        runfile.Save(name, content)
        try:
            with confine.User(name, instance.hvparams) as user:
                self._Execute(instance, content, known, user, arriving)
        except BaseException:
            process = layout.FindProcess(name)
            if process is not None:
                layout.Kill(name, process)
            self.Cleanup(name)
            raise

    def _Execute(
        self,
        instance: objects.Instance,
        content: runfile.RunFile,
        known: caps.Capabilities,
        user: str | None,
        arriving: bool,
    ) -> None:
        name, hvp = instance.name, content.Effective(instance.hvparams)
        facts = cmdline.LocalFacts(
            pid_file=layout.PidFile(name),
            qmp_socket=layout.Socket(name, layout.QMP),
            look_socket=layout.Socket(name, layout.LOOK),
            log_file=layout.LogFile(name),
            serial_socket=layout.Socket(name, layout.SERIAL) if hvp["serial_console"] else None,
            agent_socket=layout.Socket(name, layout.AGENT) if hvp["use_guest_agent"] else None,
            user=user,
            chroot=confine.MakeChroot(name, hvp),
            incoming="defer" if arriving else None,
            screen=screen.Build(instance.Replace(hvparams=hvp), known),
        )
        argv = [hvp["kvm_path"], *content.command[1:]]
        argv += cmdline.BuildLocal(hvp, known, facts)
        argv += devices.BuildRemovable(hvp)
        for index, entry in enumerate(content.disks):
            argv += devices.BuildDisk(entry, devices.IsBlock(entry), hvp, devices.DiskBootIndex(index, hvp))
        layout.EmptyLog(name)
        taps = []
        try:
            for index, nic in enumerate(content.nics):
                driver = str(devices.Placed(nic.hvinfo, f"NIC {index}")["driver"])
                tap = network.OpenTap(bool(hvp["vnet_hdr"]) and driver == "virtio-net-pci", devices.Queues(driver, hvp))
                taps.append(tap)
                argv += devices.BuildNic(
                    nic, tap.fds, network.CanVhost(name, hvp, driver), devices.NicBootIndex(index, hvp)
                )
                # A routed address must not lead here while the guest still runs elsewhere.
                if not arriving or nic.nicparams.get("mode") != constants.NIC_MODE_ROUTED:
                    network.Configure(instance, nic, index, tap.name)
                else:
                    network.Remember(name, index, tap.name)
            if not content.nics:
                argv += ["-net", "none"]
            result = runtime.RunCmd(argv, timeout=_START_SECONDS, pass_fds=[fd for tap in taps for fd in tap.fds])
        finally:
            for tap in taps:
                tap.Close()
        if result.failed:
            logging.error("Instance %s: start failed: %s", name, result.fail_reason)
            trouble = StartTrouble(result.stderr + layout.ReadLog(name))
            raise errors.HypervisorError(f"Failed to start instance {name}: {trouble}")
        if layout.NoteProcess(name) is None:
            raise errors.HypervisorError(
                f"Failed to start instance {name}: QEMU ended at once; its log is {layout.LogFile(name)}"
            )

    def _LetGo(self, instance: objects.Instance, paused: bool) -> None:
        """Set what can only be set while the guest exists, then let it run."""
        hvp = instance.hvparams
        with self._Monitor(instance.name) as monitor:
            screen.SetPasswords(monitor, hvp)
            tuning.Pin(monitor, instance.name, self._Process(instance.name).pid, hvp)
            memory = base.StartMemory(instance, self.NodeInfo()["memory_free"])
            if memory < int(instance.beparams["maxmem"]):
                monitor.Execute("balloon", {"value": memory * _MIB})
            if not paused:
                monitor.Execute("cont")

    def _Accelerator(self, hvp: Mapping[str, Any]) -> str:
        if hvp["kvm_flag"] == "enabled":
            return cmdline.ACCEL_KVM
        if hvp["kvm_flag"] == "disabled":
            return cmdline.ACCEL_TCG
        return cmdline.ACCEL_KVM if probe.KvmWorks(hvp["kvm_path"]) else cmdline.ACCEL_TCG

    # --- stopping -----------------------------------------------------------------------------------------------------

    def Stop(
        self, instance: objects.Instance, force: bool = False, retry: bool = False, timeout: float | None = None
    ) -> None:
        process = layout.FindProcess(instance.name)
        if process is None:
            return
        if force or not instance.hvparams.get("acpi", True):
            layout.Kill(instance.name, process)
            return
        patience = qmp.CONNECT_TIMEOUT if timeout is None else min(qmp.CONNECT_TIMEOUT, max(timeout, _LEAST_SECONDS))
        with self._Monitor(instance.name, patience) as monitor:
            status = monitor.Execute("query-status", timeout=patience)
            if migration.RunState(status) == runstate.ENDED:
                monitor.Quit()  # the guest is down, only its process waits
            else:
                monitor.Execute("system_powerdown", timeout=patience)

    def EndNow(self, instance: objects.Instance) -> None:
        process = layout.FindProcess(instance.name)
        if process is not None:
            layout.Kill(instance.name, process, at_once=True)

    def Cleanup(self, instance_name: str) -> None:
        if layout.FindProcess(instance_name) is not None:
            raise errors.HypervisorError(f"Instance {instance_name} is still running; its files stay")
        try:
            network.Unconfigure(runfile.Load(instance_name).nics, instance_name)
        except errors.HypervisorError as err:
            logging.debug("%s", err)
        layout.RemoveFiles(instance_name)
        confine.Release(instance_name)

    def Reboot(self, instance: objects.Instance) -> None:
        """Stop and start it with the virtual hardware it had: a reset would keep the old QEMU."""
        self._Process(instance.name)
        content = runfile.Load(instance.name)
        if content.is_of_another_release:
            raise errors.HypervisorError(
                f"Instance {instance.name} was started by another release and cannot be started again in the same way;"
                f" use 'gnt-instance reboot -t hard {instance.name}'"
            )
        known = caps.Get(instance.hvparams["kvm_path"])
        self._StopAndWait(instance)
        self.Cleanup(instance.name)
        self._StartFrom(instance, content, known)
        self._LetGo(instance, False)

    def _StopAndWait(self, instance: objects.Instance) -> None:
        """Ask again and again: a guest that is just booting ignores the first request."""
        deadline = runtime.Monotonic() + _REBOOT_SECONDS
        process = self._Process(instance.name)
        try:
            while runtime.Monotonic() < deadline:
                self.Stop(instance)
                if runtime.WaitProcess(process.pid, _ASK_AGAIN_SECONDS):
                    return
        except errors.HypervisorError as err:
            logging.warning("Instance %s does not take a request to stop, ending it: %s", instance.name, err)
        self.Stop(instance, force=True)

    # --- looking ------------------------------------------------------------------------------------------------------

    def List(self, hvparams: base.HvParams | None = None) -> list[str]:
        return [name for name in layout.Names() if layout.FindProcess(name) or self._UserStopped(name)]

    def Exists(self, instance_name: str) -> bool:
        return layout.FindProcess(instance_name) is not None or self._UserStopped(instance_name)

    def Info(self, instance_name: str, hvparams: base.HvParams | None = None) -> base.GuestInfo | None:
        return next(iter(self._InfoOf([instance_name])), None)

    def AllInfo(self, hvparams: base.HvParams | None = None) -> list[base.GuestInfo]:
        return self._InfoOf(layout.Names())

    def _InfoOf(self, names: Sequence[str]) -> list[base.GuestInfo]:
        """Ask all of them at once; one that does not answer in time is there, and unresponsive."""
        processes = {name: layout.FindProcess(name) for name in names}
        answers = qmp.AskMany({name: _LookSocket(name) for name, found in processes.items() if found}, _INFO_QUESTIONS)
        rows = []
        for name, process in processes.items():
            if process is not None:
                rows.append(_ReadInfo(name, process, answers[name]))
            elif self._UserStopped(name):
                rows.append(base.GuestInfo(name, -1, 0, 0, constants.INST_USER_SHUTDOWN, run_state=runstate.ENDED))
        return rows

    def Look(self, instance_name: str) -> base.Look:
        process = layout.FindProcess(instance_name)
        if process is None:
            return base.Look(runstate.GONE, load_failed=migration.LoadFailed(layout.ReadLog(instance_name)))
        answers = qmp.AskMany({instance_name: _LookSocket(instance_name)}, _LOOK_QUESTIONS)[instance_name]
        if answers is None:
            # It may have ended while it was asked.
            still = layout.FindProcess(instance_name)
            return base.Look(runstate.UNRESPONSIVE, process.pid) if still else self.Look(instance_name)
        state = migration.RunState(answers["query-status"])
        return base.Look(state, process.pid, migration.IsSending(state, answers["query-migrate"]))

    def Balloon(self, instance: objects.Instance, memory: int) -> None:
        self._Process(instance.name)
        with self._Monitor(instance.name) as monitor:
            monitor.Execute("balloon", {"value": memory * _MIB})

    def Console(self, instance: objects.Instance, node_name: str, ssh_port: int) -> base.Console:
        name, hvp = instance.name, instance.hvparams
        if hvp["serial_console"]:
            command = (
                pathutils.KVM_CONSOLE_WRAPPER,
                _autoconf.SOCAT_PATH,
                name,
                layout.Socket(name, layout.QMP),
                constants.CONSOLE_SOCAT_OPTIONS,
                f"UNIX-CONNECT:{layout.Socket(name, layout.SERIAL)}",
            )
            return base.Console(
                name, base.CONSOLE_SSH, host=node_name, port=ssh_port, user=_autoconf.SSH_LOGIN_USER, command=command
            )
        port = instance.network_port or 0
        vnc = display.ParseBind(hvp["vnc_bind_address"]) if hvp["vnc_bind_address"] else None
        if hvp["vnc_bind_address"] and port > constants.VNC_BASE_PORT and not (vnc and vnc.family == 0):
            number = port - constants.VNC_BASE_PORT
            return base.Console(
                name, base.CONSOLE_VNC, host=screen.HostToShow(vnc, node_name), port=port, display=number
            )
        if hvp["spice_bind"] and port:
            host = screen.HostToShow(display.ParseBind(hvp["spice_bind"]), node_name)
            return base.Console(name, base.CONSOLE_SPICE, host=host, port=port)
        return base.Console(name, base.CONSOLE_MESSAGE, message=f"No serial shell for instance {name}")

    # --- migration ----------------------------------------------------------------------------------------------------

    def MigrationInfo(self, instance: objects.Instance) -> str | None:
        self._Process(instance.name)
        content = runfile.Load(instance.name)
        if content.is_of_another_release:
            raise errors.HypervisorError(
                f"Instance {instance.name} was started by another release and cannot be migrated before its next start;"
                f" use 'gnt-instance reboot -t full {instance.name}', or fail it over"
            )
        incoming.CheckUnchanged(instance, content, caps.Get(instance.hvparams["kvm_path"]))
        return content.Text()

    def Accept(
        self, instance: objects.Instance, info: str | None, target: str, disks: Sequence[base.GuestDisk]
    ) -> None:
        self._CheckNotRunning(instance.name, "accept")
        known = caps.Get(instance.hvparams["kvm_path"])
        content = incoming.Build(instance, info, known, disks)
        self._StartFrom(instance, content, known, arriving=True)
        try:
            with self._Monitor(instance.name) as monitor:
                screen.SetPasswords(monitor, instance.hvparams)
                migration.Listen(monitor, instance.hvparams, target)
        except errors.HypervisorError:
            self.Stop(instance, force=True)
            self.Cleanup(instance.name)
            raise

    def Migrate(self, cluster_name: str, instance: objects.Instance, target: str, live: bool) -> None:
        self._Process(instance.name)
        with self._Monitor(instance.name) as monitor:
            migration.Send(monitor, instance.hvparams, target, live)

    def MigrationStatus(self, instance: objects.Instance) -> base.MigrationProgress:
        if layout.FindProcess(instance.name) is None:
            return base.MigrationProgress(base.MIGRATION_FAILED)
        with self._Monitor(instance.name) as monitor:
            return migration.Progress(monitor, instance.hvparams, instance.name)

    def WaitArrived(self, instance: objects.Instance, info: str | None) -> None:
        process = self._Process(instance.name)
        with self._Monitor(instance.name) as monitor:
            migration.WaitArrived(monitor, instance.name)
            tuning.Pin(monitor, instance.name, process.pid, instance.hvparams)
        for index, nic in enumerate(runfile.Load(instance.name).nics):
            if nic.nicparams.get("mode") == constants.NIC_MODE_ROUTED:
                network.Configure(instance, nic, index, network.Recall(instance.name, index))

    def Hold(self, instance: objects.Instance) -> None:
        self._Process(instance.name)
        with self._Monitor(instance.name, qmp.LOOK_TIMEOUT) as monitor:
            if migration.RunState(monitor.Execute("query-status")) == runstate.ARRIVING:
                monitor.Execute("stop", timeout=qmp.LOOK_TIMEOUT)

    def Resume(self, instance: objects.Instance) -> None:
        self._Process(instance.name)
        with self._Monitor(instance.name) as monitor:
            migration.Resume(monitor, instance.name)

    # --- running guests change ----------------------------------------------------------------------------------------

    def HotplugSupported(self, instance: objects.Instance) -> None:
        if layout.FindProcess(instance.name) is None:
            raise errors.HotplugError(f"Instance {instance.name} is not running, there is nothing to plug into")

    def HotAdd(
        self, instance: objects.Instance, kind: str, device: objects.Disk | objects.NIC, extra: Any, seq: int
    ) -> None:
        with self._Monitor(instance.name) as monitor:
            hotplug.Add(monitor, instance, device, extra, seq)

    def HotRemove(
        self, instance: objects.Instance, kind: str, device: objects.Disk | objects.NIC, seq: int
    ) -> dict[str, Any]:
        with self._Monitor(instance.name) as monitor:
            return hotplug.Remove(monitor, instance.name, device)

    def HotModify(
        self, instance: objects.Instance, kind: str, device: objects.Disk | objects.NIC, extra: Any, seq: int
    ) -> None:
        if kind != base.HOTPLUG_NIC:
            return  # the link of a running disk never changes
        info = self.HotRemove(instance, kind, device, seq)
        self.HotAdd(instance, kind, device.Replace(hvinfo=info), extra, seq)

    def ResizeDisk(self, instance: objects.Instance, disk: objects.Disk, new_size: int) -> None:
        with self._Monitor(instance.name) as monitor:
            hotplug.Resize(monitor, instance.name, disk, new_size)

    # --- the node -----------------------------------------------------------------------------------------------------

    def NodeInfo(self, hvparams: base.HvParams | None = None) -> dict[str, Any]:
        info = super().NodeInfo(hvparams)
        path = (hvparams or {}).get("kvm_path")
        if path:
            info["hv_version"] = list(caps.Get(path).version)
        return info

    def Verify(self, hvparams: base.HvParams | None = None) -> str | None:
        hvp = {**hv.DEFAULTS[self.NAME], **(hvparams or {})}
        problems = []
        try:
            caps.Get(hvp["kvm_path"])
            works = hvp["kvm_flag"] == "disabled" or probe.KvmWorks(hvp["kvm_path"])
            if hvp["kvm_flag"] == "enabled" and not works:
                problems.append("kvm_flag is 'enabled', but no guest runs with KVM here (tried with a boot sector)")
            elif hvp["kvm_flag"] == "" and not works:
                problems.append(
                    "no guest runs with KVM here (tried with a boot sector), so guests are emulated in software; "
                    "set kvm_flag to 'disabled' if that is what you want"
                )
        except (OSError, errors.HypervisorError) as err:
            problems.append(str(err))
        if hvp["serial_console"] and runtime.RunCmd([_autoconf.SOCAT_PATH, "-V"], timeout=30).failed:
            problems.append(f"'{_autoconf.SOCAT_PATH}' cannot be run, consoles need it; install socat")
        return "; ".join(problems) or None

    def ValidateParameters(self, hvparams: base.HvParams) -> None:
        self.CheckParamSyntax(hvparams)  # a request may leave some out
        super().ValidateParameters(hvparams)
        known = caps.Get(hvparams["kvm_path"])
        known.Machine(hvparams["machine_version"])
        if hvparams["disk_type"] not in devices.DISK_DRIVERS:
            raise errors.HypervisorError(
                f"disk_type {hvparams['disk_type']} cannot be used for disks of a PC; "
                f"use one of {', '.join(devices.DISK_DRIVERS)}"
            )
        if hvparams["disk_aio"] == "io_uring" and known.version < _IO_URING_VERSION:
            raise errors.HypervisorError("disk_aio io_uring needs QEMU 5.0 or newer")
        if hvparams["vnc_bind_address"] and hvparams["spice_bind"]:
            raise errors.HypervisorError("vnc_bind_address and spice_bind exclude each other; empty one of them")
        if hvparams["spice_bind"] and not known.has_spice:
            raise errors.HypervisorError("This QEMU has no SPICE; install it (Debian: qemu-system-modules-spice)")
        screen.Resolve(hvparams)

    # --- helpers ------------------------------------------------------------------------------------------------------

    def _Monitor(self, name: str, connect_timeout: float = qmp.CONNECT_TIMEOUT) -> qmp.Monitor:
        return qmp.Monitor(layout.Socket(name, layout.QMP), connect_timeout)

    def _Process(self, name: str) -> layout.Process:
        process = layout.FindProcess(name)
        if process is None:
            raise errors.HypervisorError(f"Instance {name} is not running")
        return process

    def _CheckNotRunning(self, name: str, what: str) -> None:
        process = layout.FindProcess(name)
        if process is not None:
            raise errors.HypervisorError(
                f"Failed to {what} instance {name}: already running (process {process.pid} on this node)"
            )

    def _UserStopped(self, name: str) -> bool:
        return runtime.Exists(layout.ShutdownFile(name))


def _LookSocket(name: str) -> str:
    """Return the socket for looking; guests that were started without one have their monitor only."""
    path = layout.Socket(name, layout.LOOK)
    return path if runtime.Exists(path) else layout.Socket(name, layout.QMP)


def _ReadInfo(name: str, process: layout.Process, answers: qmp.Answers | None) -> base.GuestInfo:
    if answers is None:
        return base.GuestInfo(name, process.pid, process.memory, process.vcpus, run_state=runstate.UNRESPONSIVE)
    run_state = migration.RunState(answers["query-status"])
    state = constants.INST_USER_SHUTDOWN if run_state == runstate.ENDED else constants.INST_RUNNING
    balloon, cpus = answers["query-balloon"], answers["query-cpus-fast"]
    # A guest that took over its QEMU answers what it likes: that must not hide the others.
    actual = balloon.get("actual") if isinstance(balloon, dict) else None
    memory = actual // _MIB if isinstance(actual, int) and 0 <= actual < _MAX_MEMORY else process.memory
    vcpus = len(cpus) if isinstance(cpus, list) and cpus else process.vcpus
    return base.GuestInfo(name, process.pid, memory, vcpus, state, run_state=run_state)


def StartTrouble(stderr: str) -> str:
    """Return what QEMU said, without its warnings if there is anything else."""
    text = _MACHINE_NOISE.sub("", stderr).strip() or stderr.strip()
    return text[-_ERROR_CHARS:] or "QEMU gave no reason"
