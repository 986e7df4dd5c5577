"""sanitize-config: writes the configuration without what is nobody's business, for a report of a problem (D20-PAR-25).

Secrets are always removed or replaced; names, addresses, names of logical volumes and of operating systems if wanted.  What is
replaced is replaced wherever it stands, in paths and tags, too.
"""

from __future__ import annotations

import ipaddress
import itertools
import optparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ganeti import configfile, constants, errors, objects, pathutils, runtime, serializer, upgrade, x509
from ganeti.tools import common
from ganeti.utils import files
from ganeti.utils.text import NiceSort

_LIMIT = 512 * 1024 * 1024
_DOMAIN = re.compile(r"[a-z0-9]([a-z0-9.-]{0,200}[a-z0-9])?")
_FIRST_ADDRESS = int(ipaddress.IPv4Address("10.0.0.1"))
# Networks get blocks above the addresses of nodes, which are counted.
_FIRST_NETWORK = int(ipaddress.IPv4Address("10.64.0.0"))
_END = int(ipaddress.IPv4Address("10.255.255.255")) + 1
_FIRST_ADDRESS6 = int(ipaddress.IPv6Address("2001:db8::1"))
_FIRST_NETWORK6 = int(ipaddress.IPv6Address("2001:db8:1::"))

Table = dict[str, str]
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


# What stands where


def _Disks(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each disk and its children."""
    waiting = list(data["disks"].values())
    while waiting:
        disk = waiting.pop()
        waiting += disk.get("children") or ()
        yield disk


def _Alone(disk: dict[str, Any]) -> objects.Disk:
    """Return a disk without its children, which ``_Disks`` yields, too."""
    return objects.Disk.FromDict({**disk, "children": []})


def _Rename(value: Any, new: Callable[[str], str]) -> Any:
    """Return the value with every text in it, keys too, renamed."""
    if isinstance(value, str):
        return new(value)
    if isinstance(value, dict):
        return {new(key): _Rename(item, new) for key, item in value.items()}
    if isinstance(value, list):
        return [_Rename(item, new) for item in value]
    return value


def _Replacer(table: Table) -> Callable[[str], str]:
    """Return what replaces whole names and addresses in a text: not ``web`` in ``web2``, nor ``a.org`` in ``www.a.org``."""
    if not table:
        return lambda text: text

    def any_of(names: Iterable[str]) -> str:
        return "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)) or "(?!)"

    # Only an address of IPv6 continues at a colon; before and after others it separates.
    words, addresses6 = any_of(n for n in table if ":" not in n), any_of(n for n in table if ":" in n)
    pattern = re.compile(rf"(?<![\w.-])(?:{words})(?![\w-]|\.[\w-])|(?<![\w:])(?:{addresses6})(?![\w:])")
    return lambda text: pattern.sub(lambda match: table[match[0]], text)


# Secrets


def _RemoveSecrets(data: dict[str, Any]) -> None:
    """Remove whatever the declarations call a secret; a DRBD device needs one, and gets another."""
    cluster = data["cluster"]
    _Forget(objects.Cluster, cluster)
    for instance in data["instances"].values():
        _Forget(objects.Instance, instance)
    for key in ("rsahostkeypub", "dsahostkeypub"):
        if cluster.get(key):
            cluster[key] = ""
    for disk in _Disks(data):
        old = set(_Alone(disk).Secrets())
        if old:
            new = x509.NewSecret()
            disk["logical_id"] = [new if part in old else part for part in disk["logical_id"]]


def _Forget(kind: type[objects.ConfigObject], stored: dict[str, Any]) -> None:
    for name, field in kind.FIELDS.items():
        if field.secret:
            stored.pop(name, None)


# Tables of names


def _NameTable(data: dict[str, Any], domain: str) -> Table:
    table = {data["cluster"]["cluster_name"]: f"cluster.{domain}"}
    for kind, word in (("nodes", "node"), ("instances", "instance")):
        names = NiceSort(item["name"] for item in data[kind].values() if item.get("name"))
        table.update((name, f"{word}{number}.{domain}") for number, name in enumerate(names, 1))
    return table


def _OsNames(data: dict[str, Any]) -> list[str]:
    """Return the names of the operating systems without their variants."""
    cluster = data["cluster"]
    found = {instance.get("os") or "" for instance in data["instances"].values()}
    found.update(cluster.get("hidden_os") or (), cluster.get("blacklisted_os") or ())
    found.update(cluster.get("osparams") or (), cluster.get("os_hvp") or ())
    return NiceSort({name.partition("+")[0] for name in found} - {""})


def _RenameOs(data: dict[str, Any]) -> None:
    table = {name: f"ganeti-os{number}" for number, name in enumerate(_OsNames(data), 1)}

    def new(name: str) -> str:
        base, plus, variant = name.partition("+")
        return table.get(base, base) + plus + variant

    for instance in data["instances"].values():
        if instance.get("os"):
            instance["os"] = new(instance["os"])
    cluster = data["cluster"]
    for key in ("hidden_os", "blacklisted_os"):
        cluster[key] = [new(name) for name in cluster.get(key) or ()]
    for key in ("osparams", "os_hvp"):
        cluster[key] = {new(name): value for name, value in (cluster.get(key) or {}).items()}


def _LvTable(data: dict[str, Any]) -> Table:
    volumes = {volume for disk in _Disks(data) for volume in _Alone(disk).VolumeNames()}
    return {volume.partition("/")[2]: runtime.NewUuid() for volume in sorted(volumes)}


# Addresses


class _Addresses:
    """Gives out addresses: one after the other, or a block for a network in which each keeps its place."""

    def __init__(self) -> None:
        self.table: Table = {}
        self._blocks: list[tuple[_Network, int]] = []
        self._next = {4: _FIRST_ADDRESS, 6: _FIRST_ADDRESS6}
        self._next_block = {4: _FIRST_NETWORK, 6: _FIRST_NETWORK6}

    def AddNetwork(self, text: str) -> None:
        network = ipaddress.ip_network(text, strict=False)
        size = network.num_addresses
        start = -(-self._next_block[network.version] // size) * size
        if network.version == 4 and start + size > _END:
            raise errors.OpPrereqError(
                f"Network {network} is too large to be replaced by one below 10.64.0.0/10",
                errors.ECODE_INVAL,
                hint="use --sanitize-ips=no and replace the addresses by hand",
            )
        self._next_block[network.version] = start + size
        self._blocks.append((network, start))
        self.table[text] = f"{_Made(network.version, start)}/{network.prefixlen}"
        self._Set(str(network.network_address), _Made(network.version, start))

    def Add(self, text: str | None) -> None:
        """Take an address into the table; loopback and the like say nothing about anybody."""
        if not text or text in self.table:
            return
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return  # a NIC's 'pool', say
        if address.is_loopback or address.is_unspecified or address.is_link_local:
            return
        self._Set(text, self._New(address))

    def _New(self, address: _Address) -> str:
        for network, start in self._blocks:
            if address in network:
                return _Made(address.version, start + int(address) - int(network.network_address))
        self._next[address.version] += 1
        return _Made(address.version, self._next[address.version] - 1)

    def _Set(self, old: str, new: str) -> None:
        self.table[old] = new


def _Made(version: int, number: int) -> str:
    return str(ipaddress.IPv4Address(number) if version == 4 else ipaddress.IPv6Address(number))


def _AddressTable(data: dict[str, Any]) -> Table:
    found = _Addresses()
    networks = [data["networks"][uuid] for uuid in sorted(data["networks"])]
    for network in networks:
        for key in ("network", "network6"):
            if network.get(key):
                found.AddNetwork(network[key])
    found.Add(data["cluster"]["master_ip"])
    for key in ("primary_ip", "secondary_ip"):
        for node in _Sorted(data["nodes"].values()):
            found.Add(node.get(key))
    for network in networks:
        found.Add(network.get("gateway"))
        found.Add(network.get("gateway6"))
    for instance in _Sorted(data["instances"].values()):
        for nic in instance.get("nics") or ():
            found.Add(nic.get("ip"))
    return found.table


def _Sorted(items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    by_name: dict[str, list[dict[str, Any]]] = {}
    for item in items:
        by_name.setdefault(item.get("name") or "", []).append(item)
    return list(itertools.chain.from_iterable(by_name[name] for name in NiceSort(by_name)))


# The program


def Sanitize(text: bytes, names: bool, ips: bool, lvs: bool, os_names: bool, domain: str) -> str:
    """Return the text of config.data without secrets, and without what else is not wanted.

    Raises ConfigurationError for what is no configuration of a release since 2.0.
    """
    try:
        stored = serializer.Load(text, _LIMIT)
    except errors.ParseError as err:
        raise errors.ConfigurationError(f"the configuration cannot be read: {err}") from err
    data = serializer.Load(objects.ConfigText(configfile.LoadDict(upgrade.UpgradeConfig(stored))))
    _RemoveSecrets(data)
    tables = [
        _NameTable(data, domain) if names else {},
        _AddressTable(data) if ips else {},
        _LvTable(data) if lvs else {},
    ]
    if os_names:
        _RenameOs(data)
    table: Table = {old: new for part in tables for old, new in part.items()}
    return serializer.Dump(_Rename(data, _Replacer(table))) + "\n"


def _Choice(option: Any, name: str, value: str, parser: Any) -> None:
    if value not in ("yes", "no"):
        raise optparse.OptionValueError(f"option {name}: 'yes' or 'no' is expected, not '{value[:40]}'")
    setattr(parser.values, option.dest, value == "yes")


def _Parser() -> optparse.OptionParser:
    parser = common.Parser("%prog [options] FILE|-\n\nWrites a copy of the configuration that can be shown to others.")
    parser.add_option("--path", default=pathutils.CLUSTER_CONF_FILE, help="the configuration [%default]")
    for name, default, what in (
        ("names", True, "names of cluster, nodes and instances"),
        ("ips", True, "addresses and networks"),
        ("lvs", False, "names of logical volumes"),
        ("os-names", True, "names of operating systems"),
    ):
        parser.add_option(
            f"--sanitize-{name}", dest=name.replace("-", "_"), type="string", action="callback", callback=_Choice,
            default=default, metavar="yes|no", help=f"replace {what} [{'yes' if default else 'no'}]",
        )  # fmt: skip
    parser.add_option(
        "--no-randomization", dest="keep", action="store_true", default=False, help="replace secrets only"
    )
    parser.add_option("--base-domain", dest="domain", default="example.com", help="domain of new names [%default]")
    return parser


def _Run(options: optparse.Values, target: str) -> int:
    if not _DOMAIN.fullmatch(options.domain):
        raise errors.OpPrereqError(f"'{options.domain[:80]}' is not a domain", errors.ECODE_INVAL)
    try:
        text = runtime.ReadFile(options.path, _LIMIT)
    except OSError as err:
        raise errors.OpPrereqError(f"{options.path}: {err.strerror}", errors.ECODE_ENVIRON) from err
    names, ips, lvs, os_names = (
        not options.keep and wanted for wanted in (options.names, options.ips, options.lvs, options.os_names)
    )
    result = Sanitize(text, names, ips, lvs, os_names, options.domain)
    if target == "-":
        sys.stdout.write(result)
        return constants.EXIT_SUCCESS
    try:
        files.BackUp(target)
        runtime.WriteFile(target, result, mode=0o600)
    except OSError as err:
        raise errors.OpPrereqError(f"{target}: {err.strerror}", errors.ECODE_ENVIRON) from err
    return constants.EXIT_SUCCESS


def Main() -> int:
    parser = _Parser()
    options, arguments = parser.parse_args()
    common.LogToStderr(options.debug, options.verbose)
    if len(arguments) != 1:
        parser.print_usage(sys.stderr)
        return constants.EXIT_FAILURE
    return common.RunTool(lambda: _Run(options, arguments[0]))
