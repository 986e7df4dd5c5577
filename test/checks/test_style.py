"""One formatter, one linter, one type checker; names, sizes and words (CONTRIBUTING.rst)."""

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys

import pytest
from support import sources
from support.virtualnode import TOP

BIN = os.path.dirname(sys.executable)
FILE_LINES = 800
# One file that programs may copy.
LONG_FILES = {"lib/rapi/client.py"}
FUNCTION_LINES = 60

# Methods that stand for those of the standard library's objects keep their names (doc/architecture.rst), and so do
# those of locks that the designs name.
STDLIB_LIKE = {
    "acquire", "release", "wait", "wait_for", "notify", "notify_all", "set", "is_set", "clear", "put", "get", "qsize",
    "start", "join", "is_alive", "locked", "add", "remove", "items", "keys", "values",
    "send", "sendall", "recv", "recv_into", "accept", "close", "shutdown", "fileno", "setblocking", "settimeout",
    "gettimeout", "getpeername", "getsockname", "setsockopt", "getsockopt", "sendto", "recvfrom", "bind", "listen",
    "connect", "write", "read", "flush",
    "downgrade", "delete", "is_owned", "list_owned", "check_owned", "owning_all", "owned_locks",
}  # fmt: skip
CAP_WORDS = re.compile(r"_{0,2}[A-Z][A-Za-z0-9]*")
# Names that follow a table: RPC calls, handlers of a visitor.
TABLE_NAMES = re.compile(r"_?call_[a-z0-9_]+|_[A-Z][A-Za-z]*_[A-Za-z0-9]+")


def _Sources(*folders):
    for folder in folders:
        for directory, _, names in os.walk(os.path.join(TOP, folder)):
            for name in sorted(names):
                path = os.path.join(directory, name)
                if name.endswith(".py") and name != "_autoconf.py":
                    yield os.path.relpath(path, TOP)


def _Parse(path):
    with open(os.path.join(TOP, path), encoding="utf-8") as stream:
        return sources.Parse(stream.read(), path)


def _Run(*argv, timeout=280):
    return subprocess.run(argv, cwd=TOP, capture_output=True, text=True, timeout=timeout)


def test_format():
    done = _Run(f"{BIN}/ruff", "format", "--check", "--quiet", "lib", "test", "autotools", "tools", "os")
    assert done.returncode == 0, done.stdout + done.stderr


def test_lint():
    done = _Run(f"{BIN}/ruff", "check", "--no-cache", "lib", "test", "autotools", "tools", "os")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.limit(300)
def test_types(tmp_path):
    # A cache of its own: two runs over one cache disturb each other.
    done = _Run(f"{BIN}/mypy", "--cache-dir", os.environ.get("MYPY_CACHE_DIR") or str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr


# --- names ---------------------------------------------------------------------------------------------------------------


def _IsOverride(cls, name):
    """Whether a class that is not ours gave the method its name."""
    return any(name in vars(base) for base in cls.__mro__[1:] if not base.__module__.startswith("ganeti"))


def _WrongMethods(module):
    for cls in vars(module).values():
        if not inspect.isclass(cls) or cls.__module__ != module.__name__:
            continue
        for name, value in vars(cls).items():
            function = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
            if not inspect.isfunction(function) or function.__module__ != module.__name__:
                continue  # properties, values; what a base or a decorator of others made
            if function.__name__ == "<lambda>":
                continue  # the default of a field
            if name.startswith("__") and name.endswith("__"):
                continue
            if CAP_WORDS.fullmatch(name) or name in STDLIB_LIKE or TABLE_NAMES.fullmatch(name):
                continue
            if not _IsOverride(cls, name):
                yield f"{module.__name__}.{cls.__name__}.{name}"


def test_functions_have_cap_words():
    """Module functions: private ones too; closures and tests are lower case."""
    wrong = []
    for path in _Sources("lib"):
        functions = [n for n in _Parse(path).body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]
        wrong.extend(
            f"{path}:{node.lineno}: {node.name}"
            for node in functions
            if not CAP_WORDS.fullmatch(node.name) and not re.fullmatch("__[a-z]+__", node.name)
        )
    assert wrong == []


def test_methods_have_cap_words():
    wrong = []
    for path in _Sources("lib"):
        name = "ganeti." + path.removeprefix("lib/").removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        if name == "ganeti.__init__":
            continue
        wrong.extend(_WrongMethods(importlib.import_module(name)))
    assert wrong == []


def test_closures_are_lower_case():
    wrong = []
    for path in _Sources("lib"):
        for outer in ast.walk(_Parse(path)):
            if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef)):
                wrong.extend(
                    f"{path}:{node.lineno}: {node.name}"
                    for node in ast.walk(outer)
                    if node is not outer
                    and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
                    and node.name != node.name.lower()
                    and not _InClass(outer, node)
                )
    assert wrong == []


def _InClass(outer, function):
    """Whether the function is a method of a class made inside ``outer``."""
    return any(isinstance(node, ast.ClassDef) and function in node.body for node in ast.walk(outer))


def test_patterns_name_the_attributes():
    """``case Answered(kind)`` makes a new string each time, which CPython's cache of attributes keeps, up to 4096 of them
    (ceval.c of 3.11, ``match_class``): in a daemon they come to lie all over the memory, and slow down other look-ups."""
    wrong = [
        f"{path}:{node.lineno}: {ast.unparse(node)}"
        for path in _Sources("lib")
        for node in ast.walk(_Parse(path))
        if isinstance(node, ast.MatchClass) and node.patterns
    ]
    assert wrong == []


# --- sizes ---------------------------------------------------------------------------------------------------------------


def test_files_are_small():
    large = []
    for path in _Sources("lib", "test", "autotools", "tools", "os"):
        with open(os.path.join(TOP, path), encoding="utf-8") as stream:
            count = sum(1 for _ in stream)
        if count > FILE_LINES and path not in LONG_FILES:
            large.append(f"{path}: {count} lines")
    assert large == []


def test_functions_are_small():
    large = []
    for path in _Sources("lib"):
        for node in ast.walk(_Parse(path)):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.end_lineno is not None:
                count = node.end_lineno - node.lineno + 1
                if count > FUNCTION_LINES:
                    large.append(f"{path}:{node.lineno}: {node.name} has {count} lines")
    assert large == []


# --- words ---------------------------------------------------------------------------------------------------------------

# Split, so that this file does not hold them itself.
BANNED = [
    "TO" + "DO", "FIX" + "ME", "HA" + "CK", "work" + "/shared", "work" + "/main", "Clau" + "de", "Anthro" + "pic",
    "ChatG" + "PT", r"language mo" + "del", r"AI assis" + "tant", r"sub-?age" + "nt", r"this ses" + "sion", r"the bri" + "ef",
    r"issue #\d", "not imple" + "mented yet", "place" + "holder for",
]  # fmt: skip
_BANNED = re.compile(r"\b(?:" + "|".join(BANNED) + ")")


def _Texts():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=TOP, capture_output=True, text=True)
    if listed.returncode:  # no checkout
        for folder in ("lib", "doc", "man", "test", "autotools", "tools", "daemons"):
            for directory, _, names in os.walk(os.path.join(TOP, folder)):
                yield from (os.path.relpath(os.path.join(directory, name), TOP) for name in names)
        return
    yield from (name for name in listed.stdout.split("\0") if name)


def test_no_banned_words():
    found = []
    for path in _Texts():
        if path.startswith("test/data/"):
            continue
        try:
            with open(os.path.join(TOP, path), encoding="utf-8") as stream:
                lines = stream.readlines()
        except (OSError, UnicodeDecodeError):
            continue
        found.extend(
            f"{path}:{number}: {match[0]}" for number, line in enumerate(lines, 1) for match in _BANNED.finditer(line)
        )
    assert found == []


# What messages are not to say (CONTRIBUTING.rst).
_UNCLEAR = re.compile(
    r"\b(?:all the same|for ever|(?:not|no [a-z]+) [^.;]*\bany more|goes on|well again|mended|tells|hears)\b|\b(?<!here )is no (?!longer\b|t\b)[a-z]",
    re.IGNORECASE,
)


def _Messages(tree):
    """Yield the line and the text of each string that is not a docstring, the pieces of an f-string joined by a dash."""
    docs, parts = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            docs.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            parts.update(node.values)
            yield node.lineno, "-".join(part.value for part in node.values if isinstance(part, ast.Constant))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docs and node not in parts:
            yield node.lineno, node.value


def test_messages_are_in_plain_words():
    found = [
        f"{path}:{line}: {match[0]!r}"
        for path in _Sources("lib")
        for line, text in _Messages(_Parse(path))
        for match in _UNCLEAR.finditer(text)
    ]
    assert found == []


def test_every_module_says_what_it_is():
    assert [path for path in _Sources("lib", "test") if not ast.get_docstring(_Parse(path))] == []


def test_documents_are_well_formed():
    from docutils.core import publish_string
    from docutils.utils import SystemMessage

    wrong = []
    for folder in ("", "doc"):
        for name in sorted(os.listdir(os.path.join(TOP, folder))):
            if name.endswith(".rst"):
                with open(os.path.join(TOP, folder, name), encoding="utf-8") as stream:
                    settings = {"report_level": 2, "halt_level": 2, "warning_stream": None}
                    try:
                        publish_string(stream.read(), source_path=name, writer="null", settings_overrides=settings)
                    except SystemMessage as err:
                        wrong.append(str(err))
    assert wrong == []
