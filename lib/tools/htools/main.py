"""The one executable behind all programs (doc/reference/htools.md 1)."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ganeti import constants, runtime
from ganeti.htools.options import PROGRAM_OPTIONS, Parser, UsageError, ValueProblem, Values
from ganeti.htools.sources.loading import LoadError
from ganeti.tools.htools.output import Failed, Streams
from ganeti.tools.htools.sources import TooManySources, UnknownNodes

ROLE_VARIABLE: Final = "HTOOLS"


class Role(NamedTuple):
    """A program: what it does, and what it takes beside options.  Its module, of the same name, has a ``Main``."""

    doc: str
    arguments: str = ""
    completion: str = ""


ROLES: Final[Mapping[str, Role]] = {
    "hail": Role("allocator for new and leaving instances", " FILE", "file 1 1"),
    "harep": Role("repairer of instances on nodes that are offline"),
    "hbal": Role("cluster balancer"),
    "hcheck": Role("cluster checker"),
    "hinfo": Role("cluster information printer"),
    "hroller": Role("cluster rolling maintenance scheduler"),
    "hscan": Role("tool for scanning clusters and saving their state", " [ADDRESS...]", "host 0 none"),
    "hspace": Role("cluster space analyzer"),
    "hsqueeze": Role("cluster dynamic power management"),
}


def Run(role: str, words: Sequence[str], streams: Streams) -> int:
    """Run a program and return its exit status."""
    if role not in ROLES:
        streams.Err(f"Unknown program '{role}'; set {ROLE_VARIABLE} to one of:", *_RoleList())
        return 1
    parser = Parser(PROGRAM_OPTIONS[role])
    usage = f"{role} (ganeti) version {constants.RELEASE_VERSION}\nUsage: {role} [OPTION...]{ROLES[role].arguments}"
    try:
        options = parser.Parse(words)
    except UsageError as err:
        streams.Err(f"Command line error: {err}", "", parser.Help(usage))
        return 2
    except ValueProblem as err:
        streams.Err("Error while parsing command line arguments:", str(err))
        return 1
    if options.help:
        streams.Out(parser.Help(usage))
    elif options.version:
        streams.Out(*_Version(role))
    elif options.help_completion:
        streams.Out(*parser.Completion(), *([ROLES[role].completion] if ROLES[role].completion else []))
    else:
        return _Execute(role, options, streams)
    return 0


def _Execute(role: str, options: Values, streams: Streams) -> int:
    if options.arguments and not ROLES[role].arguments:
        streams.Err("Error: This program doesn't take any arguments.")
        return 1
    try:
        return int(importlib.import_module(f"ganeti.tools.htools.{role}").Main(options, streams))
    except LoadError as err:
        streams.Err(f"Error: failed to load data, aborting: {err}")
    except TooManySources as err:
        streams.Err(f"Error: {err}")
    except UnknownNodes as err:
        streams.Err(f"Error: wrong node name(s) set as offline: {err}", "")
    except Failed as err:
        streams.Err(f"Error: {err}")
        return err.code
    return 1


def _RoleList() -> list[str]:
    return [f"  {name}: {role.doc}" for name, role in sorted(ROLES.items())]


def _Version(role: str) -> list[str]:
    implementation = sys.implementation
    return [
        f"{role} (ganeti) version {constants.RELEASE_VERSION}",
        f"running on {implementation.name} {'.'.join(map(str, implementation.version[:3]))}",
        f"{sys.platform}",
    ]


def _WriteFile(path: str, content: str) -> None:
    runtime.WriteFile(path, content, mode=0o644)


def Main() -> int:
    role = runtime.Environment().get(ROLE_VARIABLE, os.path.basename(sys.argv[0])).lower()
    return Run(role, sys.argv[1:], Streams(sys.stdout, sys.stderr, _WriteFile))
