"""The Open vSwitch of a node that is to have one (node parameters ``ovs``, ``ovs_name``, ``ovs_link``)."""

from __future__ import annotations

from typing import Any

from ganeti import objects, params
from ganeti.cmdlib.base import LogicalUnit
from ganeti.params import nd


def SetUpSwitch(lu: LogicalUnit[Any], node: objects.Node, trouble: str) -> bool:
    """Make the node's switch and give it its link; return whether it is to have one.

    Raises OpExecError with ``trouble`` if that fails.  What is there already stays as it is.
    """
    values = params.FillND(lu.snapshot, node)
    if not values[nd.ND_OVS]:
        return False
    link = values[nd.ND_OVS_LINK] or None
    if link is None:
        lu.LogInfo("No physical interface for Open vSwitch was given: it will have no connection to the network")
    lu.rpc.call_node_configure_ovs(node.uuid, values[nd.ND_OVS_NAME], link).Raise(trouble)
    return True
