"""The three commands on tags, the same for clusters, groups, nodes and instances."""

from __future__ import annotations

import sys
from typing import Any

from ganeti import constants, errors, runtime
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import AnyNumber, Command, One
from ganeti.cli.parser import Options

_LIMIT = 1024 * 1024


def _Target(kind: str, arguments: list[str]) -> tuple[str | None, list[str]]:
    """Return the name of the object, None for the cluster, and the further arguments."""
    if kind == constants.TAG_CLUSTER:
        return (None, arguments)
    return (arguments[0], arguments[1:])


def _ReadMore(source: str | None) -> list[str]:
    """Return the tags of ``--from``, one for each line."""
    if source is None:
        return []
    if source == "-":
        text = sys.stdin.read(_LIMIT)
    else:
        try:
            text = runtime.ReadText(source, _LIMIT)
        except (OSError, ValueError) as err:
            reason = err.strerror if isinstance(err, OSError) else "not UTF-8"
            raise errors.OpPrereqError(f"Cannot read '{source}': {reason}", errors.ECODE_INVAL) from err
    return [line.strip() for line in text.splitlines()]


def _Change(opcode: Any, kind: str, options: Options, arguments: list[str], what: str) -> int:
    name, tags = _Target(kind, arguments)
    tags = tags + _ReadMore(options.tags_source)
    if not tags:
        raise errors.OpPrereqError(f"No tags to be {what}", errors.ECODE_INVAL)
    jobs.SubmitOrSend(opcode(kind=kind, name=name, tags=tags), options)
    return constants.EXIT_SUCCESS


def _Arguments(argument: str | None) -> tuple[Any, ...]:
    return (One(argument),) if argument else ()


def AddTagsCommand(kind: str, argument: str | None = None) -> Command:
    def run(options: Options, arguments: list[str]) -> int:
        from ganeti.opcodes import OpTagsSet

        return _Change(OpTagsSet, kind, options, arguments, "added")

    return Command(run, f"Add tags to {_Words(kind)}", (*_Arguments(argument), AnyNumber("tag")), o.SET_TAGS)


def RemoveTagsCommand(kind: str, argument: str | None = None) -> Command:
    def run(options: Options, arguments: list[str]) -> int:
        from ganeti.opcodes import OpTagsDel

        return _Change(OpTagsDel, kind, options, arguments, "removed")

    return Command(run, f"Remove tags from {_Words(kind)}", (*_Arguments(argument), AnyNumber("tag")), o.SET_TAGS)


def ListTagsCommand(kind: str, argument: str | None = None) -> Command:
    def run(options: Options, arguments: list[str]) -> int:
        name, _ = _Target(kind, arguments)
        tags = sorted(jobs.GetClient().QueryTags(kind, name or ""))
        if options.output:
            output.PrintJson(tags)
        else:
            for tag in tags:
                output.ToStdout(tag)
        return constants.EXIT_SUCCESS

    return Command(run, f"List the tags of {_Words(kind)}", _Arguments(argument), (o.OUTPUT_FORMAT,))


def _Words(kind: str) -> str:
    return {
        constants.TAG_CLUSTER: "the cluster",
        constants.TAG_NODEGROUP: "a node group",
        constants.TAG_INSTANCE: "an instance",
    }.get(kind, f"a {kind}")
