"""hsqueeze: switches off nodes that are not needed, and on those that are (doc/reference/htools.md 19)."""

from __future__ import annotations

from collections.abc import Sequence

from ganeti import constants
from ganeti.htools.choosing import solution, squeeze
from ganeti.htools.choosing.balance import Step
from ganeti.htools.choosing.squeeze import Plan
from ganeti.htools.model.entities import NO_NODE
from ganeti.htools.model.state import Cluster
from ganeti.htools.options import Values
from ganeti.tools.htools import execution, output, sources
from ganeti.tools.htools.master import MasterClient
from ganeti.tools.htools.output import Streams


def Main(options: Values, streams: Streams) -> int:
    cluster = sources.Load(options, streams)
    state = cluster.state
    output.Save(streams, cluster, options, "original", "before hsqueeze run")
    if options.verbosity > 1:
        names = ",".join(node.facts.name for node in squeeze.OfflineCandidates(state))
        others = ",".join(node.facts.name for node in squeeze.OnlineCandidates(state))
        streams.Out(f"Offline candidates: {names}", f"Online candidates: {others}")
    if not squeeze.HasRoom(state, cluster.policy, options.minimal_resources):
        return _Expand(cluster, options, streams)
    return _Squeeze(cluster, options, streams)


def _Expand(cluster: Cluster, options: Values, streams: Streams) -> int:
    plan = squeeze.Expand(cluster.state, cluster.policy, options.minimal_resources)
    _PrintNames(cluster, plan, "'Nodes to online'", options, streams)
    if options.verbosity > 1 and not plan.enough:
        streams.Out("Onlining all nodes will not yield enough capacity")
    power = ["echo Power Commands", *(f"  gnt-node power -f on {name}" for name in _Aliases(cluster, plan))]
    _PrintCommands([*power, *_Moves(cluster, plan)], options, streams)
    output.Save(streams, cluster.WithState(plan.state), options, "squeezed", "after hsqueeze expansion")
    return _Execute(cluster, plan, True, options, streams)


def _Squeeze(cluster: Cluster, options: Values, streams: Streams) -> int:
    plan = squeeze.Squeeze(cluster.state, cluster.policy, options.target_resources)
    if not plan.nodes:
        if not options.no_headers:
            streams.Out("'No action'")
        _PrintCommands(["echo Nothing to do"], options, streams)
        output.Save(streams, cluster, options, "squeezed", "after hsqueeze doing nothing")
        return 0
    _PrintNames(cluster, plan, "'Nodes to offline'", options, streams)
    names = _Aliases(cluster, plan)
    lines = [
        *_Moves(cluster, plan),
        "",
        "echo Tagging Commands",
        *(f"  gnt-node add-tags {name} {squeeze.STANDBY_TAG}" for name in names),
        "",
        "echo Power Commands",
        *(f"  gnt-node power -f off {name}" for name in names),
    ]
    _PrintCommands(lines, options, streams)
    output.Save(streams, cluster.WithState(plan.state), options, "squeezed", "after hsqueeze run")
    return _Execute(cluster, plan, False, options, streams)


def _Execute(cluster: Cluster, plan: Plan, expand: bool, options: Values, streams: Streams) -> int:
    """Carry out a plan if ``-X`` asks for it: nodes are switched on before the moves, off after them."""
    if not options.exec:
        return 0
    execution.RequireLuxi("hsqueeze", options)
    verb = "expanding" if expand else "condensing"
    comment = f"{verb} by {len(plan.nodes)} nodes {constants.RELEASE_VERSION}"
    names = [cluster.NodeName(index) for index in plan.nodes]
    moves = [
        [execution.StepOpcodes(step, cluster.NodeName) for step in steps] for steps in solution.JobSets(plan.steps)
    ]
    power = [[_PowerJob(names, expand)]] if names else []
    # Whatever comes before a node is switched off must have succeeded; an interruption ends the whole list.
    sets = [*power, *moves] if expand else [*moves, [[_TagOpcode(name)] for name in names], *power]

    def annotated(job: execution.Job) -> execution.Job:
        return execution.Annotated(job, comment, "hsqueeze", options)

    with MasterClient(options.luxi, streams) as client:
        return execution.RunSets(execution.Executor(execution.LuxiQueue(client), streams), sets, annotated, streams)


def _TagOpcode(name: str) -> execution.Opcode:
    return {"OP_ID": "OP_TAGS_SET", "kind": constants.TAG_NODE, "tags": [squeeze.STANDBY_TAG], "name": name}


def _PowerJob(names: Sequence[str], on: bool) -> execution.Job:
    """Return the job that changes the state of nodes and then their power, all of them together."""
    return [
        *({"OP_ID": "OP_NODE_SET_PARAMS", "node_name": name, "offline": not on} for name in names),
        {
            "OP_ID": "OP_OOB_COMMAND",
            "node_names": list(names),
            "command": "power-on" if on else "power-off",
            "ignore_status": False,
            "timeout": 60,
            "power_delay": 2.0,
        },
    ]


def _Aliases(cluster: Cluster, plan: Plan) -> list[str]:
    return [cluster.state.nodes[index].facts.alias for index in plan.nodes]


def _PrintNames(cluster: Cluster, plan: Plan, header: str, options: Values, streams: Streams) -> None:
    if not options.no_headers:
        streams.Out(header)
    streams.Out(*(cluster.state.nodes[index].facts.name for index in plan.nodes))


def _Moves(cluster: Cluster, plan: Plan) -> list[str]:
    nodes = cluster.state.nodes

    def commands(step: Step) -> Sequence[str]:
        target = step.move.target
        alias = nodes[target].facts.alias if target != NO_NODE else ""
        return solution.Commands(step.instance, step.instance.name, step.move, alias)

    return solution.CommandLines([[(step, commands(step)) for step in jobs] for jobs in solution.JobSets(plan.steps)])


def _PrintCommands(lines: Sequence[str], options: Values, streams: Streams) -> None:
    if options.print_commands is None:
        return
    if options.print_commands:
        streams.WriteFile(options.print_commands, solution.Script(lines))
        streams.Out(f"The commands have been written to file '{options.print_commands}'")
        return
    streams.Out("", "Commands to run:", *(f"  {line}" for line in lines if line != "  check"))
