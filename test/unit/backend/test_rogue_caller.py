"""Arguments that no master of ours sends, through the door that every call takes: bytes in, bytes out."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.nodes import MakeNodes, Node
from support.virtual import MakeInstance

from ganeti import backend, errors, pathutils
from ganeti.backend import programs
from ganeti.params import hv
from ganeti.rpc.server import Dispatcher, OpenGate


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Node]:
    (made,) = MakeNodes(tmp_path, "node1.example.org")
    with made:
        os.makedirs(pathutils.CONF_DIR, exist_ok=True)
        yield made


def ask(name: str, *args: Any) -> tuple[bool, Any]:
    body = json.dumps(list(args)).encode()
    status, _, answer = Dispatcher(backend.Handlers(), OpenGate()).Handle(f"/{name}", {}, body)
    assert status == 200
    good, payload = json.loads(answer)
    assert good or "Error while executing" not in payload, payload
    return good, payload


def upload(path: str, content: str = "text", mode: Any = 0o600, atime: float = 1, mtime: float = 1) -> tuple[bool, Any]:
    vpath = pathutils.VIRTUAL_PATH_MARKER + path.removeprefix(pathutils.ROOT_DIR)
    return ask("upload_file_single", vpath, [0, content], mode, None, None, atime, mtime)


def test_an_uploaded_file_gives_nobody_other_rights(here: Node) -> None:
    path = pathutils.RAPI_CERT_FILE
    os.makedirs(os.path.dirname(path), exist_ok=True)
    for mode in (0o6777, 0o4755, 0o2755, 0o1777, 0o10600, -1, "0600"):
        assert not upload(path, mode=mode)[0], mode
        assert not os.path.exists(path)
    assert upload(path, mode=0o640)[0]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o640


@pytest.mark.parametrize(
    "name", ["a\npassword", "password\x1b[2J", "password file", ".password", "password/../../x", "password\ud800"]
)
def test_a_password_file_has_a_plain_name(here: Node, name: str) -> None:
    before = sorted(os.listdir(pathutils.CONF_DIR))
    assert not upload(f"{pathutils.CONF_DIR}/{name}")[0]
    assert sorted(os.listdir(pathutils.CONF_DIR)) == before
    assert upload(f"{pathutils.CONF_DIR}/vnc-password.web1")[0]


@pytest.mark.parametrize("text", ["half \ud800", "\udcff"])
def test_half_a_character_stays_outside(here: Node, text: str) -> None:
    for args in (
        ("upload_file_single", text, [0, "x"], 0o600, None, None, 1, 1),
        ("upload_file_single", pathutils.MakeVirtualPath(pathutils.RAPI_CERT_FILE), [0, text], 0o600, None, None, 1, 1),
        ("etc_hosts_modify", "add", text, "192.0.2.1"),
        ("os_validate", True, text, [], {}, False),
        ("write_ssconf_files", {"cluster_name": text}),
    ):
        good, why = ask(*args)
        assert not good and "half a character" in why, args


@pytest.mark.parametrize("time", [1e300, -1e300, 2**63, float(2**34)])
def test_times_out_of_range_are_rejected(here: Node, time: float) -> None:
    path = pathutils.RAPI_CERT_FILE
    os.makedirs(os.path.dirname(path), exist_ok=True)
    assert not upload(path, atime=time)[0] and not upload(path, mtime=time)[0]
    assert not os.path.exists(path)
    assert not ask("test_delay", abs(time))[0]


def test_a_name_is_one_line(here: Node) -> None:
    """A line break in a host's name would be a second line of the hosts file."""
    before = Path(pathutils.ETC_HOSTS).read_bytes() if os.path.exists(pathutils.ETC_HOSTS) else None
    for name in ("web\n192.0.2.9 bank.example.com", "web\r", "web\t", "web\0"):
        assert not ask("etc_hosts_modify", "add", name, "192.0.2.1")[0]
    assert (Path(pathutils.ETC_HOSTS).read_bytes() if before is not None else None) == before


@pytest.mark.parametrize("name", ["../../x", "a/b", "", "..", ".hidden", "a\nb"])
def test_the_links_of_an_instance_stay_in_their_directory(here: Node, name: str) -> None:
    os.makedirs(pathutils.DISK_LINKS_DIR, exist_ok=True)
    prey = Path(pathutils.RUN_DIR, "x:0")
    prey.symlink_to("/dev/null")
    assert not ask("blockdev_close", name or "/", [{"dev_type": "file"}])[0]
    from ganeti import errors
    from ganeti.storage import links

    for action in (lambda: links.Make(name, "/dev/null", 0, links.Own("kvm")), lambda: links.Remove(name, 1)):
        with pytest.raises(errors.BlockDeviceError):
            action()
    assert prey.is_symlink()


@pytest.mark.parametrize("name", ["../../x", "/etc/x", "a/b", "", "..", ".hidden", "-x", "a..b", "a\nb", "x" * 256])
def test_files_of_an_instance_stay_in_their_directories(here: Node, name: str) -> None:
    instance = MakeInstance("web", hypervisor="kvm", hvparams=hv.DEFAULTS["kvm"]).ToDict(runtime=True) | {"name": name}
    before = sorted(map(str, here.root.rglob("*")))
    for args in (
        ("instance_info", name, "kvm", {}),
        ("instance_run_state", name, "kvm", {}),
        ("instance_start", instance, False, []),
        ("instance_shutdown", instance, 0, []),
        ("instance_reboot", instance, "soft", 0, []),
        ("accept_instance", instance, "[]", "127.0.0.1"),
        ("instance_end_copy", instance, 1),
        ("instance_finalize_migration_dst", instance, "[]", False),
    ):
        good, why = ask(*args)
        words = ("cannot be used in file names", "argument instance must be name", "key 'name' must be a text")
        assert not good and any(part in why for part in words), (args[0], why)
    made = set(map(str, here.root.rglob("*"))) - set(before)
    assert all(path.endswith(("/run/ganeti/ext", "/run/ganeti/ext/guests")) for path in made), made


def test_what_a_hook_leaves_behind_is_its_own(here: Node) -> None:
    folder = Path(pathutils.HOOKS_BASE_DIR, "test-pre.d")
    folder.mkdir(parents=True)
    (folder / "one").write_text(f"#!/bin/sh\numask > {here.root}/seen; touch {here.root}/made\n")
    (folder / "one").chmod(0o755)
    before = os.umask(0)
    try:
        assert ask("hooks_runner", "test", "pre", {"PATH": "/usr/bin:/bin"})[1] == [["test-pre.d/one", 2, ""]]
    finally:
        os.umask(before)
    assert Path(here.root, "seen").read_text() == "0077\n"
    assert stat.S_IMODE(Path(here.root, "made").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("node_verify", [{"nonvmnodes": 5, "hypervisor": []}, "cluster", {}]),
        (
            "node_activate_master_ip",
            [{"uuid": "x", "ip": "192.0.2.1", "netmask": 32, "netdev": "lo", "ip_family": {}}, False],
        ),
        ("instance_start", [{"name": "web", "hypervisor": "fake", "hvparams": {}, "beparams": {}}, False, []]),
        ("blockdev_find", [{"dev_type": "plain", "logical_id": ["\0", "x"], "uuid": "x"}]),
        ("hooks_runner", ["test", "pre", {"A": "\0"}]),
        ("bdev_sizes", [["/dev/\0"]]),
    ],
)
def test_an_argument_without_sense_is_explained(here: Node, name: str, args: list[Any]) -> None:
    good, why = ask(name, *args)
    assert not good and why


def test_a_helper_that_others_can_change_is_not_run(here: Node, tmp_path: Path) -> None:
    helper = tmp_path / "helper"
    helper.write_text(f"#!/bin/sh\necho ran >> {tmp_path}/ran\n")
    for mode in (0o644, 0o775, 0o757):
        helper.chmod(mode)
        good, why = ask("run_oob", str(helper), "health", "node2", 10)
        assert not good and ("executable" in why or "root" in why), why
    helper.chmod(0o755)
    os.chown(helper, 65534, 65534)
    assert not ask("run_oob", str(helper), "health", "node2", 10)[0]
    assert not (tmp_path / "ran").exists()
    os.chown(helper, 0, 0)
    assert ask("run_oob", str(helper), "health", "node2", 10) == (True, None)
    assert (tmp_path / "ran").exists()


def test_an_emulator_that_others_can_change_is_not_run(here: Node, tmp_path: Path) -> None:
    """Whoever may call a node names the emulator of a guest; it is started as root to be asked what it can do."""
    emulator = tmp_path / "kvm"
    emulator.write_text(f"#!/bin/sh\necho ran >> {tmp_path}/ran\n")
    emulator.chmod(0o755)
    hvp = {**hv.DEFAULTS["kvm"], "kvm_path": str(emulator), "kernel_path": ""}
    instance = MakeInstance(hypervisor="kvm", hvparams=hvp).ToDict(runtime=True)
    calls: list[tuple[str, list[Any]]] = [
        ("node_info", [None, [["kvm", hvp]]]),
        ("hypervisor_validate_params", ["kvm", hvp]),
        ("instance_start", [instance, False, []]),
        ("accept_instance", [instance, "[]", "127.0.0.1"]),
    ]
    os.chown(emulator, 65534, 65534)
    for name, args in calls:
        good, why = ask(name, *args)
        assert not good and f"{emulator} belongs to user 65534" in why, (name, why)
    problem = ask("node_verify", {"hypervisor": ["kvm"]}, "cluster", {"kvm": hvp})[1]["hypervisor"]["kvm"]
    assert f"{emulator} belongs to user 65534" in problem
    assert not (tmp_path / "ran").exists()
    os.chown(emulator, 0, 0)
    ask(*calls[0][:1], *calls[0][1])
    assert (tmp_path / "ran").exists()


def test_nobody_else_can_hold_the_lock_of_restricted_commands(here: Node) -> None:
    """/var/lock is everybody's: who makes a file there first can lock it for good."""
    path = Path(pathutils.RESTRICTED_COMMANDS_LOCK_FILE)
    with pytest.raises((errors.RpcCallError, OSError)):
        programs.PrepareRestrictedCommand("nothing", (os.geteuid(), os.getegid()))
    assert path.stat().st_mode & 0o777 == 0o600
    assert not path.parent.stat().st_mode & 0o002 and not path.is_relative_to(pathutils.LOCK_DIR)
