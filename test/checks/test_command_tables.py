"""The command line of release 3.1 (doc/reference/cli.md 8, 12) is here: each command, name and option, and something shows it."""

from __future__ import annotations

import ast
import glob
import os
import shlex
from collections.abc import Iterator
from optparse import BadOptionError

import pytest
from support import clitables, sources
from support.stories import GOLDEN
from support.virtualnode import TOP

from ganeti.cli import main, manual
from ganeti.cli.command import PROGRAMS, Command, LoadProgram
from ganeti.cli.parser import CommandParser

# What is not here, with the reason; see also doc/compatibility.rst and doc/roadmap.rst.
MISSING = {
    "gnt-debug metad": "there is no metadata daemon",
}
# Commands that do their work on machines, without the master or beside it: the tests that give them their options.
BY_HAND = {
    "gnt-cluster init": "test/unit/cli/test_programs.py",
    "gnt-cluster command": "test/unit/cli/test_remote.py",
    "gnt-cluster copyfile": "test/unit/cli/test_remote.py",
    "gnt-cluster destroy": "test/integration/test_command_line.py",
    "gnt-cluster master-failover": "test/integration/test_two_masters.py test/integration/test_stopping.py",
    "gnt-cluster epo": "test/unit/cli/test_epo.py",
    "gnt-cluster renew-crypto": "test/integration/test_renew_crypto.py",
    "gnt-cluster rapi-token": "test/integration/rapi/test_narrowed_tokens.py",
    "gnt-cluster upgrade": "test/integration/test_upgrade.py",
    "gnt-debug submit-job": "test/integration/test_command_line.py",
    "gnt-debug test-jobqueue": "test/integration/test_command_line.py",
    "gnt-debug locks": "test/integration/test_command_line.py",
    "gnt-instance reinstall": "test/unit/cli/test_requests.py",
    "gnt-node add": "test/integration/test_node_setup.py",
    "gnt-node show-join-data": "test/integration/test_node_setup.py",
    "gnt-node list-drbd": "test/integration/confd/test_confd_tools.py",
}
# Options that have a short form in other commands, with the reason; the catalogue of options has one row for all of them.
WITHOUT_SHORT_FORM = {
    "gnt-cluster rapi-token --output": "the command is ours; its output has no fields to choose",
    "gnt-instance modify --offline": "-O is that of gnt-node modify",
    **{
        f"gnt-instance {word} --node": "says how arguments select instances, and is not the option -n NODE"
        for word in ("reboot", "reinstall", "shutdown", "startup")
    },
}
# Options that help and manual leave out, with the reason.
STORED = "stored and used by nothing: all jobs are tracked"
NO_DAEMON = "the master rejects it: there is no metadata daemon and no monitoring daemon"
NO_EFFECT = "accepted for scripts of 3.1, without an effect"
DEVELOPERS = "passed to the programs on the machine; for developers, like -d"
WAITED = "accepted; the answers of the programs are waited for nevertheless"
HIDDEN = {
    "gnt-backup export --force": NO_EFFECT,
    "gnt-backup import --helper-startup-timeout": NO_EFFECT,
    "gnt-backup import --helper-shutdown-timeout": NO_EFFECT,
    "gnt-backup import --no-ip-check": NO_EFFECT,
    "gnt-backup import --no-name-check": NO_EFFECT,
    "gnt-backup import --no-nics": "rejected: an opcode without NICs asks for those of the export",
    "gnt-cluster modify --max-tracked-jobs": STORED,
    "gnt-cluster modify --instance-communication-network": NO_DAEMON,
    "gnt-cluster modify --enabled-data-collectors": NO_DAEMON,
    "gnt-cluster modify --data-collector-interval": NO_DAEMON,
    "gnt-instance add --communication": NO_DAEMON,
    "gnt-instance add --no-ip-check": NO_EFFECT,
    "gnt-instance add --no-name-check": NO_EFFECT,
    "gnt-instance modify --communication": NO_DAEMON,
    "gnt-network remove --force": NO_EFFECT,
    "gnt-node add --force-join": NO_EFFECT,
    "gnt-node add --verbose": DEVELOPERS,
    "gnt-node power --submit": WAITED,
    "gnt-node power --print-jobid": WAITED,
}
EVERY = [(name, command) for name in PROGRAMS for command in LoadProgram(name).commands]


def _Lacking(row: clitables.Command) -> bool:
    return row.program in MISSING or f"{row.program} {row.names[0]}" in MISSING


def _Parser(program: str, command: str) -> CommandParser:
    loaded = LoadProgram(program)
    return main.MakeParser(loaded, command, loaded.Load(command))


@pytest.mark.req("D20-CLI-01")
def test_every_command_of_the_release_has_its_names_and_options() -> None:
    rows = clitables.Commands()
    assert len(rows) > 120, "the tables of the page were not read"
    wrong = []
    short = clitables.ShortForms()
    for row in rows:
        if _Lacking(row):
            continue
        program = LoadProgram(row.program)
        if row.names[0] not in program.commands:
            wrong.append(f"{row.program} {row.names[0]}: missing")
            continue
        wrong += [
            f"{row.program} {alias}: missing" for alias in row.names[1:] if program.aliases.get(alias) != row.names[0]
        ]
        parser = _Parser(row.program, row.names[0])
        for name in sorted(row.options):
            option = parser.get_option(name)
            if option is None:
                wrong.append(f"{row.program} {row.names[0]}: no option {name}")
            elif stray := set(option._short_opts) - short.get(name, set(option._short_opts)):
                wrong.append(f"{row.program} {row.names[0]} {name}: has the short form {stray}")
            elif (
                len(short.get(name, ())) == 1
                and not option._short_opts
                and f"{row.program} {row.names[0]} {name}" not in WITHOUT_SHORT_FORM
            ):
                wrong.append(f"{row.program} {row.names[0]} {name}: lacks the short form {short[name]}")
    assert wrong == []


def test_only_options_without_a_use_are_hidden() -> None:
    hidden = {
        f"{name} {command} {option.names[-1]}"
        for name in PROGRAMS
        for command, declared in LoadProgram(name).Forms()
        for option in declared.options
        if option.hidden
    }
    assert hidden == HIDDEN.keys()


def test_what_is_missing_is_really_missing() -> None:
    """A line of MISSING goes when the command comes."""
    rows = clitables.Commands()
    known = {name for row in rows for name in (row.program, f"{row.program} {row.names[0]}")}
    assert MISSING.keys() <= known
    assert [f"{name} {command}" for name, command in EVERY if name in MISSING or f"{name} {command}" in MISSING] == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_option_is_in_the_manual(name: str) -> None:
    page = manual.CommandsRst(LoadProgram(name))
    wrong = []
    for command, declared in LoadProgram(name).Forms():
        for option in declared.options:
            if not option.hidden:
                assert option.text, f"{name} {command} {option.names[0]} has no text"
                wrong += [f"{command} {form}" for form in option.names if form not in page]
    assert wrong == []


def _Lines() -> Iterator[list[str]]:
    """Yield the words of each command line in the golden stories."""
    for path in glob.glob(os.path.join(GOLDEN, "cli", "*.story")):
        with open(path, encoding="utf-8") as stream:
            for line in stream:
                if line.startswith("$ gnt-"):
                    yield shlex.split(line[2:])


def _Options(parser: CommandParser, words: list[str]) -> Iterator[str]:
    """Yield the forms of the options among these words."""
    for word in words:
        try:
            option = (
                parser.get_option(parser._match_long_opt(word.partition("=")[0]))
                if word.startswith("--")
                else parser.get_option(word[:2])
                if word.startswith("-")
                else None
            )
        except BadOptionError:
            continue
        if option is not None:
            yield from (*option._long_opts, *option._short_opts)


def _Shown() -> dict[tuple[str, str], set[str]]:
    """Return the options that the stories show, by program and command."""
    shown: dict[tuple[str, str], set[str]] = {}
    for words in _Lines():
        if words[0] in PROGRAMS and len(words) > 1:
            program = LoadProgram(words[0])
            command = program.aliases.get(words[1], words[1])
            if command in program.commands:
                shown.setdefault((words[0], command), set()).update(_Options(_Parser(words[0], command), words[2:]))
    return shown


def _Words(paths: str) -> set[str]:
    """Return the words of all texts in these tests, of options without their values."""
    words: set[str] = set()
    for path in paths.split():
        with open(os.path.join(TOP, path), encoding="utf-8") as stream:
            for node in ast.walk(sources.Parse(stream.read())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    words |= {word.partition("=")[0] for word in node.value.split()}
    return words


def test_every_command_and_option_is_shown_by_a_test() -> None:
    """The stories compare what is sent and printed (test/unit/cli/test_golden.py)."""
    shown = _Shown()
    wrong = []
    for name, command in EVERY:
        words = _Words(BY_HAND.get(f"{name} {command}", ""))
        declared: Command = LoadProgram(name).Load(command)
        if (name, command) not in shown and command not in words:
            wrong.append(f"{name} {command}")
        wrong += [
            f"{name} {command} {option.names[0]}"
            for option in declared.options
            if not option.hidden
            and not shown.get((name, command), set()) & set(option.names)
            and words.isdisjoint(option.names)
        ]
    assert wrong == [], "write them into test/golden/cli/options.story"
