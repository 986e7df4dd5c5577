"""The command lines that messages, manuals and documents name, and what is wrong with them.

A command line is what stands between quotes or double backticks, or alone on a line of an example, and begins with one of
our programs; there a backslash at the end joins the next line.  Elsewhere in a text only the program and the command's
name are looked at.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from ganeti import pathutils
from ganeti.cli import main
from ganeti.cli.command import PROGRAMS, Command, LoadProgram
from ganeti.cli.parser import Opt
from ganeti.tools.daemon_util import VERBS
from support import sources
from support.virtualnode import TOP

# What stands for a value that is known only when the program runs.
HOLE = "PLACEHOLDER"
# Programs of 3.1 that do not exist here yet: nobody may be sent to them.
LATER = frozenset(
    [
        "burnin",
        "cluster-merge",
        "move-instance",
    ]
)
_COMMAND_WORD = re.compile(r"[a-z][a-z-]*")


def _OtherPrograms() -> dict[str, str]:
    """Name -> path of the programs that have no command words."""
    found = {}
    for folder in ("daemons", "daemons/tools", "tools"):
        for name in os.listdir(os.path.join(TOP, folder)):
            path = os.path.join(TOP, folder, name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                found[name] = path
    del found["daemon-util"]
    return found


OTHERS = _OtherPrograms()
# Where no shell looks for them: a message names them by their whole path.
OFF_PATH = {
    name for name, path in OTHERS.items() if not path.startswith(f"{TOP}/tools/") and not name.startswith("ganeti-")
}
OFF_PATH.add("daemon-util")
_NAMES = "|".join(sorted({*PROGRAMS, *LATER, *OTHERS, "daemon-util"}, key=len, reverse=True))
_PROGRAM = rf"(?:{_NAMES})(?![\w/-]|\.\w)"
_QUOTED = re.compile(
    rf"'((?:[\w/.@-]*/)?{_PROGRAM}[^'\n]*)'|``((?:[\w/.@-]*/)?{_PROGRAM}.*?)``|`((?:[\w/.@-]*/)?{_PROGRAM}[^`\n]*)`",
    re.DOTALL,
)
_EXAMPLE = re.compile(rf"^(?:\s{{2,}}|[#$] |\s+[#$] )((?:[\w/.@-]*/)?{_PROGRAM}(?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE)
_RUN = re.compile(rf"\b[Rr]un ({'|'.join(sorted(OFF_PATH, key=len, reverse=True))})(?![\w/.-])")
_LOOSE = re.compile(rf"(?<![\w/.'`-])({_PROGRAM})(?: ([a-z][\w-]*))?")


class Line(NamedTuple):
    """A command line and where it stands; ``whole``: it is to be typed as it stands, arguments and all."""

    where: str
    text: str
    whole: bool


# --- collecting ---------------------------------------------------------------------------------------------------------


def FromText(where: str, text: str, whole: bool = False) -> Iterator[Line]:
    """The command lines of a text; ``whole``: of a message, whose reader will type them."""
    rest = text
    for pattern in (_QUOTED, _EXAMPLE):
        for match in pattern.finditer(rest):
            found = next(group for group in match.groups() if group)
            yield Line(
                f"{where}{_LineNumber(text, match.start())}", " ".join(found.replace("\\\n", " ").split()), whole
            )
        rest = pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), rest)
    for match in _RUN.finditer(rest) if whole else ():
        yield Line(f"{where}{_LineNumber(text, match.start())}", f"{match[1]} ...", whole)
    for match in _LOOSE.finditer(rest):
        if match[1] in LATER or match[1] in PROGRAMS:
            shown = " ".join(word for word in match.groups() if word)
            yield Line(f"{where}{_LineNumber(text, match.start())}", shown, False)


def _LineNumber(text: str, place: int) -> str:
    return f":{text.count(chr(10), 0, place) + 1}"


def FromPython(path: str) -> Iterator[Line]:
    """The command lines in the strings of a module; those of docstrings need not be whole."""
    with open(path, encoding="utf-8") as stream:
        tree = sources.Parse(stream.read())
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    where = os.path.relpath(path, TOP)
    for node in ast.walk(tree):
        if id(node) in inner:
            continue
        text = _Text(node)
        if text is not None:
            for line in FromText("", text, id(node) not in documents):
                yield line._replace(where=f"{where}:{node.lineno}")  # type: ignore[attr-defined]


def _Text(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else _Value(part) for part in node.values)
    return None


def _Value(part: ast.AST) -> str:
    """The path of a program that the text names by pathutils, else what stands for any value."""
    match part:
        case ast.FormattedValue(value=ast.Attribute(value=ast.Name(id="pathutils"), attr=name)):
            path = getattr(pathutils, name, None)
            if isinstance(path, str) and os.path.basename(path) in {*OTHERS, "daemon-util"}:
                return path
    return HOLE


# --- checking -----------------------------------------------------------------------------------------------------------


def Problem(line: Line) -> str | None:
    """What is wrong with a command line, None if nothing is."""
    try:
        words = shlex.split(re.sub(r"[.,;:]$", "", line.text), comments=True)
    except ValueError as err:
        return f"it cannot be split into words: {err}"
    redirected = [place for place, word in enumerate(words) if word in ("<", ">", "|")]
    words = words[: redirected[0]] if redirected else words
    name = os.path.basename(words[0])
    if line.whole and words[0] in OFF_PATH and len(words) > 1:
        return f"'{name}' is not on anybody's PATH: name the whole path, as pathutils has it"
    if name in LATER:
        return f"there is no program '{name}' in this release"
    if name == "daemon-util":
        return _DaemonUtilProblem(words[1:], line.whole)
    if name in OTHERS:
        return _OtherProblem(name, words[1:])
    return _CommandProblem(name, words[1:], line.whole)


def _CommandProblem(name: str, words: list[str], whole: bool) -> str | None:
    program = LoadProgram(name)
    if not words or words[0] in ("--help", "-h", "--version") or not _COMMAND_WORD.fullmatch(words[0]):
        return None
    command = program.aliases.get(words[0], words[0])
    if command not in program.commands:
        return f"there is no command '{words[0]}' ({', '.join(program.commands)})"
    return _ArgumentProblem(program.Load(command), words[1:], whole)


def _ArgumentProblem(command: Command, words: list[str], whole: bool) -> str | None:
    options = {name: option for option in (*command.options, *main.COMMON) for name in option.names}
    while words and words[0].startswith(("-", "[-")) and words[0] not in ("-", "--"):
        word, *words = words
        optional = word.startswith("[-")
        name, equals, value = (word.strip("[]") if optional else word).partition("=")
        option = options.get(name)
        if option is None or option.hidden:
            return f"there is no option '{name}'"
        if option.takes_value and not equals:
            if not words:
                return f"option '{name}' needs a value"
            value, *words = words
        if equals and not option.takes_value:
            return f"option '{name}' takes no value"
        problem = None if optional or not option.takes_value else _ValueProblem(option, name, value)
        if problem:
            return problem
    if words[:1] == ["--"]:
        words = words[1:]
    late = [word for word in words if word.startswith("-") and word.partition("=")[0] in options]
    if late:
        return f"option '{late[0]}' stands behind an argument: options go before the first argument"
    return _CountProblem(command, words, whole)


def _IsOpen(value: str) -> bool:
    """Whether it is a word for a value, not a value: NODE, NODE1:NODE2, N, ..., <node>."""
    return HOLE in value or "..." in value or value.startswith("<") or bool(re.search(r"[A-Z]", value))


def _ValueProblem(option: Opt, name: str, value: str) -> str | None:
    if _IsOpen(value) or value == "|".join(option.choices):
        return None
    try:
        option.Make().check_value(name, value)
    except Exception as err:  # noqa: BLE001 - whatever the parser says
        return str(err)
    return None


def _CountProblem(command: Command, words: list[str], whole: bool) -> str | None:
    if not words and not whole:
        return None
    text = " ".join(words)
    if "..." in text or HOLE + HOLE in text:
        return None
    count = len([word for word in words if not word.startswith("[")])
    least = sum(arg.least for arg in command.args)
    most = sum(arg.most for arg in command.args if arg.most) if all(arg.most for arg in command.args) else None
    if count < least or (most is not None and len(words) > most):
        wanted = " ".join(map(str, command.args)) or "none"
        return f"it has {count} argument(s), but the command takes {wanted}"
    return None


def _DaemonUtilProblem(words: list[str], whole: bool) -> str | None:
    if not words or _IsOpen(words[0]):
        return None
    for name in words[0].split("|"):
        verb = VERBS.get(name)
        if verb is None:
            return f"there is no action '{name}' ({', '.join(VERBS)})"
        fixed = [word for word in verb.words if not word.startswith("[")]
        count = len(words) - 1
        if (count or whole) and (count < len(fixed) or (count > len(fixed) and len(fixed) == len(verb.words))):
            return f"action '{name}' takes: {' '.join(verb.words) or 'nothing'}"
    return None


@lru_cache
def _Help(name: str) -> str | None:
    """What the program says of its options; None where it cannot run because a package of developers is missing."""
    done = subprocess.run(
        [OTHERS[name], "--help"], capture_output=True, text=True, timeout=50, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0 or "No module named" in done.stderr, done.stderr
    return done.stdout if done.returncode == 0 else None


def _OtherProblem(name: str, words: list[str]) -> str | None:
    for word in words:
        option = word.strip("[]").partition("=")[0]
        if not option.startswith("--"):
            continue
        text = _Help(name)
        if text is not None and not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text):
            return f"there is no option '{option}'"
    return None
