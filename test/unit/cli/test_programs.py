"""All commands of all programs: declarations fit together, help works, they start quickly."""

import os
import resource
import subprocess
import sys

import pytest
from support import sources
from support.nodes import MakeNodes
from support.virtualnode import TOP

from ganeti.bootstrap import init
from ganeti.cli import main
from ganeti.cli.command import PROGRAMS, Command, LoadProgram, UsageError
from ganeti.client.gnt_cluster.init import MakeSettings

COMMANDS = [(name, command) for name in PROGRAMS for command in LoadProgram(name).commands]


@pytest.mark.parametrize(("name", "command"), COMMANDS)
def test_declaration(name, command, capsys):
    program = LoadProgram(name)
    declared = program.Load(command)
    assert isinstance(declared, Command)
    assert declared.summary and not declared.summary.endswith(".")
    parser = main.MakeParser(program, command, declared)
    # Every option's destination is read as an attribute: two options must not share one by accident.
    options, _ = parser.parse_args([])
    assert options.debug == 0
    with pytest.raises(SystemExit) as done:
        parser.parse_args(["--help"])
    assert done.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["Usage", "====="]
    assert lines[2].startswith(f"  {name} {command} [options...]")
    assert not [option for option in declared.options if option.hidden and f"{option.names[-1]}=" in "\n".join(lines)]
    options_at = lines.index("Options")
    assert lines[options_at + 1] == "======="
    assert [line.partition(" ")[0] for line in lines if line.startswith("--")][-3:] == [
        "--debug,",
        "--reason=REASON",
        "--help,",
    ]
    assert max(map(len, lines)) <= 80


@pytest.mark.req("D21-UID-05")
@pytest.mark.parametrize(
    ("words", "pool"), [([], []), (["--uid-pool=4000-4019,5000"], [[4000, 4019], [5000, 5000]]), (["--uid-pool="], [])]
)
def test_a_cluster_begins_with_the_pool_that_is_asked_for(words, pool, tmp_path):
    program = LoadProgram("gnt-cluster")
    command = program.Load("init")
    given = [*words, "--enabled-disk-templates=diskless", "--enabled-hypervisors=fake", "--master-netdev=lo"]
    options, _ = main.MakeParser(program, "init", command).parse_args(given)
    (node,) = MakeNodes(tmp_path, "node1.example.org")
    with node:
        made = init._ClusterValues(MakeSettings(options, "cluster.example.org"))
    assert made["uid_pool"] == pool


# Each with a value that is not the default.
_INIT = [
    ["-C", "3"], ["--enabled-hypervisors=kvm"], ["--enabled-disk-templates=plain"], ["-m", "aa:00:09"],
    ["--master-netdev=br7"], ["--master-netmask=24"], ["--use-external-mip-script=yes"], ["--vg-name=other"],
    ["--drbd-usermode-helper=/bin/false"], ["--prealloc-wipe-disks=yes"], ["--uid-pool=4000"],
    ["--file-storage-dir=/srv/files"], ["--shared-file-storage-dir=/srv/shared"], ["--user-shutdown=yes"],
    ["--maintain-node-health=yes"], ["-I", "hail"], ["--default-iallocator-params=a=1"],
    ["--specs-cpu-count=min=2,max=8,std=2"], ["--specs-disk-count=min=2,max=8,std=2"],
    ["--specs-disk-size=min=2048,max=8192,std=2048"], ["--specs-mem-size=min=256,max=8192,std=256"],
    ["--specs-nic-count=min=0,max=4,std=2"], ["--ipolicy-disk-templates=plain"], ["--ipolicy-vcpu-ratio=2"],
    ["--ipolicy-bounds-specs=min:cpu-count=1,disk-count=1,disk-size=1g,memory-size=128,nic-count=0,spindle-use=1/"
     "max:cpu-count=8,disk-count=16,disk-size=1t,memory-size=32g,nic-count=8,spindle-use=12"],
    ["--ipolicy-spindle-ratio=16"], ["--ipolicy-memory-ratio=1.5"], ["--ipolicy-max-node-failures=2"],
    ["--ipolicy-std-specs=cpu-count=2"], ["-B", "maxmem=256"], ["-H", "kvm:acpi=false"], ["-N", "link=br7"],
    ["--node-parameters=spindle_count=4"], ["-D", "drbd:metavg=meta"], ["--hypervisor-state=kvm:cpu_total=8"],
    ["--disk-state=lvm/xenvg:disk_total=1024"], ["-s", "198.51.100.1"], ["--no-etc-hosts"], ["--no-ssh-init"],
    ["--install-image=/srv/install.img"], ["--zeroing-image=/srv/zeroing.img"], ["--compression-tools=gzip"], ["--primary-ip-version=6"], ["--gluster-storage-dir=/srv/gluster"], ["--ssh-key-bits=3072"], ["--ssh-key-type=ecdsa"],
]  # fmt: skip


@pytest.mark.req("D20-CLI-01")
@pytest.mark.parametrize("words", _INIT, ids=lambda words: words[0].partition("=")[0])
def test_every_option_of_init_changes_the_cluster(words):
    program = LoadProgram("gnt-cluster")
    command = program.Load("init")

    def settings(*given):
        options, _ = main.MakeParser(program, "init", command).parse_args(list(given))
        return MakeSettings(options, "cluster.example.org")

    assert settings(*words) != settings()
    assert settings("--compression-tools=") == settings()


@pytest.mark.req("D20-CLI-01")
def test_devices_are_written_alike_in_all_commands():
    """Every --disk and --net that describes devices takes N[:KEY=VALUE,...], any number of times."""
    found = {}
    for name, command in COMMANDS:
        program = LoadProgram(name)
        declared = program.Load(command)
        for option in declared.options:
            kind = option.settings.get("type")
            if {"--disk", "--net"} & set(option.names) and kind != "int":
                parser = main.MakeParser(program, command, declared)
                words = [f"{option.names[0]}=0", option.names[0], "1:size=1g,mode=ro"]
                options, _ = parser.parse_args(words)
                found[name, command, option.names[0]] = getattr(options, option.settings["dest"])
    assert {key[1:] for key in found} >= {
        ("add", "--disk"),
        ("add", "--net"),
        ("modify", "--disk"),
        ("modify", "--net"),
    }
    wrong = {key: value for key, value in found.items() if value != [("0", {}), ("1", {"size": "1g", "mode": "ro"})]}
    assert wrong == {}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    program = LoadProgram(name)
    assert program.name == name
    assert list(program.commands) == sorted(program.commands)
    assert set(program.aliases.values()) <= set(program.commands)
    assert not set(program.aliases) & set(program.commands)
    text = main.Usage(program)
    assert text.startswith(f"Usage: {name} {{command}} [options...] [argument...]\n")
    assert all(f" {command} " in text for command in program.commands)


@pytest.mark.parametrize(
    ("word", "named"),
    [
        ("grow", ["'grow-disk'"]),
        ("act", ["'activate-disks'", "'deactivate-disks'"]),
        ("disk", ["'grow-disk'"]),
        ("lsit", ["'list'"]),
        ("begin", []),
        ("stop-all", ["'stop'"]),
        ("\x1b[2Jinfo", ["'info'"]),
    ],
)
def test_an_unknown_command_is_answered_with_the_nearest(word, named, capsys):
    assert main.RunProgram(LoadProgram("gnt-instance"), [word]) == 1
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert lines[0].startswith("gnt-instance: unknown command '")
    assert lines[-1] == "'gnt-instance --help' lists the commands."
    assert all(name in lines[1] for name in named)
    assert ("Did you mean" in err) == bool(named)
    assert "\x1b" not in err


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_command_has_a_logical_unit_for_what_it_submits(name):
    """What is listed exists: a command whose opcode has no unit would fail always."""
    import ast
    import importlib

    from ganeti import opcodes
    from ganeti.cmdlib import LU_MAPPING

    program = LoadProgram(name)
    for command in program.commands:
        module = importlib.import_module(program.Load(command).run.__module__)
        with open(module.__file__, encoding="utf-8") as stream:
            tree = sources.Parse(stream.read())
        words = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id.startswith("Op")}
        ids = {opcodes.NameToId(word) for word in words} & set(opcodes.OP_MAPPING)
        assert not [op_id for op_id in ids if op_id not in LU_MAPPING], command


def test_counts_of_arguments():
    from ganeti.cli.command import AnyNumber, Maybe, One, Some

    def complain(*args, count):
        command = Command(lambda options, arguments: 0, "", args)
        try:
            command.CheckCount("x", ["a"] * count)
        except UsageError as err:
            return str(err)
        return None

    assert complain(count=1) == "Command x expects no arguments"
    assert complain(One("a"), count=2) == "Command x expects 1 argument(s)"
    assert complain(One("a"), One("b"), count=1) == "Command x expects 2 argument(s)"
    assert complain(Some("a"), count=0) == "Command x expects at least 1 argument(s)"
    assert complain(One("a"), AnyNumber("b"), count=0) == "Command x expects at least 1 argument(s)"
    assert complain(One("a"), AnyNumber("b"), count=5) is None
    assert complain(One("a"), Maybe("b"), count=3) == "Command x expects only 2 argument(s)"


# --- quick start ---------------------------------------------------------------------------------------------------------

HEAVY = ("ssl", "OpenSSL", "pycurl", "asyncio", "logging.handlers", "cryptography", "pyparsing", "sqlite3", "inspect")
TYPICAL = [
    "gnt_instance.list", "gnt_node.list", "gnt_job.list", "gnt_instance.startup", "gnt_cluster.info", "gnt_node.modify",
    "gnt_debug.delay",
]  # fmt: skip


@pytest.mark.parametrize("module", TYPICAL)
def test_nothing_heavy_is_imported(module):
    code = f"import sys, ganeti.cli.main, ganeti.client.{module}\nprint(*[m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=TOP, capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == ""


def test_a_command_starts_quickly():
    """80 ms with Python itself, on a machine where Python alone takes 12: machines differ, and others use them too.

    So time of the processor is compared: of one start, and of seven bare ones right after it, which take as long.
    """

    def once(code):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], cwd=TOP, check=True, timeout=30)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    starts = [
        (once("import ganeti.cli.main, ganeti.client.gnt_instance.list"), sum(once("pass") for _ in range(7)) / 7)
        for _ in range(8)
    ]
    assert min(ours / bare for ours, bare in starts) < 80 / 12 or min(starts)[0] < 0.080, starts


# --- made from the declarations ------------------------------------------------------------------------------------------


def test_manuals(tmp_path):
    autoconf = os.path.join(TOP, "lib", "_autoconf.py")
    for name in sorted(os.listdir(os.path.join(TOP, "man"))):
        if name.endswith(".rst"):
            writer = os.path.join(TOP, "autotools", "write-manual")
            page = tmp_path / name.removesuffix(".rst")
            subprocess.run(
                [sys.executable, "-B", writer, os.path.join(TOP, "man", name), str(page), autoconf, TOP],
                check=True,
                timeout=50,
            )
            assert '.\\" Man page' in page.read_text()[:40]
    text = (tmp_path / "gnt-node.8").read_text().replace("\\-", "-")
    for part in (
        "gnt-node migrate",
        "GNT_NODE_LIST",
        "--drained=yes|no",
        "spindle_count=NUMBER",
        "Adding a node.",
        "join-data",
    ):
        assert part in text
    assert "--iallocator=NAME" in text and "--force-join" not in text
    assert "GNT_" not in (tmp_path / "gnt-job.8").read_text()


def test_every_program_has_a_manual():
    assert [name for name in PROGRAMS if not os.path.exists(os.path.join(TOP, "man", f"{name}.8.rst"))] == []


@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """Gives what bash would offer for the last word of a command line."""
    from ganeti.cli.completion import BashScript

    data = tmp_path_factory.mktemp("data")
    (data / "ssconf_node_list").write_text("node1\nnode2\nother\n")
    (data / "ssconf_instance_list").write_text("web\nmail\n")
    (data / "ssconf_nodegroups").write_text("uuid1 default\nuuid2 rack2\n")
    (data / "ssconf_networks").write_text("uuid1 lan\nuuid2 dmz\n")
    (data / "bin").mkdir()
    asked = data / "bin" / "gnt-filter"
    asked.write_text('#!/bin/sh\n[ "$*" = "list --no-headers -o uuid" ] && printf "12ab\\n34cd\\n"\n')
    asked.chmod(0o755)
    (data / "queue").mkdir()
    (data / "queue" / "job-17").write_text("")
    (data / "os").mkdir()
    (data / "os" / "debian").mkdir()
    script = data / "completion"
    script.write_text(BashScript([LoadProgram(name) for name in PROGRAMS], str(data), [str(data / "os")], ["/none"]))

    def run(line):
        words = line.split(" ")
        code = f"""
source {script}
PATH={data}/bin:$PATH
COMP_WORDS=({" ".join("'" + w + "'" for w in words)})
COMP_CWORD={len(words) - 1}
_{words[0].replace("-", "_")}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
        done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, timeout=30, check=True)
        assert done.stderr == ""
        return sorted(done.stdout.split())

    return run


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("gnt-node mig", ["migrate"]),
        ("gnt-node list no", ["node1", "node2"]),
        ("gnt-node list --separ", ["--separator"]),
        ("gnt-node list --units = ", ["g", "h", "m", "t"]),
        ("gnt-node modify --drained y", ["yes"]),
        ("gnt-node migrate -n o", ["other"]),
        ("gnt-node migrate --iall", ["--iallocator"]),
        ("gnt-node add --force-j", []),
        ("gnt-group list ra", ["rack2"]),
        ("gnt-network modify l", ["lan"]),
        ("gnt-filter replace ", ["12ab", "34cd"]),
        ("gnt-filter delete 3", ["34cd"]),
        ("gnt-job info ", ["17"]),
        ("gnt-job show 1", ["17"]),
        ("gnt-cluster queue un", ["undrain"]),
        (f"gnt-cluster renew-crypto --rapi-certificate = {TOP}/READ", [f"{TOP}/README"]),
        ("gnt-instance startup w", ["web"]),
        ("gnt-os modify d", ["debian"]),
    ],
)
def test_completion(complete, line, offered):
    assert complete(line) == offered
