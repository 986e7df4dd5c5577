"""Every command with every option of a wrong type, names that do not exist, too many and too few arguments.

The cases follow from the declarations of the commands: a command or an option that is added is tested without a word
here, or the test says in which table it is missing.  What counts: the right exit code (doc/reference/cli.md 1.3, 1.4), words on
standard error that name what is wrong, and nothing changed.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from support.commandline import CommandLine, Done
from support.realcluster import RealCluster, RealNode

from ganeti.cli import parser
from ganeti.cli.command import PROGRAMS, Arg, Command, LoadProgram

COMMANDS = [(name, command) for name in PROGRAMS for command in LoadProgram(name).commands]

NOBODY = "nobody-at-all"
INSTANCE = "inst1.example.com"
NODE = "node2.example.com"
NIC = "0:mode=routed,ip=192.0.2.7,link=x"
OS = "noop"
NETWORK = "lan"
RULE = "00000031-aaaa-4bbb-8ccc-000000000031"
UNBUILT = "is not supported in this release"

FAILURE, SYNTAX = 1, 2

# Type of an option -> (wrong value, exit code, what must be said).
WRONG: dict[str, list[tuple[str, int, str]]] = {
    "int": [("seven", SYNTAX, "invalid integer value: 'seven'"), ("1.5", SYNTAX, "invalid integer value: '1.5'")],
    "float": [("seven", SYNTAX, "'seven'"), ("nan", SYNTAX, "'nan'"), ("1e999", SYNTAX, "'1e999'")],
    "maybefloat": [("seven", SYNTAX, "'seven'"), ("nan", SYNTAX, "'nan'"), ("1e999", SYNTAX, "'1e999'")],
    "unit": [("seven", SYNTAX, "Invalid format"), ("7x", SYNTAX, "Unknown unit: x"), ("", SYNTAX, "Invalid format")],
    "choice": [("seventh", SYNTAX, "invalid choice: 'seventh'"), ("", SYNTAX, "invalid choice: ''")],
    "json": [("{", SYNTAX, "{option}")],
    "bool": [("perhaps", FAILURE, "Invalid boolean value 'perhaps'"), ("", FAILURE, "Invalid boolean value ''")],
    "keyval": [("a=1,a=2", FAILURE, "Duplicate key 'a'")],
    "keyprivateval": [("a=1,a=2", FAILURE, "Duplicate key 'a'")],
    "identkeyval": [("x:a=1,a=2", FAILURE, "Duplicate key 'a'"), ("no_x:a=1", FAILURE, "no_x:a=1")],
    "multilistidentkeyval": [
        ("max", FAILURE, "Empty section 'max'"),
        ("min:a=1/min:a=1", FAILURE, "Duplicated parameter 'min'"),
        ("min:a", FAILURE, "Missing value for key 'a'"),
        (f"{NOBODY}:a=1", FAILURE, "{option}"),
    ],
    "string": [],
    "list": [],
    "names": [],
    "uidpool": [("high", FAILURE, "high"), ("9-1", FAILURE, "9-1"), ("-5", FAILURE, "-5")],
    "filteraction": [],
}

# More levels than a filter may have.
_DEEP: list[Any] = ["==", "OP_ID", "x"]
for _level in range(300):
    _DEEP = ["!", _DEEP]

_SPECS = [(f"{NOBODY}=1", NOBODY), ("min=seven", "seven")]
_HV_GROUPS = [(f"{NOBODY}:key=1", NOBODY), (f"fake:{NOBODY}=1", NOBODY), ("fake:migration_mode=seven", "seven")]

# (destination of an option, its type) -> values whose form is right, and what must be said of them.
MEANINGLESS: dict[tuple[str, str], list[tuple[str, str]]] = {
    ("to", "string"): [(NOBODY, NOBODY), ("9.9", "9.9")],
    ("beparams", "keyval"): [
        (f"{NOBODY}=1", NOBODY), ("vcpus=seven", "seven"), ("maxmem=7x", "7x"), ("auto_balance=perhaps", "perhaps"),
    ],
    ("compress", "string"): [(NOBODY, NOBODY)],
    ("compression_tools", "names"): [("../x", "../x")],
    ("count", "int"): [("9" * 40, "0 to 1000"), ("1001", "0 to 1000"), ("-1", "-1")],
    ("disks", "identkeyval"): [("zero:size=1G", "zero"), ("0:size=7x", "7x")],
    ("disks", "string"): [("7x", "7x")],
    ("disk_indices", "names"): [("first", "first"), ("-1", "-1"), ("99", "99")],
    ("disk_state", "identkeyval"): [
        (f"{NOBODY}:disk_total=1", NOBODY), (f"plain/vg:{NOBODY}=1", NOBODY), ("plain/vg:disk_total=seven", "seven"),
    ],
    ("diskparams", "identkeyval"): [
        (f"{NOBODY}:a=1", NOBODY), (f"drbd:{NOBODY}=1", NOBODY), ("drbd:resync-rate=seven", "seven"),
    ],
    ("enabled_disk_templates", "names"): [(NOBODY, NOBODY)],
    ("enabled_hypervisors", "names"): [(NOBODY, NOBODY)],
    ("hv_state", "identkeyval"): [
        (f"{NOBODY}:cpu_total=1", NOBODY), (f"fake:{NOBODY}=1", NOBODY), ("fake:cpu_total=seven", "seven"),
    ],
    ("hvparams", "identkeyval"): _HV_GROUPS,
    ("hvparams", "keyval"): [(f"{NOBODY}=1", NOBODY)],
    ("hypervisor", "identkeyval"): [(NOBODY, NOBODY), (f"fake:{NOBODY}=1", NOBODY)],
    ("ipolicy_disk_templates", "list"): [(NOBODY, NOBODY)],
    ("ipolicy_std_specs", "keyval"): [(f"{NOBODY}=1", NOBODY), ("cpu-count=seven", "seven")],
    ("ispecs_cpu_count", "keyval"): _SPECS,
    ("ispecs_disk_count", "keyval"): _SPECS,
    ("ispecs_disk_size", "keyval"): _SPECS,
    ("ispecs_memory_size", "keyval"): _SPECS,
    ("ispecs_nic_count", "keyval"): _SPECS,
    ("action", "filteraction"): [("JUMP", "JUMP"), ("RATE_LIMIT", "RATE_LIMIT"), ("RATE_LIMIT 0", "RATE_LIMIT")],
    ("add_reserved_ips", "list"): [
        ("192.0.2.9-192.0.2.11", "192.0.2.9-192.0.2.11"), ("198.51.100.1", "198.51.100.1"), ("2001:db8::1", "2001:db8::1"),
    ],
    ("gateway", "string"): [("198.51.100.1", "198.51.100.1"), ("2001:db8::1", "2001:db8::1"), (NOBODY, NOBODY)],
    ("gateway6", "string"): [("192.0.2.1", "192.0.2.1"), ("2001:db8::1/64", "2001:db8::1/64")],
    ("mac_prefix", "string"): [("zz:zz:zz", "zz:zz:zz")],
    ("network", "string"): [
        ("192.0.2.0", "192.0.2.0"), ("192.0.2.1/24", "192.0.2.1/24"), ("10.0.0.0/8", "/16 to /30"), ("192.0.2.0/31", "/16 to /30"),
        ("2001:db8::/64", "2001:db8::/64"), ("300.0.2.0/24", "300.0.2.0/24"), (NOBODY, NOBODY),
    ],
    ("network6", "string"): [("192.0.2.0/24", "192.0.2.0/24"), ("2001:db8::1/64", "2001:db8::1/64")],
    ("predicates", "json"): [
        ("7", "7"), ('{"jobid": 1}', "predicates"), ('[["jobs", ["==", "id", 1]]]', "jobs"), ('[["jobid"]]', "jobid"),
        ('[["jobid", ["==", "number", 1]]]', "number"), ('[["opcode", ["~~", "OP_ID", 1]]]', "~~"),
        ('[["opcode", ["=~", "OP_ID", "("]]]', "("), (json.dumps([["opcode", _DEEP]]), "nested"),
    ],
    ("priority", "int"): [("-1", "-1"), ("9" * 40, "priority")],
    ("max_running_jobs", "int"): [("9" * 40, "9999"), ("0", "0"), ("-1", "-1")],
    ("master_netmask", "string"): [("wide", "wide"), ("99", "99")],
    ("ndparams", "keyval"): [
        (f"{NOBODY}=1", NOBODY), ("spindle_count=seven", "seven"), ("ovs=perhaps", "perhaps"),
    ],
    ("nicparams", "keyval"): [(f"{NOBODY}=1", NOBODY), (f"mode={NOBODY}", NOBODY)],
    ("nics", "string"): [("a/b/c/d", "a/b/c/d")],
    ("nics", "identkeyval"): [("zero:ip=none", "zero"), ("0:ip=300.1.1.1", "300.1.1.1"), (f"0:network={NOBODY}", NOBODY)],
    ("primary_ip_version", "string"): [("5", "5")],
    ("remove_reserved_ips", "list"): [
        ("192.0.2.9-192.0.2.11", "192.0.2.9-192.0.2.11"), ("198.51.100.1", "198.51.100.1"),
    ],
    ("reserved_lvs", "list"): [("(", "(")],
    ("src_path", "string"): [(NOBODY, NOBODY), ("../x", "../x")],
    ("secondary_ip", "string"): [("300.1.1.1", "300.1.1.1"), (NOBODY, NOBODY)],
    ("expires", "string"): [("soon", "soon"), ("0", "in the future")],
    ("tags", "names"): [("not a tag", "not a tag")],
    ("tags", "string"): [("not a tag", "not a tag")],
    ("vg_name", "string"): [("a\nb", "not a valid name of a volume group")],
}  # fmt: skip
# Options that any text is right for: its meaning is the site's.
FREE = {
    ("data_collector_interval", "keyval"),
    ("default_iallocator_params", "keyval"),
    ("enabled_data_collectors", "keyval"),
    ("ext_params", "keyval"),
    ("drbd_helper", "string"),
    ("file_storage_dir", "string"),
    ("gluster_storage_dir", "string"),
    ("ignore_offline_nodes", "string"),
    ("install_image", "string"),
    ("instance_communication_network", "string"),
    ("ipolicy_bounds_specs", "multilistidentkeyval"),
    ("master_netdev", "string"),
    ("os", "string"),
    ("osparams", "keyval"),
    ("osparams_private", "keyprivateval"),
    ("osparams_secret", "keyprivateval"),
    ("output", "string"),
    ("separator", "string"),
    ("shared_file_storage_dir", "string"),
    ("zeroing_image", "string"),
}
# Options that name an object which must exist.
NAMES = {
    parser.COMPLETE_NODE, parser.COMPLETE_NODE_PAIR, parser.COMPLETE_INSTANCE, parser.COMPLETE_GROUP,
    parser.COMPLETE_NETWORK, parser.COMPLETE_OS, parser.COMPLETE_IALLOCATOR,
}  # fmt: skip

# Arguments that name an object: kind -> one that exists.
OBJECTS = {
    "instance": INSTANCE, "node": NODE, "group": "default", "network": NETWORK, "filter": RULE, "os": OS, "jobid": "1",
}  # fmt: skip
# Arguments that must have a form or a meaning: kind -> one that is right.
VALUES = {
    "duration": "0",
    "disk": "0",
    "size": "1g",
    "age": "1w",
    "timespec": "1h",
    "file": "/etc/hostname",
    "type": "lvm-pv",
}
# Arguments for which any text will do.
TEXTS = {
    "tag": "tag",
    "text": "text",
    "pattern": "x",
    "command": "true",
    "name": "thing",
    "new_name": "new",
    "new_network": "new",
    "field": "name",
}
HOST = "other.example.com"
# The name of an export, and what its node has of it.
EXPORTED = "inst2.example.com"
_EXPORT = f"""[export]
version = 0
timestamp = 1700000000
source = None
os = {OS}+default
compression = none
[instance]
name = {EXPORTED}
disk_count = 0
nic_count = 0
"""

# What makes a command complete: options and their values.
COMPLETE = {
    ("gnt-backup", "export"): [("-n", NODE)],
    ("gnt-backup", "import"): [("-t", "file"), ("-s", "1g"), ("-n", NODE), ("--net", NIC), ("--src-node", NODE)],
    ("gnt-cluster", "init"): [
        ("--enabled-disk-templates", "diskless"), ("--enabled-hypervisors", "fake"), ("--master-netdev", "lo"),
        ("--no-ssh-init", ""), ("--no-etc-hosts", ""),
    ],
    ("gnt-cluster", "rapi-token"): [("--role", "read")],
    ("gnt-filter", "add"): [("--priority", "9")],
    ("gnt-filter", "replace"): [("--priority", "9")],
    ("gnt-group", "evacuate"): [("-I", "hail")],
    ("gnt-debug", "iallocator"): [("-m", "node-evacuate")],
    ("gnt-group", "modify"): [("--alloc-policy", "preferred")],
    ("gnt-node", "list-storage"): [("--storage-type", "file")],
    ("gnt-node", "modify-storage"): [("--allocatable", "yes")],
    ("gnt-instance", "add"): [("-t", "file"), ("-s", "1g"), ("-o", f"{OS}+default"), ("-n", NODE), ("--net", NIC)],
    ("gnt-instance", "change-group"): [("-I", "hail")],
    ("gnt-instance", "move"): [("-n", NODE)],
    ("gnt-instance", "modify"): [("-B", "vcpus=1"), ("--no-hotplug", "")],
    ("gnt-instance", "replace-disks"): [("-p", "")],
    ("gnt-job", "change-priority"): [("--priority", "low")],
    ("gnt-network", "add"): [("--network", "203.0.113.0/24")],
    ("gnt-network", "modify"): [("--mac-prefix", "aa:00:02")],
    ("gnt-node", "add"): [("--no-node-setup", "")],
    ("gnt-node", "modify"): [("--drained", "no")],
    ("gnt-os", "modify"): [("--hidden", "no")],
}  # fmt: skip
_BATCH = os.path.join(os.path.dirname(__file__), "..", "..", "data", "batch.json")
ARGUMENTS = {
    ("gnt-backup", "import"): [EXPORTED],
    ("gnt-instance", "batch-create"): [os.path.abspath(_BATCH)],
    ("gnt-cluster", "rapi-token"): ["add", "new"],
    ("gnt-group", "add"): ["new"],
    ("gnt-node", "repair-storage"): [OBJECTS["node"], "lvm-vg", "thing"],
}
MORE = {"add-tags": ["tag"], "remove-tags": ["tag"]}
# Destination of an option -> the option of the complete form that does not go with it.
CLASHES = {"disks": "-s", "iallocator": "-n", "nics": "--net", "remote_node": "-p"}
# Commands that do more when they are forced than not to ask.
NEVER_FORCED = {("gnt-instance", "modify")}

# What 3.1 answers with success: (program, command, destination of the option or kind of the argument).
SUCCESS = {
    ("gnt-filter", "info", "filter"),
    ("gnt-group", "info", "group"),
    ("gnt-group", "show-ispecs-cmd", "group"),
    ("gnt-network", "info", "network"),
    ("gnt-node", "info", "node"),
}
# Names that need not belong to anything: nothing is looked up.
UNCHECKED = {
    ("gnt-backup", "remove", "instance"),  # the instance may be gone for long
    # Only some of the modes look at them.
    ("gnt-debug", "iallocator", "iallocator"),
    ("gnt-debug", "iallocator", "tags"),
    ("gnt-debug", "iallocator", "target_groups"),
    ("gnt-filter", "list", "filter"),  # no such rule is no row
    ("gnt-group", "add", "group"),
    ("gnt-group", "evacuate", "iallocator"),  # there is no other group
    ("gnt-instance", "change-group", "iallocator"),
    ("gnt-instance", "failover", "iallocator"),  # its disks are on one node
    ("gnt-instance", "migrate", "iallocator"),
    ("gnt-instance", "migrate", "keep_node"),  # only with --cleanup
    ("gnt-instance", "modify", "iallocator"),  # only for a conversion to drbd
    ("gnt-instance", "replace-disks", "iallocator"),  # two ways to choose the secondary node
    ("gnt-node", "evacuate", "remote_node"),  # no mirror is on the node
    ("gnt-node", "failover", "iallocator"),
    ("gnt-node", "migrate", "iallocator"),  # the disks of its instance are on one node
    ("gnt-os", "modify", "os"),
}


class Case(NamedTuple):
    """A command line, and how it is to be refused: exit code (None: any of a failure), words on standard error."""

    words: str
    argv: tuple[str, ...]
    code: int | None = None


class Form:
    """One command in its complete form, and what can be wrong with it."""

    def __init__(self, program: str, name: str):
        self.command: Command = LoadProgram(program).Load(name)
        self.key = (program, name)
        self._options = [option for option in self.command.options if option.takes_value]
        self._arguments = ARGUMENTS.get(self.key) or [
            word for arg in self.command.args for word in self._Right(arg)
        ] + MORE.get(name, [])

    def _Unasked(self) -> list[str]:
        """Options by which nothing is asked."""
        if self.key in NEVER_FORCED:
            return []
        made = [option.Make() for option in self.command.options]
        return [option.get_opt_string() for option in made if option.dest in ("force", "force_multi", "yes")]

    def _Right(self, arg: Arg) -> list[str]:
        if arg.choices:
            return [arg.choices[0]]
        if arg.kind in OBJECTS:
            return [OBJECTS[arg.kind]]
        if arg.kind == "host":
            return [HOST]
        return [{**VALUES, **TEXTS}[arg.kind]] * arg.least

    def _Line(self, *options: str, arguments: list[str] | None = None, without: str | None = None) -> tuple[str, ...]:
        pairs = [pair for pair in COMPLETE.get(self.key, []) if pair[0] != without]
        before = [*self._Unasked(), *(word for pair in pairs for word in pair if word)]
        return (*self.key, *before, *options, *(self._arguments if arguments is None else arguments))

    def Syntax(self) -> Iterator[Case]:
        """What the parser refuses: no job may come of it."""
        yield Case("no such option: --no-such-option", self._Line("--no-such-option"), SYNTAX)
        yield Case("no such option: -?", self._Line("-?"), SYNTAX)
        least = sum(arg.least for arg in self.command.args)
        most = (
            None
            if any(arg.most is None for arg in self.command.args)
            else sum(arg.most or 0 for arg in self.command.args)
        )
        if least:
            yield Case("argument(s)", self._Line(arguments=["x"] * (least - 1)), FAILURE)
        if most is not None:
            yield Case("expects", self._Line(arguments=["x"] * (most + 1)), FAILURE)
        for option in self._options:
            made = option.Make()
            name = made.get_opt_string()
            for value, code, words in WRONG[made.type or "string"]:
                line = self._Line(f"{name}={value}") if name.startswith("--") else self._Line(name, value)
                yield Case(words.format(option=name), line, code)

    def Meaning(self) -> Iterator[Case]:
        """What has the right form and means nothing."""
        for option in self._options:
            made = option.Make()
            name, key = made.get_opt_string(), (made.dest or "", made.type or "string")
            if (*self.key, key[0]) in UNCHECKED:
                continue
            code = 0 if (*self.key, key[0]) in SUCCESS else None
            if option.completion in NAMES:
                yield Case(NOBODY, self._Line(name, NOBODY, without=CLASHES.get(key[0])), code)
            elif key in MEANINGLESS:
                for value, words in MEANINGLESS[key]:
                    yield Case(words, self._Line(name, value, without=CLASHES.get(key[0])), code)
            elif key[1] in ("string", "list", "names", "filteraction") or "keyval" in key[1]:
                assert key in FREE or option.completion == parser.COMPLETE_FILE, f"{key} is in no table of this test"

    def Names(self) -> Iterator[Case]:
        """Arguments that name nothing, or say nothing."""
        place = 0
        for arg in self.command.args:
            right = self._Right(arg)
            if (*self.key, arg.kind) not in UNCHECKED and (arg.choices or arg.kind in OBJECTS or arg.kind in VALUES):
                arguments = [*self._arguments[:place], NOBODY, *self._arguments[place + len(right) :]]
                yield Case(NOBODY, self._Line(arguments=arguments), 0 if (*self.key, arg.kind) in SUCCESS else None)
            place += len(right)


class Scene:
    """A running cluster with one instance, and its command line."""

    def __init__(self, cluster: RealCluster):
        self.node: RealNode = cluster[0]
        self.line = CommandLine(self.node)
        self.stranger = cluster.MakeStranger("node9.example.com", HOST)
        self.outside = CommandLine(self.stranger)
        cluster.MakeOs(OS)
        cluster[1].Write(f"/srv/ganeti/export/{EXPORTED}/config.ini", _EXPORT)
        self.Must("gnt-debug", "delay", "0")
        self.Must("gnt-network", "add", "--network=192.0.2.0/24", NETWORK)
        self.Must("gnt-filter", "replace", RULE)
        options = [word for pair in COMPLETE[("gnt-instance", "add")] for word in pair if pair[1]]
        self.Must("gnt-instance", "add", *options, "--no-start", INSTANCE)

    def Must(self, *argv: str) -> None:
        done = self.line.Run(*argv)
        assert done.code == 0, done.err

    def _Ask(self, query: str) -> int:
        path = self.node.Path("/var/lib/ganeti/ext/store.db")
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
            return int(database.execute(query).fetchone()[0])

    def Configuration(self) -> int:
        """Number of the newest change of the configuration."""
        return self._Ask("SELECT max(seq) FROM rows WHERE kind NOT IN ('job', 'queue', 'archived')")

    def Jobs(self) -> int:
        return self._Ask("SELECT value FROM rows WHERE kind = 'queue' AND id = 'serial'")

    def MadeCluster(self) -> bool:
        """Whether the machine outside has a cluster now; takes it away again."""
        made = os.path.exists(self.stranger.Path("/var/lib/ganeti"))
        shutil.rmtree(self.stranger.Path("/var/lib/ganeti"), ignore_errors=True)
        return made

    def Check(self, cases: Iterator[Case]) -> None:
        """Fails with everything that is wrong with the answers."""
        found = []
        for case in cases:
            before = self.Configuration()
            line = self.outside if case.argv[1] == "init" else self.line
            done = line.Run(*case.argv)
            changed = self.Configuration() != before or self.MadeCluster()
            fault = "something was changed" if changed else _Fault(case, done)
            if fault:
                found.append(f"{' '.join(case.argv)}\n    {fault}; it gave {done.code} and said {done.err[-400:]!r}")
        if found:
            pytest.fail("\n".join(found), pytrace=False)


def _Fault(case: Case, done: Done) -> str | None:
    for bad in ("Traceback", "internal error"):
        if bad in done.err + done.out:
            return bad
    if (done.code != case.code) if case.code is not None else (done.code not in (1, 2, 13)):
        return f"exit code {case.code or 'of a failure'} was expected"
    return None if case.words in done.err or UNBUILT in done.err else f"{case.words!r} was expected"


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with RealCluster(2) as cluster:
        cluster.StartNodeDaemons()
        cluster[0].StartMaster()
        # gnt-node list-drbd asks it.
        cluster[0].StartConfd()
        made = Scene(cluster)
        yield made
        made.line.Close()
        made.outside.Close()


@pytest.mark.parametrize(("program", "name"), COMMANDS)
def test_what_the_parser_refuses(scene: Scene, program: str, name: str) -> None:
    jobs = scene.Jobs()
    scene.Check(Form(program, name).Syntax())
    assert scene.Jobs() == jobs


@pytest.mark.parametrize(("program", "name"), COMMANDS)
def test_what_means_nothing(scene: Scene, program: str, name: str) -> None:
    scene.Check(Form(program, name).Meaning())


@pytest.mark.parametrize(("program", "name"), COMMANDS)
def test_who_does_not_exist(scene: Scene, program: str, name: str) -> None:
    scene.Check(Form(program, name).Names())


@pytest.mark.parametrize(
    "argv",
    [
        ("gnt-cluster", "add-tags", "caf\udce9"),
        ("gnt-cluster", "modify", "--master-netdev", "caf\udce9"),
        ("gnt-cluster", "modify", "--drbd-usermode-helper", "/caf\udce9"),
        ("gnt-instance", "info", "caf\udce9"),
        ("gnt-node", "list", "-o", "caf\udce9"),
        ("gnt-group", "rename", "default", "caf\udce9"),
    ],
    ids=lambda argv: argv[1],
)
def test_bytes_that_are_no_text_do_not_get_in(scene: Scene, argv: tuple[str, ...]) -> None:
    """What a terminal of another encoding sends: once such a name was stored no master could start any more."""
    scene.Check(iter([Case("not UTF-8: half a character after", argv)]))


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("gnt-job", "archive", "99999"), 1, "99999"),
        (("gnt-job", "wait", "99999"), 1, "99999"),
        (("gnt-job", "watch", "99999"), 1, "99999"),
        (("gnt-job", "cancel", "99999"), 1, "99999"),
        (("gnt-job", "change-priority", "--priority", "low", "99999"), 1, "99999"),
        (("gnt-job", "info", "9" * 30), 1, "9" * 30),
        (("gnt-instance", "list", "("), 1, "Error while parsing query filter"),
        (("gnt-instance", "list", "-F", "name =* ["), 1, "Error while parsing query filter"),
        (("gnt-instance", "list", "-o", "name,nothing"), 14, "nothing"),
        (("gnt-node", "list-fields", "nothing"), 14, "nothing"),
        (("gnt-cluster", "search-tags", "("), 1, "Invalid search pattern"),
        (("gnt-debug", "submit-job", "/dev/null"), 1, "/dev/null"),
        (("gnt-debug", "submit-job", "/etc/hostname"), 1, "/etc/hostname"),
        (("gnt-debug", "delay", "nan"), 1, "nan"),
        (("gnt-debug", "delay", "-1"), 2, "no such option: -1"),
        (("gnt-cluster", "nonsense"), 1, ""),
        (("gnt-instance", "list", "nobody", "-o", "name"), 1, "'-o' was taken for an argument: options go before"),
        (("gnt-cluster", "getmaster", "now", "--debug"), 1, "'--debug' was taken for an argument: options go before"),
    ],
    ids=lambda value: "-".join(value[:2]) if isinstance(value, tuple) else "",
)
def test_values_that_cannot_be_meant(scene: Scene, argv: tuple[str, ...], code: int, words: str) -> None:
    before = scene.Configuration()
    done = scene.line.Run(*argv)
    assert done.code == code, done
    assert words in done.err + done.out
    assert "Traceback" not in done.err + done.out and "internal error" not in done.err + done.out
    assert scene.Configuration() == before


def test_the_master_outlived_it_all(scene: Scene) -> None:
    log = scene.node.Log("ganeti-masterd")
    assert "Traceback" not in log
    scene.node.Stop("ganeti-masterd")
    scene.node.StartMaster()
    scene.Must("gnt-instance", "list")
