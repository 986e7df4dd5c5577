"""What a rogue node can do with the consoles of guests: hide them, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from support import configs

from ganeti import _autoconf, constants, errors, objects, pathutils
from ganeti.client.gnt_instance.console import ConsoleCommand
from ganeti.master import console

WEB = "web.example.org"
NODE = "node1.example.org"


def root(hypervisor: str = constants.HT_KVM, **hvparams: Any) -> objects.Snapshot:
    """The example with its instance under this hypervisor, with these parameters."""
    made = configs.Example()
    inst = made.instances[configs.WEB]
    return made.WithObject(inst.Replace(hypervisor=hypervisor, hvparams={**inst.hvparams, **hvparams}))


def honest(snapshot: objects.Snapshot) -> dict[str, Any]:
    """What the node's own driver answers."""
    from ganeti import backend

    inst = snapshot.instances[configs.WEB]
    answer: dict[str, Any] = backend.Handlers()["instance_console_info"]({WEB: console.Request(snapshot, inst)})
    return answer


def checked(snapshot: objects.Snapshot, answer: Any) -> dict[str, Any]:
    return console.Checked(snapshot, snapshot.instances[configs.WEB], answer)


@pytest.fixture(autouse=True)
def names() -> None:
    snapshot = configs.Example()
    inst = snapshot.instances[configs.WEB]
    assert (inst.name, snapshot.nodes[inst.primary_node].name) == (WEB, NODE)


@pytest.mark.parametrize(
    "hvparams",
    [
        {"serial_console": True},
        {"serial_console": False},
        {"serial_console": False, "vnc_bind_address": "192.0.2.1"},
        {"serial_console": False, "vnc_bind_address": "0.0.0.0"},
        {"serial_console": False, "vnc_bind_address": "", "spice_bind": "192.0.2.7"},
    ],
)
def test_the_answer_of_a_node_that_works_passes_unchanged(hvparams: dict[str, Any]) -> None:
    snapshot = root(**hvparams)
    answer = honest(snapshot)
    assert checked(snapshot, answer) == answer[WEB]


def test_the_fake_hypervisor_has_words_only() -> None:
    snapshot = root(constants.HT_FAKE)
    assert checked(snapshot, honest(snapshot))["kind"] == "msg"


def test_the_node_chooses_neither_host_nor_port_nor_user() -> None:
    snapshot = root(serial_console=True)
    good = honest(snapshot)
    for changes in ({"host": "evil.example.com"}, {"host": "-oProxyCommand=id"}, {"user": "x y"}, {"port": 2222}):
        found = checked(snapshot, {WEB: {**good[WEB], **changes, "more": 1}})
        assert found == good[WEB]
        assert ConsoleCommand(found, "cluster")[-2] == f"{_autoconf.SSH_LOGIN_USER}@{NODE}"


def commands() -> list[Any]:
    ctrl = pathutils.KVM_DIR + "/ctrl"
    good = [
        pathutils.KVM_CONSOLE_WRAPPER,
        _autoconf.SOCAT_PATH,
        WEB,
        f"{ctrl}/{WEB}.qmp",
        constants.CONSOLE_SOCAT_OPTIONS,
        f"UNIX-CONNECT:{ctrl}/{WEB}.serial",
    ]
    changed = {
        0: ["sh", "/bin/sh", f"/tmp{pathutils.KVM_CONSOLE_WRAPPER}"],
        1: ["sh", "/bin/sh", "socat;id"],
        2: ["-c", "other.example.org", f"{WEB}\n"],
        3: ["/tmp/x.qmp", f"{ctrl}/../../x.qmp", f"{ctrl}/a/b.qmp", f"{ctrl}/x.qmp\n", f"{ctrl}/.qmp", 5, None],
        4: ["EXEC:id", "STDIO"],
        5: [
            "EXEC:id",
            "UNIX-CONNECT:/tmp/x.serial",
            f"UNIX-CONNECT:{ctrl}/x.serial!!EXEC:id",
            f"UNIX-CONNECT:{ctrl}/x!!EXEC:id.serial",
            f"UNIX-CONNECT:{ctrl}/../x.serial",
            f"UNIX-CONNECT:{ctrl}/{WEB}.serial,fork",
        ],
    }
    rogue: list[Any] = [[*good[:place], word, *good[place + 1 :]] for place, words in changed.items() for word in words]
    rogue += [["sh", "-c", "id"], [], good[:5], [*good, "x"], " ".join(good), None, 5, {"0": "sh"}]
    return rogue


@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_node_s_own_is_rejected(command: Any) -> None:
    snapshot = root(serial_console=True)
    answer = {WEB: {**honest(snapshot)[WEB], "command": command}}
    with pytest.raises(errors.OpExecError, match=rf"Node {NODE} sent an invalid .* instance {WEB}"):
        checked(snapshot, answer)


def test_a_command_for_a_hypervisor_without_one_is_rejected() -> None:
    answer = honest(root(serial_console=True))
    with pytest.raises(errors.OpExecError):
        checked(root(constants.HT_FAKE), answer)


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "xdg-open"},
        {"kind": ["ssh"]},
        {"kind": None},
        {"kind": "spice"},
        {"host": "evil.example.com"},
        {"host": ["x"]},
        {"host": None},
    ],
)
def test_a_screen_is_where_the_configuration_has_it(changes: dict[str, Any]) -> None:
    snapshot = root(serial_console=False, vnc_bind_address="192.0.2.1")
    good = honest(snapshot)
    assert good[WEB]["kind"] == "vnc"
    with pytest.raises(errors.OpExecError):
        checked(snapshot, {WEB: {**good[WEB], **changes}})
    # Number and display come from the configuration, whatever the node says.
    assert checked(snapshot, {WEB: {**good[WEB], "port": 22, "display": "x"}}) == good[WEB]


@pytest.mark.parametrize("answer", [None, 5, [], "x", {}, {WEB: None}, {WEB: []}, {WEB: {}}, {WEB: {"kind": "msg"}}])
def test_an_answer_without_sense_is_rejected(answer: Any) -> None:
    with pytest.raises(errors.OpExecError):
        checked(root(), answer)


def test_words_of_a_node_do_not_steer_the_terminal() -> None:
    answer = {WEB: {"kind": "msg", "message": "\x1b]0;x\x07" + "y" * 5000}}
    found = checked(root(), answer)["message"]
    assert found.isprintable() and found.startswith("\\x1b]0;x\\x07y") and len(found) < 1100
