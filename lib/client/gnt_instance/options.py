"""Options of several commands of gnt-instance."""

from __future__ import annotations

from ganeti.cli.parser import Flag, Opt, Value

# --- parameters, operating system -------------------------------------------------------------------------------------

HVPARAMS = Value(
    "-H", "--hypervisor-parameters", dest="hvparams", type="keyval", default={}, metavar="KEY=VALUE,...",
    text="Parameters of the instance's hypervisor", grammar="hypervisor",
)  # fmt: skip
FORCE_VARIANT = Flag(
    "--force-variant", dest="force_variant", text="Accept a variant that the operating system does not declare"
)
COMMUNICATION = Value(
    "-c", "--communication", dest="instance_communication", type="bool", text="NIC for the metadata network"
).Hidden()

# --- running ----------------------------------------------------------------------------------------------------------

IGNORE_OFFLINE = Flag(
    "--ignore-offline", dest="ignore_offline_nodes", text="Continue even if the primary node is marked offline"
)
NO_REMEMBER = Flag("--no-remember", dest="no_remember", text="Do not record the new state as the wanted one")
CLEANUP = Flag("--cleanup", dest="cleanup", text="Recover from a migration that was interrupted")

# --- selecting several instances --------------------------------------------------------------------------------------

SELECT_INSTANCES = "instances"
SELECT_ALL = "all"
SELECT_NODES = "nodes"
SELECT_PRIMARY = "nodes_pri"
SELECT_SECONDARY = "nodes_sec"
SELECT_TAGS = "instances_by_tags"
SELECT_NODE_TAGS = "nodes_both_by_tags"
SELECT_PRIMARY_TAGS = "nodes_pri_by_tags"
SELECT_SECONDARY_TAGS = "nodes_sec_by_tags"


def _Selector(name: str, value: str, text: str) -> Opt:
    return Opt(name, dest="multi_mode", action="store_const", const=value, default=SELECT_INSTANCES, help=text)


SET_MULTI = (
    Flag("--force-multiple", dest="force_multi", text="Do not ask for confirmation for several instances"),
    _Selector("--instance", SELECT_INSTANCES, "The arguments are names of instances (default)"),
    _Selector("--all", SELECT_ALL, "Select all instances; no arguments"),
    _Selector("--node", SELECT_NODES, "The arguments are nodes: select the instances with disks there"),
    _Selector("--primary", SELECT_PRIMARY, "The arguments are nodes: select their primary instances"),
    _Selector("--secondary", SELECT_SECONDARY, "The arguments are nodes: select their secondary instances"),
    _Selector("--tags", SELECT_TAGS, "The arguments are tags: select the instances that have one of them"),
    _Selector("--node-tags", SELECT_NODE_TAGS, "Like --node, for the nodes that have one of these tags"),
    _Selector("--pri-node-tags", SELECT_PRIMARY_TAGS, "Like --primary, for the nodes that have one of these tags"),
    _Selector("--sec-node-tags", SELECT_SECONDARY_TAGS, "Like --secondary, for the nodes that have one of these tags"),
)
