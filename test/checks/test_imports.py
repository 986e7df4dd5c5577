"""Who may import whom, as doc/architecture.rst says; every module imports alone."""

import ast
import os
import re
import subprocess
import sys

import grimp
import pytest
from support import sources
from support.virtualnode import TOP

ONLY_LUXI = ("client", "rapi", "watcher")
# What the programs that reach the cluster by LUXI, or ask confd, may use of the floors below them.
BY_LUXI = {"luxi", "confd", "http", "cli", "client", "daemon", "query"}


def _Section():
    with open(os.path.join(TOP, "doc", "architecture.rst"), encoding="utf-8") as stream:
        text = stream.read()
    return text[text.index("\nFloors\n======\n") : text.index("\nThree seams\n")]


def _Table(text, heading):
    """Rows of the simple table whose first heading is this; a row that begins with blanks goes on with the last."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(heading))
    rule = lines[start - 1]
    starts = [m.start() for m in re.finditer("=+", rule)]
    ends = [*starts[1:], None]
    rows = []
    for line in lines[start + 2 :]:
        if line.startswith("=="):
            return rows
        cells = [line[a:b].strip() for a, b in zip(starts, ends, strict=True)]
        if cells[0]:
            rows.append(cells)
        else:
            rows[-1] = [f"{old} {new}".strip() for old, new in zip(rows[-1], cells, strict=True)]
    raise AssertionError(f"table '{heading}' has no end")


def _Names(text):
    return [name.strip() for name in text.split(",") if name.strip()]


FLOORS = {}  # room -> (number, side)
for _floor, _rooms, _ in _Table(_Section(), "floor"):
    _number, _side = _floor.split(" ", 1)
    for _room in _Names(_rooms):
        FLOORS[_room] = (int(_number), _side)

EXCEPTIONS = {(who, room) for who, rooms, _ in _Table(_Section(), "who") for room in _Names(rooms)}


def _Orders():
    """For rooms of one floor: (user, used) pairs in the written direction."""
    sentence = re.search(r"in one direction only:(.*?)\.\n", _Section(), re.DOTALL)[1]
    sentence = re.sub(r"\([^)]*\)", "", sentence)
    allowed = set()
    for chain in re.findall(r"``([^`]*)``", sentence):
        groups = [_Names(part) for part in " ".join(chain.split()).split(">")]
        for index, users in enumerate(groups):
            for used_group in groups[index + 1 :]:
                allowed |= {(user, used) for user in users for used in used_group}
    return allowed


ORDERS = _Orders()


@pytest.fixture(scope="module")
def graph():
    return grimp.build_graph("ganeti", exclude_type_checking_imports=True, cache_dir=None)


def _Modules():
    package = os.path.join(TOP, "lib")
    return sorted(
        "ganeti."
        + os.path.relpath(os.path.join(folder, name), package)[:-3].replace("/", ".").removesuffix(".__init__")
        for folder, _, files in os.walk(package)
        for name in files
        if name.endswith(".py")
    )


def _Room(module):
    return module.split(".")[1] if "." in module else ""


def _Edges(graph):
    for user in sorted(graph.modules):
        for used in sorted(graph.find_modules_directly_imported_by(user)):
            if _Room(user) != _Room(used) and _Room(user) and _Room(used):
                yield user, used


def _Excepted(user, room):
    parts = user.split(".")[1:]
    return any((".".join(parts[:length]), room) in EXCEPTIONS for length in range(1, len(parts) + 1))


def _Allowed(user, used):
    one, other = _Room(user), _Room(used)
    (floor, side), (used_floor, used_side) = FLOORS[one], FLOORS[other]
    if _Excepted(user, other):
        return True
    if one in ONLY_LUXI and used_floor >= 3 and other not in BY_LUXI:
        return False
    if used_floor > floor:
        return False
    if used_floor < floor:
        return not (used_side == "node" and side in ("master", "programs"))
    if side != used_side:
        return False
    neighbours = {room for pair in ORDERS for room in pair}
    return (one, other) in ORDERS or not (one in neighbours and other in neighbours)


def test_the_page_was_understood():
    assert FLOORS["runtime"] == (1, "ground")
    assert FLOORS["pathutils"][0] == 1
    assert FLOORS["backend"] == (6, "node")
    assert {("jqueue", "mcpu"), ("client", "cli"), ("opcodes", "params")} <= ORDERS
    assert ("cli", "client") not in ORDERS
    assert ("server.noded", "backend") in EXCEPTIONS


def test_no_module_is_overlooked(graph):
    assert [name for name in _Modules() if name not in graph.modules and name != "ganeti.__init__"] == []


def test_every_room_has_a_floor(graph):
    assert sorted({_Room(m) for m in graph.modules} - {""} - FLOORS.keys()) == []


@pytest.mark.req("D20-RAPI-03")
def test_nobody_looks_up(graph):
    wrong = [f"{user} imports {used}" for user, used in _Edges(graph) if not _Allowed(user, used)]
    assert wrong == [], "\n".join(["doc/architecture.rst does not allow:", *wrong])


def test_every_exception_is_needed(graph):
    used = {
        (who, _Room(imported))
        for user, imported in _Edges(graph)
        for who, _ in EXCEPTIONS
        if f"{user}.".startswith(f"ganeti.{who}.")
    }
    assert sorted(EXCEPTIONS - used) == [], "doc/architecture.rst permits what nobody does"


def test_rooms_form_no_circle(graph):
    uses = {}
    for user, used in _Edges(graph):
        uses.setdefault(_Room(user), set()).add(_Room(used))
    done = set()

    def visit(room, path):
        assert room not in path, f"circle: {' > '.join([*path[path.index(room) :], room])}"
        if room not in done:
            for other in sorted(uses.get(room, ())):
                visit(other, [*path, room])
            done.add(room)

    for room in sorted(uses):
        visit(room, [])


def test_the_rule_bites():
    assert not _Allowed("ganeti.objects.node", "ganeti.config.writer")
    assert not _Allowed("ganeti.backend.node", "ganeti.config.writer")
    assert not _Allowed("ganeti.cmdlib.instance", "ganeti.storage.drivers.lvm")
    assert not _Allowed("ganeti.cli.jobs", "ganeti.client.gnt_node")
    assert not _Allowed("ganeti.client.gnt_job.list", "ganeti.jqueue.job")
    assert not _Allowed("ganeti.client.gnt_os.list", "ganeti.rpc.runner")
    assert not _Allowed("ganeti.http.connection", "ganeti.rpc.base")
    assert _Allowed("ganeti.rapi.daemon", "ganeti.http.connection")
    assert _Allowed("ganeti.client.gnt_node.add", "ganeti.bootstrap.join")


# The only way from one machine to a node daemon, and who may take it: a node passes on what a master asks it to.
_WAY_TO_NODES = "ganeti.rpc.curl"
_CALLERS = {"lib/server/master.py", "lib/server/noded.py", "lib/bootstrap/calls.py"}
# These speak to the REST daemon, to monitoring and to what an administrator names.
_TO_OTHERS = {"lib/http/fetch.py", "lib/rapi/client.py"}
# What they do they do before there is a master, or after it has died.
_WITHOUT_MASTER = {
    *(f"ganeti.client.gnt_cluster.{command}" for command in ("destroy", "init", "master_failover")),
    *(f"ganeti.client.gnt_node.{command}" for command in ("add", "show_join_data")),
}


def _Imported(text):
    for found in ast.walk(sources.Parse(text)):
        if isinstance(found, ast.Import):
            yield from (alias.name for alias in found.names)
        elif isinstance(found, ast.ImportFrom):
            yield from (f"{found.module}.{alias.name}" for alias in found.names)


def _Programs():
    """All our files with Python in them, by name: modules, and programs without a suffix."""
    for folder in ("lib", "daemons", "scripts", "tools"):
        for where, _, names in os.walk(os.path.join(TOP, folder)):
            for name in names:
                path = os.path.join(where, name)
                with open(path, "rb") as stream:
                    data = stream.read()
                if name.endswith(".py") or (data.startswith(b"#!") and b"python" in data[: data.index(b"\n")]):
                    yield os.path.relpath(path, TOP), data.decode()


@pytest.mark.req("D20-GOAL-09")
def test_only_the_master_daemon_calls_node_daemons(graph):
    programs = dict(_Programs())
    callers = {
        name
        for name, text in programs.items()
        if any(f"{imported}.".startswith(f"{_WAY_TO_NODES}.") for imported in _Imported(text))
    }
    assert callers == _CALLERS
    reached = graph.find_downstream_modules(_WAY_TO_NODES)
    assert {module for module in reached if _Room(module) in {"cli", "tools", *ONLY_LUXI}} == _WITHOUT_MASTER
    assert {name for name, text in programs.items() if "pycurl" in _Imported(text)} == {"lib/rpc/curl.py", *_TO_OTHERS}


_IMPORT_ALL = """
import os, sys
# What is not ours may be there before: it is a matter of time only.
import asyncio, cryptography.x509, hypothesis, logging, optparse, simplejson, sqlite3, subprocess, tempfile, typing
import OpenSSL.SSL, bitarray, h11, pycurl, pyparsing, regex
failed = []
for name in sys.stdin.read().split():
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(writer, 2)
        try:
            __import__(name)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writer)
    text = b""
    while part := os.read(reader, 65536):
        text += part
    os.close(reader)
    if os.waitpid(pid, 0)[1]:
        failed.append(name + "\\n" + text.decode())
print("\\n".join(failed))
"""


@pytest.mark.limit(600)
def test_every_module_imports_alone():
    """Each in a process that imported nothing before: no module leans on another's having been imported first."""
    modules = _Modules()
    assert "ganeti.runtime.real.files" in modules
    done = subprocess.run(
        [sys.executable, "-c", _IMPORT_ALL],
        input=" ".join(modules),
        cwd=TOP,
        capture_output=True,
        text=True,
        timeout=590,
        check=True,
    )
    assert done.stdout.strip() == ""


def test_every_program_has_its_main():
    with open(os.path.join(TOP, "autotools", "programs"), encoding="utf-8") as stream:
        rows = [line.partition("#")[0].split() for line in stream]
    modules = {row[2] for row in rows if row}
    code = "import importlib, sys\nfor name in sys.argv[1:]: print(callable(importlib.import_module(name).Main), name)"
    done = subprocess.run(
        [sys.executable, "-c", code, *sorted(modules)], cwd=TOP, capture_output=True, text=True, timeout=50
    )
    assert done.stdout.splitlines() == [f"True {name}" for name in sorted(modules)], done.stderr
