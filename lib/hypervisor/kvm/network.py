"""The node's end of a guest's NICs: taps, bridges, switches, routes (doc/reference/interfaces.md g.2).

``CONF/kvm-vif-bridge``, when it can be run, replaces all of the set-up below.
"""

from __future__ import annotations

import dataclasses
import logging
import posixpath
import re
import stat
from collections.abc import Mapping, Sequence
from typing import Any

from ganeti import constants, errors, objects, pathutils, runtime
from ganeti.hypervisor.kvm import layout
from ganeti.hypervisor.nics import NetworkValues
from ganeti.runtime.protocols import Tap

VHOST_DEVICE = "/dev/vhost-net"
_SYS_NET = "/sys/class/net"
_COMMAND_SECONDS = 30.0
_SCRIPT_SECONDS = 120.0
_VALUE_LIMIT = 4096
_MAX_RULES = 16
_VLAN = re.compile(r"(?:\.(?P<access>\d{1,4}))?(?P<trunk>(?::\d{1,4})*)")


@dataclasses.dataclass(frozen=True)
class Vlans:
    """``access``: untagged; ``trunk``: tagged."""

    access: int | None
    trunk: tuple[int, ...]


def ParseVlan(text: str) -> Vlans:
    """Parse ``.N`` (access), ``:A:B`` (trunk) or ``.N:A:B`` (both; doc/reference/parameters.md 3)."""
    found = _VLAN.fullmatch(f".{text}" if text.isdigit() else text)
    if found is None:
        raise errors.HypervisorError(f"VLAN '{text}' is not understood; write .N, :N:M or .N:M")
    trunk = tuple(int(part) for part in found["trunk"].split(":") if part)
    return Vlans(int(found["access"]) if found["access"] else None, trunk)


# --- command lines, pure ----------------------------------------------------------------------------------------------


def BuildUp(tap: str, mac: str, mtu: int | None) -> list[str]:
    """Return the command that brings the tap up.  Its address begins with fe: a bridge takes its ports' lowest."""
    argv = ["ip", "link", "set", "dev", tap, "address", "fe" + mac[2:]]
    return [*argv, *(["mtu", str(mtu)] if mtu else []), "up"]


def BuildEnslave(tap: str, bridge: str) -> list[str]:
    return ["ip", "link", "set", "dev", tap, "master", bridge]


def BuildBridgeVlans(tap: str, uplinks: Sequence[str], vlans: Vlans) -> list[list[str]]:
    """VLANs of a port of a filtering bridge; the way out must know them too."""
    commands = [["bridge", "vlan", "del", "dev", tap, "vid", "1"]]
    if vlans.access is not None:
        commands.append(["bridge", "vlan", "add", "dev", tap, "vid", str(vlans.access), "pvid", "untagged"])
    commands += [["bridge", "vlan", "add", "dev", tap, "vid", str(vlan)] for vlan in vlans.trunk]
    known = [*vlans.trunk] if vlans.access is None else [vlans.access, *vlans.trunk]
    return commands + [["bridge", "vlan", "add", "dev", link, "vid", str(vlan)] for link in uplinks for vlan in known]


def BuildSwitchPort(switch: str, tap: str, vlans: Vlans) -> list[str]:
    """Return the command that makes a port of an Open vSwitch anew."""
    argv = ["ovs-vsctl", "--if-exists", "del-port", switch, tap, "--", "add-port", switch, tap]
    if vlans.access is not None:
        argv.append(f"tag={vlans.access}")
    if vlans.trunk:
        argv.append("trunks=" + ",".join(map(str, vlans.trunk)))
    if vlans.access is not None and vlans.trunk:
        argv.append("vlan_mode=native-untagged")
    return argv


def BuildSwitchPortRemoval(switch: str, tap: str) -> list[str]:
    return ["ovs-vsctl", "--if-exists", "del-port", switch, tap]


def BuildRoute(tap: str, ip: str, table: str | None) -> list[list[str]]:
    """Return the commands that route the guest's address to the tap; with a table, also what comes from there."""
    family = ["ip", "-6"] if ":" in ip else ["ip"]
    commands = []
    if table:
        commands.append([*family, "rule", "add", "dev", tap, "table", table])
    place = ["table", table] if table else []
    commands.append([*family, "route", "replace", ip, *place, "proto", "static", "dev", tap])
    settings = ["ipv6/conf/{}/proxy_ndp"] if ":" in ip else ["ipv4/conf/{}/proxy_arp"]
    settings.append("ipv6/conf/{}/forwarding" if ":" in ip else "ipv4/conf/{}/forwarding")
    # With slashes, so that a dot in the tap's name stays a dot.
    return commands + [["sysctl", "-q", "-w", f"net/{name.format(tap)}=1"] for name in settings]


def BuildRuleRemoval(tap: str, family: str) -> list[str]:
    return ["ip", family, "rule", "del", "dev", tap]


def ScriptEnvironment(
    instance: objects.Instance, nic: objects.NIC, index: int, tap: str, network: Mapping[str, Any], path: str
) -> dict[str, str]:
    """Return the environment of the administrator's script; ``network``: the network's values by suffix of the variable."""
    mode, link, vlan = (nic.nicparams.get(key) for key in ("mode", "link", "vlan"))
    values: dict[str, Any] = {
        "PATH": f"{path}:/sbin:/usr/sbin",
        "INSTANCE": instance.name,
        "TAGS": " ".join(instance.tags),
        "MAC": nic.mac,
        "MODE": mode,
        "INTERFACE": tap,
        "INTERFACE_INDEX": index,
        "INTERFACE_UUID": nic.uuid,
        "INTERFACE_NAME": nic.name,
        "IP": nic.ip,
        "LINK": link or None,
        "BRIDGE": link if mode == constants.NIC_MODE_BRIDGED else None,
        "VLAN": vlan or None,
        **{f"NETWORK_{key}": value for key, value in network.items()},
    }
    return {key: str(value) for key, value in values.items() if value is not None}


# --- doing it ---------------------------------------------------------------------------------------------------------


def OpenTap(vnet_hdr: bool, queues: int) -> Tap:
    try:
        return runtime.OpenTap("tap%d", vnet_hdr, queues)
    except OSError as err:
        raise errors.HypervisorError(
            f"Cannot make a tap interface ({err}); load the kernel module tun, and check /dev/net/tun"
        ) from err


def CanVhost(name: str, hvp: Mapping[str, Any], driver: str) -> bool:
    """Return whether the kernel can handle this NIC's packets; if that is wanted and impossible, log it."""
    if not hvp["vhost_net"] or driver != "virtio-net-pci":
        return False
    if runtime.Exists(VHOST_DEVICE):
        return True
    logging.warning(
        "Instance %s: vhost_net is on, but this node has no %s; its NICs work without, more slowly "
        "(load the kernel module vhost_net, or set vhost_net to false)",
        name,
        VHOST_DEVICE,
    )
    return False


def Remember(name: str, index: int, tap: str) -> None:
    """Record which tap serves NIC ``index``."""
    runtime.MakeDirs(layout.NicDir(name))
    runtime.WriteFile(layout.NicFile(name, index), tap + "\n", mode=0o644, sync=False)


def Recall(name: str, index: int) -> str:
    """Return the tap that ``Remember`` recorded."""
    try:
        return runtime.ReadText(layout.NicFile(name, index), limit=_VALUE_LIMIT).strip()
    except OSError as err:
        raise errors.HypervisorError(f"Instance {name}: the tap of NIC {index} is not known: {err}") from err


def Configure(instance: objects.Instance, nic: objects.NIC, index: int, tap: str) -> None:
    """Connect a tap as the NIC's parameters say and record its name."""
    where = f"Instance {instance.name}: NIC {index}"
    Remember(instance.name, index, tap)
    if _CanRun(pathutils.KVM_VIF_BRIDGE):
        path = runtime.Environment().get("PATH", "/usr/bin:/bin")
        env = ScriptEnvironment(instance, nic, index, tap, NetworkValues(nic), path)
        result = runtime.RunCmd([pathutils.KVM_VIF_BRIDGE, tap], env=env, timeout=_SCRIPT_SECONDS)
        if result.failed:
            raise errors.HypervisorError(f"{where}: {result.fail_reason}")
        return
    mode, link = nic.nicparams.get("mode"), nic.nicparams.get("link") or ""
    vlan = nic.nicparams.get("vlan") or ""
    if mode == constants.NIC_MODE_BRIDGED:
        _Bridge(where, tap, nic.mac, link, vlan)
    elif mode == constants.NIC_MODE_OVS:
        _Run(where, BuildUp(tap, nic.mac, None))
        _Run(where, BuildSwitchPort(link, tap, ParseVlan(vlan)))
    elif mode == constants.NIC_MODE_ROUTED:
        if not nic.ip:
            raise errors.HypervisorError(f"{where}: a routed NIC needs an IP address")
        _RemoveRules(tap)
        _Run(where, BuildUp(tap, nic.mac, None))
        for argv in BuildRoute(tap, nic.ip, link or None):
            _Run(where, argv)
    else:
        raise errors.HypervisorError(f"{where}: mode '{mode}' is not known")


def Unconfigure(nics: Sequence[objects.NIC], name: str) -> None:
    """Remove what outlives a tap: rules and switch ports.  Failures are logged, as the guest is gone already."""
    for index, nic in enumerate(nics):
        try:
            tap = Recall(name, index)
        except errors.HypervisorError:
            continue  # it was never set up
        mode, link = nic.nicparams.get("mode"), nic.nicparams.get("link") or ""
        if mode == constants.NIC_MODE_ROUTED and link:
            _RemoveRules(tap)
        elif mode == constants.NIC_MODE_OVS and link:
            result = runtime.RunCmd(BuildSwitchPortRemoval(link, tap), timeout=_COMMAND_SECONDS)
            if result.failed:
                logging.warning("Instance %s: port %s of switch %s stays: %s", name, tap, link, result.fail_reason)


def _Bridge(where: str, tap: str, mac: str, bridge: str, vlan: str) -> None:
    if not runtime.IsDir(posixpath.join(_SYS_NET, bridge, "bridge")):
        raise errors.HypervisorError(
            f"{where}: bridge '{bridge}' is not on this node; make it (ip link add {bridge} type bridge), "
            "or change the NIC's link"
        )
    mtu = _SysValue(bridge, "mtu")
    _Run(where, BuildUp(tap, mac, int(mtu) if mtu.isdigit() else None))
    _Run(where, BuildEnslave(tap, bridge))
    if not vlan:
        return
    if _SysValue(bridge, "bridge/vlan_filtering") != "1":
        raise errors.HypervisorError(
            f"{where}: VLANs need a filtering bridge; run ip link set {bridge} type bridge vlan_filtering 1"
        )
    for argv in BuildBridgeVlans(tap, _Uplinks(bridge), ParseVlan(vlan)):
        _Run(where, argv)


def _Uplinks(bridge: str) -> list[str]:
    """Return the ports of the bridge that are not taps."""
    ports = runtime.ListDir(posixpath.join(_SYS_NET, bridge, "brif"))
    return [port for port in ports if not runtime.Exists(posixpath.join(_SYS_NET, port, "tun_flags"))]


def _SysValue(interface: str, name: str) -> str:
    try:
        return runtime.ReadText(posixpath.join(_SYS_NET, interface, name), limit=_VALUE_LIMIT).strip()
    except OSError:
        return ""


def _RemoveRules(tap: str) -> None:
    for family in ("-4", "-6"):
        for _ in range(_MAX_RULES):
            if runtime.RunCmd(BuildRuleRemoval(tap, family), timeout=_COMMAND_SECONDS).failed:
                break


def _CanRun(path: str) -> bool:
    try:
        mode = runtime.Stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & stat.S_IXUSR)


def _Run(where: str, argv: list[str]) -> None:
    result = runtime.RunCmd(argv, timeout=_COMMAND_SECONDS)
    if result.failed:
        raise errors.HypervisorError(f"{where}: {result.fail_reason}")
