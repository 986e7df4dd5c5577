"""Check that instances that exclude each other have different primary nodes (doc/reference/cli.md 9.6, EEXTAGS)."""

from __future__ import annotations

from collections.abc import Iterable

from ganeti import objects
from ganeti.cmdlib.cluster.verify_report import NODE, Report
from ganeti.htools.sources import loading
from ganeti.utils.text import NiceSort


def CheckExclusion(report: Report, snapshot: objects.Snapshot, members: Iterable[objects.Node]) -> None:
    """Warn of each tag that several instances of a node have and that begins with a prefix named by the cluster's tags."""
    prefixes = loading.Suffixes(snapshot.cluster.tags, loading.EXCLUSION)
    for node in members if prefixes else ():
        owners: dict[str, list[str]] = {}
        for inst in snapshot.PrimaryInstances(node.uuid):
            for tag in loading.Starting(inst.tags, prefixes):
                owners.setdefault(tag, []).append(inst.name or inst.uuid)
        for tag in NiceSort(tag for tag, names in owners.items() if len(names) > 1):
            names = ", ".join(NiceSort(owners[tag]))
            report.Warning(
                "EEXTAGS",
                NODE,
                node.name,
                f"instances {names} exclude each other by tag '{tag}' and have this node as their primary one",
            )
