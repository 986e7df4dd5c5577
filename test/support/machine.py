"""A node's side of the calls without a node: handlers that keep guests, devices and files in memory.

They stand behind the real Dispatcher, which checks every argument against the table, and behind the real store's gate,
which checks the epoch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from ganeti import constants, errors, pathutils, ssconf, x509

# script(environment) -> (status, output)
Script = Callable[[dict[str, str]], tuple[int, str]]


def Identity(disk: dict[str, Any]) -> str:
    # A mirror is known by its secret, whatever its nodes, minors and port are.
    parts = [disk["logical_id"][5][:8]] if disk["dev_type"] == "drbd" else disk["logical_id"]
    return f"{disk['dev_type']}:{'/'.join(str(part) for part in parts)}"


class Device:
    """A block device on one machine."""

    def __init__(self, size: int, info: str):
        self.size = size
        self.info = info
        self.assembled = False
        self.primary = False
        self.wiped = 0
        self.degraded = False
        self.local = True
        self.faulty = False


class Machine:
    """What runs and lies on one node; tests look at it and change it freely.

    ``faults``: procedure -> text it fails with.  ``calls``: names of procedures served, in order.  ``hooks``: (hook path,
    phase) -> {script name: script}.
    """

    def __init__(self, name: str):
        self.name = name
        self.guests: dict[str, dict[str, Any]] = {}
        self.user_down: set[str] = set()
        self.devices: dict[str, Device] = {}
        self.directories: set[str] = set()
        self.files: dict[str, bytes] = {}
        self.memory = 32768
        self.used_memory = 1024
        self.vgs: dict[str, tuple[int, int]] = {"xenvg": (500000, 500000)}
        self.bridges = {"br0", "xen-br0"}
        self.systems: dict[str, list[str]] = {"debian": ["minimal", "full"], "noop": []}
        self.installed: list[tuple[str, bool, dict[str, str]]] = []
        self.protocol = constants.PROTOCOL_VERSION
        self.faults: dict[str, str] = {}
        self.calls: list[str] = []
        self.arguments: dict[str, tuple[Any, ...]] = {}
        self.hooks: dict[tuple[str, str], dict[str, Script]] = {}
        self.hook_runs: list[tuple[str, str, dict[str, str]]] = []
        self.before: Callable[[str, tuple[Any, ...]], None] = lambda name, args: None
        self.watch: Callable[[str], None] = lambda name: None
        self.etc_hosts: list[tuple[str, str, str | None]] = []
        self.addresses: set[str] = set()
        self.certificate = x509.DigestOfDer(name.encode())
        self.left_cluster = False
        self.hv_version = "8.2"
        self.incoming: dict[str, Any] = {}
        self.sent: dict[str, str] = {}
        self.never: set[str] = set()
        self.network: dict[str, str] = {}
        self.sync: list[dict[str, Any]] = []
        self.migration = {"status": "completed", "transferred_ram": 1, "total_ram": 1, "postcopy_status": None}
        self.reachable: Callable[[str], Machine | None] = lambda address: None
        self.verify: dict[str, Any] = {}  # answers of node_verify other than the usual ones
        self.ssconf: Callable[[], dict[str, str]] = dict  # the values of its ssconf files

    def Handlers(self) -> dict[str, Callable[..., Any]]:
        """One handler per method below whose name is a procedure's."""
        names = [name for name in vars(Machine) if name in _SERVED]
        return {name: self._Guarded(name) for name in names}

    def _Guarded(self, name: str) -> Callable[..., Any]:
        function = getattr(self, name)

        def serve(*args: Any) -> Any:
            self.calls.append(name)
            self.arguments[name] = args
            self.watch(name)
            self.before(name, args)
            if name in self.faults:
                raise errors.RpcCallError(self.faults[name])
            return function(*args)

        return serve

    # --- node ---------------------------------------------------------------------------------------------------------

    def version(self) -> int:
        return self.protocol

    def test_delay(self, duration: float) -> None:
        del duration

    def node_info(self, storage_units: Any, hv_specs: Any) -> list[Any]:
        storage = []
        for kind, key, _ in storage_units or ():
            size, free = self.vgs.get(key, (None, None))
            storage.append({"type": kind, "name": key, "storage_free": free, "storage_size": size})
        free = self.memory - self.used_memory - sum(guest["memory"] for guest in self.guests.values())
        facts = {
            "memory_total": self.memory,
            "memory_free": free,
            "memory_dom0": self.used_memory,
            "cpu_total": 8,
            "cpu_nodes": 1,
            "cpu_sockets": 1,
            "cpu_dom0": 8,
            "hv_version": self.hv_version,
        }
        return ["boot", storage, [facts for _ in hv_specs or ()]]

    def vg_list(self) -> dict[str, int]:
        return {name: size for name, (size, _) in self.vgs.items()}

    def lv_list(self, vg_name: list[str]) -> dict[str, Any]:
        return {
            key.removeprefix("plain:"): [device.size, not device.assembled, device.primary]
            for key, device in self.devices.items()
            if key.startswith("plain:") and key.split(":")[1].split("/")[0] in (vg_name or list(self.vgs))
        }

    def bridges_exist(self, bridges_list: list[str]) -> None:
        missing = sorted(set(bridges_list) - self.bridges)
        if missing:
            raise errors.RpcCallError(f"Missing bridges {', '.join(missing)}")

    def hypervisor_validate_params(self, hvname: str, hvfull: dict[str, Any]) -> None:
        del hvname, hvfull

    def drbd_helper(self) -> str:
        return "/bin/true"

    def node_has_ip_address(self, address: str) -> bool:
        return address in self.addresses

    def node_crypto_tokens(self, token_request: list[Any]) -> list[list[str]]:
        return [[kind, self.certificate] for kind, _, _ in token_request]

    def node_verify(self, checkdict: dict[str, Any], cluster_name: str, all_hvparams: Any) -> dict[str, Any]:
        del cluster_name, all_hvparams
        usual = {key: VERIFY.get(key, lambda _: [])(value) for key, value in checkdict.items()}
        if "filelist" in checkdict:
            files = {pathutils.SsconfFile(key): ssconf.FileText(key, text) for key, text in self.ssconf().items()}
            found = {path: hashlib.sha1(files[path]).hexdigest() for path in checkdict["filelist"] if path in files}
            usual["filelist"] = found
        return {**usual, **{key: value for key, value in self.verify.items() if key in checkdict}}

    node_verify_light = node_verify

    def node_demote_from_mc(self) -> None:
        return None

    def node_leave_cluster(self, modify_ssh_setup: bool) -> None:
        del modify_ssh_setup
        self.left_cluster = True

    def node_powercycle(self, hypervisor: str, hvparams: Any) -> str:
        del hypervisor, hvparams
        return "Reboot scheduled in 5 seconds"

    def node_ssh_key_add(self, *args: Any) -> list[Any]:
        del args
        return []

    def node_ssh_key_remove(self, *args: Any) -> list[Any]:
        del args
        return []

    def node_configure_ovs(self, ovs_name: str, ovs_link: Any) -> None:
        del ovs_name, ovs_link

    def etc_hosts_modify(self, mode: str, name: str, ip: str | None) -> None:
        self.etc_hosts.append((mode, name, ip))

    def upload_file(self, item: list[Any]) -> None:
        self.files[item[0]] = repr(item[1]).encode()

    def write_ssconf_files(self, values: dict[str, Any]) -> None:
        del values

    def node_activate_master_ip(self, master_params: dict[str, Any], use_external: bool) -> None:
        del use_external
        self.addresses.add(master_params["ip"])

    def node_deactivate_master_ip(self, master_params: dict[str, Any], use_external: bool) -> None:
        del use_external
        self.addresses.discard(master_params["ip"])

    def node_change_master_netmask(self, *args: Any) -> None:
        del args

    def storage_modify(self, su_name: str, su_args: Any, name: str, changes: Any) -> None:
        del su_name, su_args, name, changes

    def storage_execute(self, su_name: str, su_args: Any, name: str, operation: str) -> None:
        del su_name, su_args, name, operation

    def storage_list(self, su_name: str, su_args: Any, name: str | None, fields: list[str]) -> list[list[Any]]:
        del su_args, name
        facts = {"name": "xenvg", "type": su_name, "size": 500000, "free": 400000, "used": 100000, "allocatable": True}
        return [[facts[field] for field in fields]]

    def node_volumes(self) -> list[dict[str, Any]]:
        return [
            {"name": key.split("/")[1], "size": device.size, "dev": "/dev/sda", "vg": key.split(":")[1].split("/")[0]}
            for key, device in sorted(self.devices.items())
            if key.startswith("plain:")
        ]

    # --- hooks --------------------------------------------------------------------------------------------------------

    def hooks_runner(self, hpath: str, phase: str, env: dict[str, str]) -> list[list[Any]]:
        self.hook_runs.append((hpath, phase, env))
        rows = []
        for script, function in self.hooks.get((hpath, phase), {}).items():
            status, output = function(env)
            rows.append([f"{hpath}-{phase}.d/{script}", status, output])
        return rows

    # --- operating systems --------------------------------------------------------------------------------------------

    def os_validate(
        self, required: bool, name: str, checks: list[str], params: dict[str, Any], force_variant: bool
    ) -> bool:
        del checks
        base, _, variant = name.partition("+")
        if base not in self.systems:
            if required:
                raise errors.RpcCallError(f"Directory for OS {base} not found in search path")
            return False
        if not force_variant and (variant or self.systems[base]) and variant not in self.systems[base]:
            raise errors.RpcCallError(f"OS {base} has no variant '{variant}'")
        if "wrong" in params:
            raise errors.RpcCallError("The following parameters are not supported by the OS: wrong")
        return True

    def instance_os_add(self, instance: dict[str, Any], reinstall: bool, debug: int) -> None:
        del debug
        self._CheckDisks(instance)
        self.installed.append((instance["name"], reinstall, instance["osparams"]))

    def instance_run_rename(self, instance: dict[str, Any], old_name: str, debug: int) -> None:
        del instance, old_name, debug

    # --- guests -------------------------------------------------------------------------------------------------------

    def _CheckDisks(self, instance: dict[str, Any]) -> None:
        for disk in instance["disks_info"]:
            device = self.devices.get(Identity(disk))
            if device is None or not device.primary:
                raise errors.RpcCallError(f"Disk {disk['iv_name']} of {instance['name']} is not set up on {self.name}")

    def instance_start(self, instance: dict[str, Any], startup_paused: bool, reason: Any) -> None:
        del startup_paused, reason
        self._CheckDisks(instance)
        self.guests[instance["name"]] = {"memory": instance["beparams"]["maxmem"], "instance": instance}
        self.user_down.discard(instance["name"])

    def instance_shutdown(self, instance: dict[str, Any], timeout: float, reason: Any) -> None:
        del timeout, reason
        self.guests.pop(instance["name"], None)
        self.sent.pop(instance["name"], None)
        self.user_down.discard(instance["name"])

    def instance_reboot(self, instance: dict[str, Any], kind: str, timeout: float, reason: Any) -> None:
        del kind, timeout, reason
        if instance["name"] not in self.guests:
            raise errors.RpcCallError(f"Instance {instance['name']} is not running")

    def instance_list(self, hypervisor_list: list[str], hvparams: Any) -> list[str]:
        del hypervisor_list, hvparams
        return sorted(self.guests)

    def all_instances_info(self, hypervisor_list: list[str], hvparams: Any) -> dict[str, Any]:
        del hypervisor_list, hvparams
        return {name: self.instance_info(name, "", {}) for name in self.guests}

    def instance_info(self, name: str, hname: str, hvparams: Any) -> dict[str, Any]:
        del hname, hvparams
        if name in self.user_down:
            return {"memory": 0, "vcpus": 1, "state": constants.INST_USER_SHUTDOWN, "time": 0.0}
        if name not in self.guests:
            return {}
        return {"memory": self.guests[name]["memory"], "vcpus": 1, "state": constants.INST_RUNNING, "time": 1.0}

    def instance_console_info(self, instances: dict[str, Any]) -> dict[str, Any]:
        return {
            name: {"instance": name, "kind": "msg", "message": f"the console of {name} on {self.name}"}
            for name in instances
        }

    def instance_balloon_memory(self, instance: dict[str, Any], memory: int) -> None:
        self.guests[instance["name"]]["memory"] = memory

    def instance_migratable(self, instance: dict[str, Any]) -> None:
        if instance["name"] not in self.guests:
            raise errors.RpcCallError(f"Instance {instance['name']} is not running")

    def migration_info(self, instance: dict[str, Any]) -> str:
        return f"runtime of {instance['name']}"

    def instance_run_state(self, name: str, hname: str, hvparams: Any) -> dict[str, Any]:
        del hname, hvparams
        states = {"shutdown": self.user_down, "postmigrate": self.sent, "running": self.guests}
        found = [state for state, names in {**states, "inmigrate": self.incoming}.items() if name in names]
        return {
            "run_state": found[0] if found else "gone",
            "ident": 0,
            "sending": False,
            "never": not found and name in self.never,
            "sent_to": self.sent.get(name),
            "attempt": name,
            "arrival": None,
        }

    def accept_instance(self, instance: dict[str, Any], info: Any, target: str) -> None:
        del target
        self.incoming[instance["name"]] = info

    def instance_migrate(self, cluster_name: str, instance: dict[str, Any], target: str, live: bool) -> None:
        del cluster_name, live
        machine, name = self.reachable(target), instance["name"]
        if machine is None or name not in machine.incoming:
            raise errors.RpcCallError(f"connection to {target} refused")
        if self.migration["status"] == "completed":
            machine.guests[name] = self.guests[name]
            del machine.incoming[name]
            self.sent[name] = target

    def instance_get_migration_status(self, instance: dict[str, Any]) -> dict[str, Any]:
        del instance
        return self.migration

    def instance_finalize_migration_src(self, instance: dict[str, Any], success: bool, live: bool) -> None:
        del live
        if success and self.sent.pop(instance["name"], None) is not None:
            self.guests.pop(instance["name"], None)

    def instance_finalize_migration_dst(self, instance: dict[str, Any], info: Any, success: bool) -> None:
        del info
        name = instance["name"]
        if not success and name in self.guests:
            raise errors.RpcCallError(f"Instance {name} is not waiting for a guest")
        if self.incoming.pop(name, None) is not None and not success:
            self.never.add(name)

    def instance_end_copy(self, instance: dict[str, Any], ident: int) -> None:
        del ident
        for names in (self.guests, self.sent, self.incoming):
            names.pop(instance["name"], None)

    def hotplug_supported(self, instance: dict[str, Any]) -> None:
        del instance

    def hotplug_device(
        self, instance: dict[str, Any], action: str, kind: str, device: Any, extra: Any, seq: int
    ) -> Any:
        del instance, kind, device, extra, seq
        return {} if action == "hotremove" else None

    def resize_disk(self, instance: dict[str, Any], disk: dict[str, Any], new_size: int) -> None:
        del instance, disk, new_size

    # --- devices ------------------------------------------------------------------------------------------------------

    def file_storage_dir_create(self, path: str) -> None:
        self.directories.add(path)

    def file_storage_dir_remove(self, path: str) -> None:
        self.directories.discard(path)

    def file_storage_dir_rename(self, old: str, new: str) -> None:
        self.directories.remove(old)
        self.directories.add(new)
        for key in [key for key in self.devices if f"/{old}/" in key or f":loop/{old}/" in key]:
            self.devices[key.replace(old, new)] = self.devices.pop(key)

    def blockdev_create(
        self, disk: dict[str, Any], size: int, owner: str, on_primary: bool, info: str, exclusive: bool
    ) -> Any:
        del owner, exclusive
        key = Identity(disk)
        if key in self.devices:
            raise errors.RpcCallError(f"{key} exists already")
        self.devices[key] = Device(size, info)
        self.devices[key].primary = on_primary
        return disk["logical_id"]

    def blockdev_remove(self, disk: dict[str, Any]) -> None:
        for child in disk["children"]:
            self.blockdev_remove(child)
        self.devices.pop(Identity(disk), None)

    def _Device(self, disk: dict[str, Any]) -> Device:
        device = self.devices.get(Identity(disk))
        if device is None:
            raise errors.RpcCallError(f"device {Identity(disk)} does not exist on {self.name}")
        return device

    def blockdev_assemble(self, disk: dict[str, Any], instance: dict[str, Any], on_primary: bool, idx: int) -> Any:
        del instance
        for child in disk["children"]:
            self.blockdev_assemble(child, {}, on_primary, 0)
        device = self._Device(disk)
        device.assembled = True
        device.primary = device.primary or on_primary
        return [f"/dev/fake{idx}", f"/link{idx}", None]

    def blockdev_shutdown(self, disk: dict[str, Any]) -> None:
        device = self.devices.get(Identity(disk))
        if device is not None:
            device.assembled = device.primary = False
        for child in disk["children"]:
            self.blockdev_shutdown(child)

    def blockdev_open(self, instance_name: str, disks: list[dict[str, Any]], exclusive: bool) -> None:
        del instance_name, exclusive
        for disk in disks:
            self._Device(disk).primary = True

    def blockdev_close(self, instance_name: str, disks: list[dict[str, Any]]) -> None:
        del instance_name
        for disk in disks:
            self._Device(disk).primary = False

    def _Status(self, disk: dict[str, Any]) -> dict[str, Any]:
        device = self._Device(disk)
        return {
            "dev_path": "/dev/fake",
            "major": 1,
            "minor": 0,
            "sync_percent": None,
            "estimated_time": None,
            "is_degraded": device.degraded,
            "ldisk_status": constants.LDS_FAULTY if device.faulty or not device.local else constants.LDS_OKAY,
        }

    def blockdev_find(self, disk: dict[str, Any]) -> dict[str, Any] | None:
        return self._Status(disk) if Identity(disk) in self.devices else None

    def blockdev_getmirrorstatus(self, disks: list[dict[str, Any]]) -> list[dict[str, Any]]:
        # Each look at it takes the next state of a sync under way.
        state = self.sync.pop(0) if self.sync else {}
        return [{**self._Status(disk), **state} for disk in disks]

    def blockdev_getmirrorstatus_multi(self, disks: list[dict[str, Any]]) -> list[list[Any]]:
        return [[True, self._Status(disk)] for disk in disks]

    def blockdev_getdimensions(self, disks: list[dict[str, Any]]) -> list[list[Any]]:
        return [[self._Device(disk).size << 20, None] for disk in disks]

    def blockdev_wipe(self, disk: dict[str, Any], offset: int, size: int) -> None:
        self._Device(disk).wiped = offset + size

    def blockdev_convert(self, source: dict[str, Any], target: dict[str, Any]) -> None:
        if not self._Device(source).assembled or not self._Device(target).primary:
            raise errors.RpcCallError("both disks must be set up")

    def blockdev_pause_resume_sync(self, disks: list[dict[str, Any]], pause: bool) -> list[list[Any]]:
        del pause
        return [[True, None] for _ in disks]

    def blockdev_setinfo(self, disk: dict[str, Any], info: str) -> None:
        self._Device(disk).info = info

    def blockdev_grow(self, disk: dict[str, Any], amount: int, dryrun: bool, backing: bool, excl: bool) -> None:
        del excl
        if not dryrun and backing != (disk["dev_type"] == "plain"):
            self._Device(disk).size += amount

    def blockdev_removechildren(self, disk: dict[str, Any], children: list[dict[str, Any]]) -> None:
        del children
        self._Device(disk).local = False

    def blockdev_addchildren(self, disk: dict[str, Any], children: list[dict[str, Any]]) -> None:
        for child in children:
            self._Device(child)
        self._Device(disk).local = True

    def blockdev_rename(self, renames: list[Any]) -> None:
        for disk, new_id in renames:
            self.devices[Identity({**disk, "logical_id": new_id})] = self.devices.pop(Identity(disk))

    def drbd_disconnect_net(self, disks: list[Any]) -> None:
        self.network.update({Identity(disk): "standalone" for disk in disks})

    def drbd_attach_net(self, disks: list[Any], multimaster: bool) -> None:
        self.network.update({Identity(disk): "dual" if multimaster else "single" for disk in disks})

    def drbd_wait_sync(self, disks: list[Any]) -> list[Any]:
        del disks
        return [True, 100]

    def drbd_needs_activation(self, disks: list[Any]) -> list[str]:
        return [disk["uuid"] for disk in disks if not (self._Device(disk).assembled and self._Device(disk).local)]


# Answers of node_verify that are not an empty list.
VERIFY: dict[str, Callable[[Any], Any]] = {
    "version": lambda _: [constants.PROTOCOL_VERSION, constants.RELEASE_VERSION],
    "nodelist": lambda _: {},
    "node-net-test": lambda _: {},
    "pvlist": lambda names: [
        {"name": "/dev/sda5", "vg_name": name, "size": 500000.0, "free": 500000.0, "attributes": "a--", "lv_list": []}
        for name in names
    ],
    "hypervisor": lambda names: dict.fromkeys(names),
}


def _Served() -> set[str]:
    from ganeti.rpc import PROCEDURES

    return set(PROCEDURES)


_SERVED = _Served()
