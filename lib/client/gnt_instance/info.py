"""gnt-instance info."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ganeti import constants
from ganeti.cli import info, jobs, output, tables
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.info import Pairs
from ganeti.cli.parser import Flag, Options
from ganeti.opcodes import OpInstanceQueryData

STATIC = Flag("-s", "--static", dest="static", text="Show the configuration only, without asking the nodes")
ALL = Flag("--all", dest="show_all", text="Show all instances")


def _State(data: Mapping[str, Any]) -> str:
    text = f"configured to be {data['config_state']}"
    return text if data["run_state"] is None else f"{text}, actual state is {data['run_state']}"


def _Nodes(data: Mapping[str, Any]) -> list[Any]:
    group = f"{data['pnode_group_name']} (UUID {data['pnode_group_uuid']})"
    secondaries = ", ".join(
        f"{name} (group {group_name}, group UUID {uuid})"
        for name, group_name, uuid in zip(
            data["snodes"], data["snodes_group_names"], data["snodes_group_uuids"], strict=True
        )
    )
    return [Pairs([("primary", data["pnode"]), ("group", group)]), Pairs([("secondaries", secondaries)])]


def _Console(data: Mapping[str, Any]) -> str | None:
    """Return where the graphical console listens; None without one."""
    params, port = data["hv_actual"], data["network_port"]
    address = params.get("vnc_bind_address")
    if data["hypervisor"] not in (constants.HT_XEN_HVM, constants.HT_KVM) or not address:
        return None
    if address.startswith("/"):
        return f"{data['pnode']}:{address}"
    display = int(port) - constants.VNC_BASE_PORT if port else None
    if address in ("0.0.0.0", "::"):  # noqa: S104 - compared with, not bound to
        return f"vnc to {data['pnode']}:{port} (display {display})"
    return f"{address}:{port} (node {data['pnode']}) (display {display})"


def _Status(status: list[Any] | None, kind: str) -> str:
    from ganeti.params import disk as disk_params

    if status is None:
        return "not active"
    path, major, minor, percent, eta, degraded, local = status
    text = f"{path} ({'N/A' if major is None else major}:{'N/A' if minor is None else minor})"
    if kind in disk_params.With(mirror=disk_params.INTERNAL):
        if percent is None:
            text += " in sync"
        else:
            left = "ETA unknown" if eta is None else f"ETA {eta}s"
            text += f" *RECOVERING* {percent:5.2f}%, {left}"
        text += ", status *DEGRADED*" if degraded else ", status ok"
        text += {constants.LDS_FAULTY: " *MISSING DISK*", constants.LDS_UNKNOWN: " *UNCERTAIN STATE*"}.get(local, "")
    elif kind in disk_params.With(volume=True) and local == constants.LDS_FAULTY:
        text += " *FAILED* (failed drive?)"
    return text


def _Disk(index: int, disk: Mapping[str, Any], top: bool, roman: bool) -> Pairs:
    from ganeti.params import disk as disk_params

    name = disk["iv_name"] if top else f"child {index}"
    pairs = Pairs([(name, f"{disk['dev_type']}, size {tables.FormatUnit(disk['size'], 'h', roman)}")])
    if top:
        if disk.get("spindles") is not None:
            pairs.append(("spindles", disk["spindles"]))
        pairs.append(("access mode", disk["mode"]))
    logical = disk["logical_id"]
    if disk.get("drbd_info"):
        drbd = disk["drbd_info"]
        for letter, node, minor in (
            ("A", drbd["primary_node"], drbd["primary_minor"]),
            ("B", drbd["secondary_node"], drbd["secondary_minor"]),
        ):
            pairs.append((f"node{letter}", f"{node}, minor={minor}"))
        pairs.append(("port", drbd["port"]))
    elif logical is not None:
        joined = disk["dev_type"] in disk_params.With(volume=True)
        pairs.append(("logical_id", "/".join(map(str, logical)) if joined else str(list(logical))))
    for key, title in (("pstatus", "on primary"), ("sstatus", "on secondary")):
        if disk.get(key):
            pairs.append((title, _Status(disk[key], disk["dev_type"])))
    if disk.get("behind"):
        node, since = disk["behind"]
        pairs.append(("behind", f"the copy on {node} does not count since {tables.FormatTimestamp(since)}"))
    pairs += [("name", disk["name"]), ("UUID", disk["uuid"])]
    if disk.get("children"):
        children = [_Disk(number, child, False, roman) for number, child in enumerate(disk["children"])]
        pairs.append(("child devices", children))
    return pairs


def _Nic(index: int, nic: list[Any]) -> Pairs:
    name, uuid, ip, mac, mode, link, vlan, network, _ = nic
    return Pairs(
        [
            (f"nic/{index}", ""),
            ("MAC", mac),
            ("IP", ip),
            ("mode", mode),
            ("link", link),
            ("vlan", vlan),
            ("network", network),
            ("UUID", uuid),
            ("name", name),
        ]
    )


def Tree(data: Mapping[str, Any], roman: bool = False) -> Pairs:
    """Return the tree of an instance."""
    pairs = Pairs(
        [
            ("Instance name", data["name"]),
            ("UUID", data["uuid"]),
            ("Serial number", data["serial_no"]),
            ("Creation time", tables.FormatTimestamp(data["ctime"])),
            ("Modification time", tables.FormatTimestamp(data["mtime"])),
            ("State", _State(data)),
            ("Nodes", _Nodes(data)),
            ("Operating system", data["os"]),
            ("Operating system parameters", info.WithDefaults(data["os_instance"], data["os_actual"])),
            ("Allocated network port", data["network_port"]),
            ("Hypervisor", data["hypervisor"]),
        ]
    )
    console = _Console(data)
    if console:
        pairs.append(("console connection", console))
    backend = info.WithDefaults(data["be_instance"], data["be_actual"])
    if "maxmem" in backend:
        backend["memory"] = backend["maxmem"]
    pairs += [
        ("Hypervisor parameters", info.WithDefaults(data["hv_instance"], data["hv_actual"])),
        ("Back-end parameters", backend),
        ("NICs", [_Nic(index, nic) for index, nic in enumerate(data["nics"])]),
        ("Disk template", data["disk_template"]),
        ("Disks", [_Disk(index, disk, True, roman) for index, disk in enumerate(data["disks"])]),
    ]
    return pairs


def Run(options: Options, arguments: list[str]) -> int:
    if not arguments and not options.show_all:
        output.ToStderr("Give the names of instances, or --all for all instances.")
        return constants.EXIT_FAILURE
    if arguments and options.show_all:
        output.ToStderr("Give either names of instances or --all, not both.")
        return constants.EXIT_FAILURE
    op = jobs.FromOptions(OpInstanceQueryData, options, instances=arguments, use_locking=not options.static)
    result = jobs.SubmitOpCode(op, options)
    if not result:
        output.ToStdout("No instances.")
        return constants.EXIT_FAILURE
    trees = [Tree(data, options.roman_integers) for data in result.values()]
    info.PrintInfo(trees, as_json=options.output == "json")
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Show the state and the settings of instances",
    (AnyNumber("instance"),),
    (STATIC, ALL, o.ROMAN, o.OUTPUT_FORMAT, o.PRIORITY),
)
