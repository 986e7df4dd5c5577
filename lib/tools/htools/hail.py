"""hail: the allocator (doc/reference/htools.md 14)."""

from __future__ import annotations

import sys

from ganeti.htools import answer
from ganeti.htools.answer import Answer, Impossible
from ganeti.htools.choosing.allocate import Rules
from ganeti.htools.model.state import Cluster, State
from ganeti.htools.options import Values
from ganeti.htools.sources import loading, request
from ganeti.htools.sources.loading import LoadError
from ganeti.htools.sources.request import BadMessage, Message, Type
from ganeti.tools.htools import output, sources
from ganeti.tools.htools.output import Failed, Streams


def Main(options: Values, streams: Streams) -> int:
    message = _ReadMessage(options)
    cluster = _Cluster(message, options, streams)
    if options.verbosity > 1:
        streams.Err(f"Received request: {message.request}")
    if options.verbosity > 2:
        streams.Err(f"Received cluster data: {cluster}")
    output.PrintNodes(streams, cluster.state.Ordered(), options, "Initial cluster")
    output.Save(streams, cluster, options, "pre-ialloc", "before iallocator run")
    rules = Rules(
        force=options.ignore_soft_errors,
        capacity_checks=not options.no_capacity_checks,
        restrict=options.restrict_allocation_to,
    )
    reply: Answer | Impossible
    try:
        reply = answer.Reply(cluster, message.request, rules)
        final = reply.cluster
    except Impossible as err:
        reply, final = err, cluster
    output.PrintNodes(streams, final.state.Ordered(), options, "Final cluster")
    output.Save(streams, _NewestFirst(cluster, final, message), options, "post-ialloc", "after iallocator run")
    streams.Out(answer.Dump(reply))
    return 0


def _ReadMessage(options: Values) -> Message:
    if len(options.arguments) != 1:
        none = "This program needs an input file."
        raise Failed("Only one argument is accepted (the input file)" if options.arguments else none)
    path = options.arguments[0]
    try:
        text = sys.stdin.read(sources.MAX_FILE) if path == "-" else sources.ReadFile(path)
        return request.Parse(text)
    except (BadMessage, LoadError) as err:
        raise Failed(str(err)) from err


def _Cluster(message: Message, options: Values, streams: Streams) -> Cluster:
    """Return the cluster of the message, or of the source that the options name."""
    if options.text_data is not None or options.simulate:
        return sources.Load(options, streams)
    return sources.Complete(loading.Build(message.raw, sources.Wishes(options)), options, streams)


def _NewestFirst(before: Cluster, after: Cluster, message: Message) -> Cluster:
    """Return the cluster with the instance of an ``allocate`` request before all others, as it is saved."""
    if message.request.type is not Type.ALLOCATE:
        return after
    instances = after.state.instances
    new = {index: inst for index, inst in instances.items() if index not in before.state.instances}
    return after.WithState(State(after.state.nodes, {**new, **instances}))
