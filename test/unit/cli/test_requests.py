"""What commands ask of the master, where a requirement of the designs says so."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.stories import Story

Say = Callable[..., tuple[list[dict[str, Any]], str]]


@pytest.fixture
def say() -> Iterator[Say]:
    """``say(lines...)`` plays a story; returns the opcodes submitted, with their names as "op", and all that was said."""
    directory = tempfile.mkdtemp(prefix="gt-", dir="/tmp")  # sockets have short names only
    story = Story(directory)

    def play(*lines: str) -> tuple[list[dict[str, Any]], str]:
        before = len(story.Play(""))
        said = story.Play("\n".join(lines))[before:]
        found = re.findall(r"^> (OP_\w+) (.*)$", said, re.MULTILINE)
        return [{"op": op, **json.loads(values)} for op, values in found], said

    yield play
    story.Close()
    shutil.rmtree(directory)


@pytest.mark.req("D22-OSST-02", "D22-OSST-03")
def test_the_states_of_a_system_are_settings_of_the_cluster(say: Say) -> None:
    ops, _ = say("$ gnt-os modify --hidden=yes --blacklisted=no no-such-system")
    assert ops == [
        {"op": "OP_CLUSTER_SET_PARAMS", "hidden_os": [["add", "no-such-system"]],
         "blacklisted_os": [["remove", "no-such-system"]]}
    ]  # fmt: skip


@pytest.mark.req("D22-OSST-11")
def test_choosing_a_system_shows_the_list_without_hidden_ones(say: Say) -> None:
    """The state is not among the fields asked for, so the master leaves hidden systems out (test/unit/cmdlib/test_os.py)."""
    ops, said = say(
        '% result OP_OS_DIAGNOSE [["debian", ["minimal"]], ["noop", []]]',
        "% answers 1",
        "$ gnt-instance reinstall -f --select-os web",
    )
    assert ops[0] == {"op": "OP_OS_DIAGNOSE", "output_fields": ["name", "variants"]}
    assert re.findall(r"^ +(\d+): (\S+)", said, re.MULTILINE) == [("0", "debian+minimal"), ("1", "noop")]
    assert (ops[1]["op"], ops[1]["os_type"]) == ("OP_INSTANCE_REINSTALL", "noop")


@pytest.mark.req("D22-OSP-23")
@pytest.mark.parametrize("option", ["-O ", "--os-parameters="])
def test_parameters_of_systems_are_pairs(say: Say, option: str) -> None:
    pairs = {"a": "1", "b": "two"}
    for command, path in (
        ("gnt-os modify {} debian", ("osparams", "debian")),
        ("gnt-instance modify {} web", ("osparams",)),
        ("gnt-instance reinstall -f {} web", ("osparams",)),
        ("gnt-instance add -t diskless -o debian -n node1 {} new", ("osparams",)),
    ):
        ops, _ = say("$ " + command.format(f"{option}a=1,b=two"))
        found: Any = ops[-1]
        for key in path:
            found = found[key]
        assert found == pairs, command


@pytest.mark.req("D22-OSP-24")
def test_a_dash_takes_a_parameter_of_a_system_away(say: Say) -> None:
    for command, path in (
        ("gnt-os modify -O a=1,-b debian", ("osparams", "debian")),
        ("gnt-instance modify -O a=1,-b web", ("osparams",)),
    ):
        ops, _ = say("$ " + command)
        found: Any = ops[-1]
        for key in path:
            found = found[key]
        assert found == {"a": "1", "b": None}, command


@pytest.mark.req("D20-CLI-02", "D20-CLI-13")
def test_the_hypervisor_is_named_at_creation_only(say: Say) -> None:
    add = "gnt-instance add -t plain --disk 0:size=1g --net 0:mac=auto -o debian -n node1"
    ops, _ = say(f"$ {add} -H kvm:acpi=false,boot_order=network new", f"$ {add} new")
    named, default = ops
    assert (named["hypervisor"], named["hvparams"]) == ("kvm", {"acpi": False, "boot_order": "network"})
    assert (named["disks"], named["nics"]) == ([{"size": 1024}], [{"mac": "auto"}])
    assert "hypervisor" not in default, "the cluster's own"
    ops, _ = say("$ gnt-instance modify -f -H acpi=false,boot_order=network --disk 0:mode=ro --net 0:mac=auto web")
    [changed] = ops
    assert changed["hvparams"] == {"acpi": False, "boot_order": "network"} and "hypervisor" not in changed
    assert changed["disks"] == [["modify", 0, {"mode": "ro"}]] and changed["nics"] == [["modify", 0, {"mac": "auto"}]]


@pytest.mark.req("D20-CLI-08")
def test_a_disk_has_a_mode_or_the_default(say: Say) -> None:
    disks = "--disk 0:size=1g,mode=ro --disk 1:size=1g,mode=rw --disk 2:size=1g"
    ops, _ = say(f"$ gnt-instance add -t plain {disks} -o debian -n node1 new")
    assert [disk.get("mode") for disk in ops[0]["disks"]] == ["ro", "rw", None]
    ops, _ = say(
        "$ gnt-instance modify -f --disk add:size=1g,mode=ro web", "$ gnt-instance modify -f --disk 0:mode=rw web"
    )
    assert [op["disks"][0][2]["mode"] for op in ops] == ["ro", "rw"]


@pytest.mark.req("D20-CLI-06")
@pytest.mark.parametrize(("text", "size"), [("512", 512), ("512m", 512), ("2g", 2048), ("1.5g", 1536)])
def test_sizes_have_units(say: Say, text: str, size: int) -> None:
    ops, _ = say(f"$ gnt-instance add -t plain --disk 0:size={text} -o debian -n node1 new")
    assert ops[0]["disks"] == [{"size": size}]


@pytest.mark.req("D20-CLI-06")
@pytest.mark.parametrize("text", ["-5", "x", "1q", ""])
def test_a_size_is_a_positive_number(say: Say, text: str) -> None:
    ops, said = say(f"$ gnt-instance add -t plain --disk 0:size={text} -o debian -n node1 new")
    assert ops == [], said


@pytest.mark.req("D20-CLI-06")
def test_what_has_no_disks_takes_no_size(say: Say) -> None:
    ops, said = say("$ gnt-instance add -t diskless --disk 0:size=1g -o debian -n node1 new")
    assert ops == [], said


def test_the_check_of_spare_memory_can_be_left_out(say: Say) -> None:
    ops, _ = say("$ gnt-cluster verify --no-nplus1-mem")
    assert [op["skip_checks"] for op in ops] == [["nplusone_mem"]]


@pytest.mark.req("D20-CLI-20")
def test_defaults_of_one_hypervisor_are_a_setting_of_the_cluster(say: Say) -> None:
    [op], _ = say("$ gnt-cluster modify -H kvm:acpi=false,boot_order=network")
    assert (op["op"], op["hvparams"]) == ("OP_CLUSTER_SET_PARAMS", {"kvm": {"acpi": False, "boot_order": "network"}})


@pytest.mark.req("D20-CLI-10")
@pytest.mark.parametrize(
    ("option", "added"),
    [
        ("--disk add:size=1g", {"disks": [["add", -1, {"size": 1024}]]}),
        ("--net add:link=br1", {"nics": [["add", -1, {"link": "br1"}]]}),
        ("--net add", {"nics": [["add", -1, {}]]}),
    ],
)
def test_a_device_without_a_number_is_added_at_the_end(say: Say, option: str, added: dict[str, Any]) -> None:
    """-1 is behind the last one."""
    [op], _ = say(f"$ gnt-instance modify -f {option} web")
    assert {key: op[key] for key in ("disks", "nics") if key in op} == added


@pytest.mark.req("D20-CLI-11")
@pytest.mark.parametrize(("option", "devices"), [("--disk", "disks"), ("--net", "nics")])
def test_the_last_device_is_removed_without_options(say: Say, option: str, devices: str) -> None:
    [op], _ = say(f"$ gnt-instance modify -f {option} remove web")
    assert op[devices] == [["remove", -1, {}]]
    ops, said = say(f"$ gnt-instance modify -f {option} remove:name=x web")
    assert ops == [] and "! Not accepting parameters on removal/detach" in said


@pytest.mark.req("D20-CLI-14")
def test_a_modification_names_no_hypervisor(say: Say) -> None:
    ops, said = say("$ gnt-instance modify -f -H kvm:acpi=false web")
    assert ops == [], said


@pytest.mark.req("D21-UID-12", "D21-UID-07")
def test_the_pool_is_shown_as_it_is_given(say: Say) -> None:
    pool = [[1000, 1005], [2000, 2000]]
    _, said = say(f"% change cluster x {json.dumps({'uid_pool': pool})}", "$ gnt-cluster info")
    shown = re.search(r"uid pool: (.+)", said)
    assert shown is not None
    ops, said = say(f"$ gnt-cluster modify --uid-pool='{shown[1]}'")
    assert [op["uid_pool"] for op in ops] == [pool], said


# --- exports and moves ------------------------------------------------------------------------------------------------


@pytest.mark.req("D20-VAR-01", "D20-VAR-04")
def test_an_import_takes_any_number_of_disks_and_nics(say: Say) -> None:
    """None given are none sent: the master takes those of the export."""
    [op], _ = say("$ gnt-backup import -n node1 new")
    assert (op["mode"], op["disks"], op["nics"], op["start"]) == ("import", [], [], False)
    disks = " ".join(f"--disk {number}:size=1g" for number in range(16))
    nics = " ".join(f"--net {number}:mac=generate" for number in range(8))
    [op], _ = say(f"$ gnt-backup import -n node1 {disks} {nics} new")
    assert (op["disks"], op["nics"]) == ([{"size": 1024}] * 16, [{"mac": "generate"}] * 8)


def test_an_import_chooses_no_operating_system(say: Say) -> None:
    """The export names it; what is said of it in the opcode would be ignored."""
    [op], _ = say("$ gnt-backup import -n node1 new")
    assert op.keys().isdisjoint({"os_type", "force_variant", "no_install"})
    for option in ("-o debian", "--force-variant", "--no-install", "--no-start", "--forthcoming", "--commit"):
        ops, said = say(f"$ gnt-backup import -n node1 {option} new")
        assert ops == [] and "no such option" in said


@pytest.mark.parametrize(
    ("command", "op_id"),
    [("gnt-backup export", "OP_BACKUP_EXPORT"), ("gnt-instance move -f", "OP_INSTANCE_MOVE")],
)
def test_data_go_to_a_node_that_is_named(say: Say, command: str, op_id: str) -> None:
    ops, said = say(f"$ {command} web")
    assert ops == [] and "Target node must be specified" in said
    [op], _ = say(f"$ {command} -n node2 web")
    assert op == {"op": op_id, "instance_name": "web", "target_node": "node2"}


@pytest.mark.req("D20-OS-17", "D22-MOVE-03")
@pytest.mark.parametrize(
    "line",
    [
        "gnt-backup export -n node2 --transport-compression=gzip web",
        "gnt-backup import -n node1 --compress=gzip new",
        "gnt-instance move -f -n node2 --compress=gzip web",
    ],
)
def test_data_are_compressed_if_that_is_asked_for(say: Say, line: str) -> None:
    [op], _ = say(f"$ {line}")
    assert op["compress"] == "gzip"


def test_a_move_asks_first(say: Say) -> None:
    ops, said = say("% answers n", "$ gnt-instance move -n node2 web")
    assert ops == [] and "Instance web will be stopped while its disks are copied to node node2." in said
    ops, _ = say("% answers y", "$ gnt-instance move -n node2 web")
    assert [op["op"] for op in ops] == ["OP_INSTANCE_MOVE"]


def test_exports_of_one_node_are_listed(say: Say) -> None:
    _, said = say("$ gnt-backup list --no-headers -o node -n node2")
    assert said.splitlines()[-1] == "node2.example.org"
    _, said = say("$ gnt-backup list -n node9")
    assert "Node name node9 not found" in said
