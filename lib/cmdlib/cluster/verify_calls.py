"""What the node daemons have been working on for long."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ganeti import objects, runtime
from ganeti.cmdlib.cluster.verify_report import NODE, Report
from ganeti.rpc.longcalls import LONG_SECONDS, FromPayload, Sentence

if TYPE_CHECKING:
    from ganeti.rpc import RpcRunner


def Check(report: Report, rpc: RpcRunner, snapshot: objects.Snapshot, nodes: Iterable[objects.Node]) -> bool:
    """Report the calls that hang, and as a notice those that only take long; return whether any hang.

    A node that does not answer is reported by others; one of another release does not know this call.
    """
    any_hang = False
    for uuid, result in rpc.call_node_long_calls([node.uuid for node in nodes], LONG_SECONDS).items():
        if result.fail_msg:
            continue
        name = snapshot.nodes[uuid].name
        calls = FromPayload(result.payload)
        hanging = [call for call in calls if call.late]
        others = [call for call in calls if not call.late]
        any_hang = any_hang or bool(hanging)
        if hanging:
            report.Error("ENODERPC", NODE, name, f"{Sentence(hanging, 'hang', runtime.Time())}; {_ADVICE}")
        if others:
            report.Notice(f"On node {name} {Sentence(others, 'take', runtime.Time(), ' long')}")
    return any_hang


_ADVICE = "most likely a disk does not answer: 'dmesg' and 'ps axf' on the node show what they wait for"
