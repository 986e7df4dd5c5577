"""gnt-network info."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from ganeti import constants
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command
from ganeti.cli.parser import Options
from ganeti.client.shared.rows import QueryNamed, QueryRows

_FIELDS = (
    "name", "uuid", "serial_no", "network", "gateway", "network6", "gateway6", "mac_prefix", "free_count",
    "reserved_count", "map", "external_reservations", "group_list",
)  # fmt: skip
# Addresses in one row of the map.
_ROW = 64


def _Map(text: str) -> Iterator[str]:
    yield "  Usage map:"
    for start in range(0, len(text), _ROW):
        yield f"     {start:>4} {text[start : start + _ROW]:{_ROW}} {start + _ROW - 1}"
    yield "         (X) used    (.) free"


def _Groups(groups: list[list[str]]) -> Iterator[str]:
    if not groups:
        yield "  not connected to any node group"
        return
    yield "  connected to node groups:"
    for group, mode, link, vlan in groups:
        yield f"    {group} (mode:{mode} link:{link} vlan:{vlan})"


def _Instances(users: list[dict[str, Any]]) -> Iterator[str]:
    if not users:
        yield "  not used by any instances"
        return
    yield f"  used by {len(users)} instances:"
    for user in users:
        yield f"    {user['name']}: {', '.join(f'{index}:{ip}' for index, ip in user['ips'])}"


def Describe(row: dict[str, Any]) -> Iterator[str]:
    size = row["free_count"] + row["reserved_count"]
    yield f"Network name: {row['name']}"
    yield f"UUID: {row['uuid']}"
    yield f"Serial number: {row['serial_no']}"
    yield f"  Subnet: {row['network']}"
    yield f"  Gateway: {row['gateway']}"
    yield f"  IPv6 Subnet: {row['network6']}"
    yield f"  IPv6 Gateway: {row['gateway6']}"
    yield f"  Mac Prefix: {row['mac_prefix']}"
    yield f"  Size: {size}"
    yield f"  Free: {row['free_count']} ({100 * row['free_count'] / size:.2f}%)"
    yield from _Map(row["map"])
    if row["external_reservations"]:
        yield "  externally reserved IPs:"
        yield from (f"    {line}" for line in textwrap.wrap(row["external_reservations"], _ROW))
    yield from _Groups(row["group_list"])
    yield from _Instances(row["instances"])


def _Users(uuid: str) -> list[dict[str, Any]]:
    """Return the instances with NICs in a network, each with the numbers and addresses of these NICs."""
    fields = ("name", "uuid", "nic.ips", "nic.networks")
    return [
        {
            "name": row["name"] or row["uuid"],
            "ips": [
                [index, ip]
                for index, (ip, network) in enumerate(zip(row["nic.ips"], row["nic.networks"], strict=True))
                if network == uuid
            ],
        }
        for row in QueryRows(jobs.GetClient(), "instance", fields, ["=[]", "nic.networks", uuid])
    ]


def Run(options: Options, arguments: list[str]) -> int:
    rows = QueryNamed(jobs.GetClient(), "network", _FIELDS, arguments)
    for row in rows:
        row["instances"] = _Users(row["uuid"])
    if options.output:
        output.PrintJson(rows)
        return constants.EXIT_SUCCESS
    for row in rows:
        for line in Describe(row):
            output.ToStdout(output.WithoutControls(line))
    return constants.EXIT_SUCCESS


COMMAND = Command(Run, "Show networks and who uses their addresses", (AnyNumber("network"),), (o.OUTPUT_FORMAT,))
