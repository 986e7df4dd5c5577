"""Tables of nodes, instances and metrics (doc/reference/htools.md 17, 23)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ganeti.htools.model.entities import NO_NODE, Instance
from ganeti.htools.model.resources import Node
from ganeti.htools.model.score import METRICS, Values
from ganeti.htools.model.state import State
from ganeti.htools.numbers import Fixed, Shown


def Table(rows: Sequence[Sequence[str]], numeric: Sequence[bool], prefix: str = "") -> list[str]:
    """Return lines of columns as wide as their widest cell; numbers stand to the right, blanks at the end stay."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(numeric))] if rows else []
    return [
        prefix
        + " "
        + " ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        )
        for row in rows
    ]


class NodeField(NamedTuple):
    header: str
    numeric: bool
    value: Callable[[Node], str]


def _Wide(width: int, value: Callable[[Node], int]) -> Callable[[Node], str]:
    return lambda node: str(value(node)).rjust(width)


def _Indices(indices: Sequence[int]) -> str:
    return f"[{','.join(map(str, indices))}]"


def _Peers(node: Node) -> str:
    # Largest first; of equals the higher index first.
    pairs = sorted(((memory, index) for index, memory in node.peers.items()), reverse=True)
    return f"[{','.join(f'({index},{memory})' for memory, index in pairs)}]"


_UNKNOWN: Final = NodeField("<unknown field>", False, lambda node: "<unknown field>")
_NODE_FIELDS: Final = {
    "idx": NodeField("Index", True, lambda n: str(n.index)),
    "name": NodeField("Name", False, lambda n: n.facts.alias),
    "fqdn": NodeField("Name", False, lambda n: n.facts.name),
    "status": NodeField("F", False, lambda n: "-" if n.offline else "*" if n.failing else " "),
    "tmem": NodeField("t_mem", True, _Wide(5, lambda n: round(n.facts.total_memory))),
    "nmem": NodeField("n_mem", True, _Wide(5, lambda n: n.facts.node_memory)),
    "imem": NodeField("i_mem", True, _Wide(5, lambda n: n.instance_memory)),
    "xmem": NodeField("x_mem", True, _Wide(5, lambda n: n.facts.missing_memory)),
    "fmem": NodeField("f_mem", True, _Wide(5, lambda n: n.facts.free_memory)),
    "umem": NodeField("u_mem", True, _Wide(5, lambda n: n.unallocated)),
    "rmem": NodeField("r_mem", True, _Wide(5, lambda n: n.reserved)),
    "amem": NodeField("a_mem", True, _Wide(5, lambda n: n.available_memory)),
    "tdsk": NodeField("t_dsk", True, _Wide(5, lambda n: round(n.facts.total_disk / 1024))),
    "fdsk": NodeField("f_dsk", True, _Wide(5, lambda n: n.free_disk // 1024)),
    "tcpu": NodeField("pcpu", True, _Wide(4, lambda n: round(n.facts.total_cpus))),
    "ucpu": NodeField("vcpu", True, _Wide(4, lambda n: n.used_cpus)),
    "pcnt": NodeField("pcnt", True, _Wide(3, lambda n: len(n.primaries))),
    "scnt": NodeField("scnt", True, _Wide(3, lambda n: len(n.secondaries))),
    "plist": NodeField("primaries", True, lambda n: _Indices(n.primaries)),
    "slist": NodeField("secondaries", True, lambda n: _Indices(n.secondaries)),
    "pfmem": NodeField("p_fmem", True, lambda n: Fixed(n.free_memory_part, 4)),
    "pfdsk": NodeField("p_fdsk", True, lambda n: Fixed(n.free_disk_part, 4)),
    "rcpu": NodeField("r_cpu", True, lambda n: Fixed(n.cpu_part, 2).rjust(5)),
    "cload": NodeField("lCpu", True, lambda n: Fixed(n.load.cpu, 3)),
    "mload": NodeField("lMem", True, lambda n: Fixed(n.load.memory, 3)),
    "dload": NodeField("lDsk", True, lambda n: Fixed(n.load.disk, 3)),
    "nload": NodeField("lNet", True, lambda n: Fixed(n.load.network, 3)),
    "ptags": NodeField(
        "PrimaryTags", False, lambda n: ",".join(f"{tag}={count}" for tag, count in sorted(n.primary_tags.items()))
    ),
    "peermap": NodeField("PeerMap", False, _Peers),
    "spindle_count": NodeField("NodeSpindles", True, lambda n: str(n.facts.total_spindles)),
    "hi_spindles": NodeField("MaxSpindles", True, lambda n: Shown(n.facts.max_spindles)),
    "inst_spindles": NodeField("InstSpindles", True, lambda n: Shown(n.used_spindles)),
}
_DEFAULT_FIELDS: Final = [
    "status",
    "name",
    "tmem",
    "nmem",
    "imem",
    "xmem",
    "fmem",
    "umem",
    "rmem",
    "tdsk",
    "fdsk",
    "tcpu",
    "ucpu",
    "pcnt",
    "scnt",
    "pfmem",
    "pfdsk",
    "rcpu",
    "cload",
    "mload",
    "dload",
    "nload",
]


def NodeFields(wish: str) -> list[str]:
    """Return the fields that ``-p`` asks for: ``a,b``, ``+a,b`` beside the default ones, or "" for these."""
    if not wish:
        return list(_DEFAULT_FIELDS)
    return [*_DEFAULT_FIELDS, *wish[1:].split(",")] if wish.startswith("+") else wish.split(",")


def NodeTable(nodes: Sequence[Node], wish: str) -> list[str]:
    fields = [_NODE_FIELDS.get(name, _UNKNOWN) for name in NodeFields(wish)]
    rows = [[field.header for field in fields], *([field.value(node) for field in fields] for node in nodes)]
    return Table(rows, [field.numeric for field in fields])


_INSTANCE_HEADERS: Final = [
    "F",
    "Name",
    "Pri_node",
    "Sec_node",
    "Auto_bal",
    "vcpu",
    "mem",
    "dsk",
    "lCpu",
    "lMem",
    "lDsk",
    "lNet",
]


def InstanceTable(state: State, names: Callable[[int], str]) -> list[str]:
    """Return the map of instances; ``names``: full name of a node."""
    rows = [_INSTANCE_HEADERS, *(_InstanceRow(inst, names) for inst in state.instances.values())]
    return Table(rows, [column >= 5 for column in range(len(_INSTANCE_HEADERS))])


def _InstanceRow(inst: Instance, names: Callable[[int], str]) -> list[str]:
    load = inst.load
    return [
        "R" if inst.running else " ",
        inst.name,
        names(inst.primary),
        "" if inst.secondary == NO_NODE else names(inst.secondary),
        "Y" if inst.auto_balance else "N",
        str(inst.vcpus).rjust(3),
        str(inst.memory).rjust(5),
        str(inst.disk // 1024).rjust(5),
        *(Fixed(part, 3) for part in (load.cpu, load.memory, load.disk, load.network)),
    ]


def MetricTable(nodes: Sequence[Node]) -> list[str]:
    rows = [["Field", "Value", "Weight"]]
    for metric, value in zip(METRICS, Values(nodes), strict=False):
        rows.append([metric.name, Fixed(value, 8), f"x{Fixed(metric.weight, 2)}"])
    return Table(rows, [False, True, True], prefix="  ")
