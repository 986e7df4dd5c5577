"""Setting a machine up as a node: what the helpers write, and what they refuse to touch."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from simulated import World
from support.virtualnode import VirtualNode

from ganeti import ssh, x509
from ganeti.tools import prepare_node_join
from ganeti.tools.setupdata import SetupError

SERVER = x509.MakeServerPem()
DATA = "/var/lib/ganeti"
KEY = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQC"


@pytest.fixture
def node(tmp_path: Path) -> VirtualNode:
    (tmp_path / "hosts").write_text("")
    return VirtualNode(str(tmp_path))


def run(node: VirtualNode, module: str, data: Any, *options: str) -> tuple[int, str]:
    """(exit code, stderr) of a helper that reads ``data``."""
    import sys

    code = f"import sys; from ganeti.tools.{module} import Main; sys.exit(Main())"
    text = data if isinstance(data, str) else json.dumps(data)
    result = node.Run([sys.executable, "-c", code, *options], stdin=text)
    assert "Traceback" not in result.stderr
    return result.returncode, result.stderr


def setup_data(**changes: Any) -> dict[str, Any]:
    return {
        "cluster_name": "cluster.example.com",
        "node_daemon_certificate": SERVER,
        "hmac_key": "0123\n",
        "ssconf": {"cluster_name": "cluster.example.com", "master_node": "node0.example.com"},
        "node_name": "node1.example.com",
        **changes,
    }


def written(node: VirtualNode) -> set[str]:
    return {path.name for path in Path(node.Path(DATA)).iterdir() if path.is_file()}


def test_a_machine_becomes_a_node(node: VirtualNode) -> None:
    assert run(node, "node_daemon_setup", setup_data(added_by_a_later_release=1)) == (0, "")
    assert node.Read(f"{DATA}/server.pem") == SERVER
    assert node.Read(f"{DATA}/hmac.key") == "0123\n"
    assert node.Read(f"{DATA}/ssconf_master_node") == "node0.example.com\n"
    assert os.stat(node.Path(f"{DATA}/server.pem")).st_mode & 0o777 == 0o440
    client = node.Read(f"{DATA}/client.pem")
    x509.CheckKeyAndCertificate(client)
    x509.LoadCertificate(client).verify_directly_issued_by(x509.LoadCertificate(SERVER))
    # The same again is fine; so is a dry run on an empty machine, which stays empty.
    assert run(node, "node_daemon_setup", setup_data())[0] == 0


def test_the_master_never_takes_the_data_of_another_node(node: VirtualNode) -> None:
    values = {"cluster_name": "cluster.example.com", "master_node": node.name}
    code, text = run(node, "node_daemon_setup", setup_data(ssconf=values, node_name="node2.example.com"))
    assert code == 12
    assert "is the master: the data for node2.example.com belongs on node2.example.com" in text
    assert written(node) == set()


MEMBERS = {
    "master_node": "node0.example.com",
    "node_primary_ips": "node0.example.com 10.0.0.1\nnode1.example.com 10.0.0.2",
}


@pytest.mark.parametrize("module", ["node_daemon_setup", "prepare_node_join"])
def test_a_node_of_the_cluster_is_not_set_up_under_another_name(node: VirtualNode, module: str) -> None:
    values = {"cluster_name": "cluster.example.com", **MEMBERS}
    data = setup_data(ssconf=values, node_name="alias.example.com")
    if module == "prepare_node_join":
        data = {**{key: data[key] for key in ("cluster_name", "node_name")}, "ssconf": MEMBERS, "ssh_key_type": "rsa"}
    code, text = run(node, module, data)
    assert code == 12 and "has the name of the node node1.example.com: the data for alias.example.com does not" in text
    assert "'gnt-node add --readd node1.example.com' on the master" in text
    assert written(node) == set() and not Path(node.Path(root_file(node, ""))).exists()
    # Its own data is welcome.
    assert run(node, module, {**data, "node_name": node.name})[0] == 0


@pytest.mark.parametrize(
    ("address", "name"), [("10.0.0.2", "node1.example.com"), ("10.0.0.1", "node0.example.com"), ("10.0.0.9", None)]
)
def test_a_node_of_the_cluster_is_told_by_its_address_too(address: str, name: str | None) -> None:
    """What the master cannot know: a second address, and a host name that is none of the cluster."""
    with World(1) as world:
        machine = world.AddMachine("storage7.example.com", "192.0.2.7")
        machine.addresses[address] = None
        data = {"cluster_name": "c", "node_name": "storage7.example.com", "ssconf": MEMBERS}
        if name is None:
            machine.Call(prepare_node_join.Work, data, False)
            return
        with pytest.raises(SetupError, match=f"has the address {address} of the node {name}") as caught:
            machine.Call(prepare_node_join.Work, data, False)
        # Nothing adds the master again.
        assert ("--readd" in str(caught.value.hint)) is (name != MEMBERS["master_node"])


def test_a_dry_run_changes_nothing(node: VirtualNode) -> None:
    assert run(node, "node_daemon_setup", setup_data(), "--dry-run")[0] == 0
    assert written(node) == set()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda data: data.update(cluster_name=""), "expected format"),
        (lambda data: data.pop("hmac_key"), "expected format"),
        (lambda data: data.update(node_daemon_certificate="x"), "Given node daemon certificate"),
        (lambda data: data.update(node_daemon_certificate=SERVER[: SERVER.index("-----BEGIN CERT")]), "no certificate"),
        (lambda data: data["ssconf"].update(cluster_name="other"), "is 'other', not 'cluster.example.com'"),
        (lambda data: data["ssconf"].pop("cluster_name"), "Cluster name is missing"),
        (lambda data: data["ssconf"].update({"../../etc/passwd": "x"}), "Unknown ssconf keys"),
    ],
)
def test_wrong_input_is_refused_with_words(
    node: VirtualNode, change: Callable[[dict[str, Any]], Any], text: str
) -> None:
    data = setup_data()
    change(data)
    code, stderr = run(node, "node_daemon_setup", data)
    assert code != 0 and text in stderr
    assert "PRIVATE KEY" not in stderr
    assert written(node) == set()


@pytest.mark.parametrize("module", ["node_daemon_setup", "ssl_update", "ssh_update", "prepare_node_join"])
def test_a_text_with_half_a_character_changes_nothing(node: VirtualNode, module: str) -> None:
    """No file could take it: a helper that noticed that half-way would leave half of its work."""
    root_key = [["rsa", "private\ud800", f"{KEY}x"]]
    data = setup_data(hmac_key="\ud800") if module == "node_daemon_setup" else {"ssh_root_key": root_key}
    code, stderr = run(node, module, {"cluster_name": "c", **data})
    assert code == 12 and "half a character" in stderr
    assert written(node) == set() and not Path(node.Path(root_file(node, ""))).exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\ufffd", "[" * 100000])
@pytest.mark.parametrize("module", ["node_daemon_setup", "ssl_update", "ssh_update", "prepare_node_join"])
def test_rubbish_on_standard_input_is_refused(node: VirtualNode, module: str, text: str) -> None:
    code, stderr = run(node, module, text)
    assert code != 0 and stderr.count("\n") <= 2


def test_a_node_of_another_cluster_is_left_alone(node: VirtualNode) -> None:
    node.Write(f"{DATA}/ssconf_cluster_name", "old.example.com\n")
    code, stderr = run(node, "node_daemon_setup", setup_data())
    assert code == 12 and "old.example.com" in stderr
    assert run(node, "ssl_update", {**setup_ssl("create")})[0] == 12
    assert written(node) == {"ssconf_cluster_name"}


def test_another_certificate_of_the_same_name_is_refused(node: VirtualNode) -> None:
    assert run(node, "node_daemon_setup", setup_data())[0] == 0
    code, stderr = run(node, "node_daemon_setup", setup_data(node_daemon_certificate=x509.MakeServerPem()))
    assert code != 0 and "does not match the local one" in stderr
    assert node.Read(f"{DATA}/server.pem") == SERVER


def test_an_argument_is_a_usage_error(node: VirtualNode) -> None:
    assert run(node, "node_daemon_setup", setup_data(), "surplus")[0] == 2


# Client certificates


def setup_ssl(action: str) -> dict[str, Any]:
    return {
        "cluster_name": "cluster.example.com",
        "node_daemon_certificate": SERVER,
        "action": action,
        "node_name": "node1.example.com",
    }


def test_a_client_certificate_is_made_anew_and_removed(node: VirtualNode) -> None:
    assert run(node, "node_daemon_setup", setup_data())[0] == 0
    node.Write(f"{DATA}/ssconf_master_candidates_certs", "uuid=AB\n")
    before = node.Read(f"{DATA}/client.pem")
    assert run(node, "ssl_update", setup_ssl("create")) == (0, "")
    assert x509.Digest(node.Read(f"{DATA}/client.pem")) != x509.Digest(before)
    assert run(node, "ssl_update", setup_ssl("delete")) == (0, "")
    assert not written(node) & {"client.pem", "ssconf_master_candidates_certs"}
    assert run(node, "ssl_update", setup_ssl("rename"))[0] != 0


def test_an_expired_certificate_is_told_by_the_exit_code(node: VirtualNode) -> None:
    def expired(name: str) -> int:
        return node.Python(
            "import sys; from ganeti.tools.check_cert_expired import Main; sys.exit(Main())", node.Path(name)
        ).returncode

    node.Write("/good", x509.MakeSelfSigned(validity=3600)[1])
    node.Write("/bad", x509.MakeSelfSigned(validity=-1)[1])
    node.Write("/rubbish", "x")
    assert [expired(name) for name in ("/good", "/bad", "/rubbish", "/missing")] == [1, 0, 1, 1]


# SSH keys


def root_file(node: VirtualNode, name: str) -> str:
    return f"{os.path.expanduser('~root')}/.ssh/{name}"


def test_ssh_keys_are_added_replaced_and_removed(node: VirtualNode) -> None:
    def update(**more: Any) -> None:
        assert run(node, "ssh_update", {"cluster_name": "c", **more}) == (0, "")

    authorized = root_file(node, "authorized_keys")
    node.Write(authorized, f'# mine\nfrom="192.0.2.1" {KEY}own admin@desk\n', 0o600)
    update(authorized_keys=["add", {"uuid1": [f"{KEY}one root@node1"], "uuid2": [f"{KEY}own other comment"]}])
    assert node.Read(authorized).splitlines() == [
        "# mine",
        f'from="192.0.2.1" {KEY}own admin@desk',
        f"{KEY}one root@node1",
    ]
    update(authorized_keys=["remove", {"uuid1": [f"{KEY}one root@node1.example.com"]}])
    assert node.Read(authorized).splitlines()[-1].endswith("admin@desk")
    # A node that calls an administrator's key its own does not lock him out.
    claimed = {"cluster_name": "c", "authorized_keys": ["remove", {"uuid2": [f"{KEY}own root@node2"]}]}
    code, said = run(node, "ssh_update", claimed)
    assert code == 1 and f"{authorized} still accepts the key" in said and "'admin@desk'; delete that line" in said
    assert node.Read(authorized).splitlines()[-1].endswith("admin@desk")
    known = f"{DATA}/ganeti_pub_keys"
    update(public_keys=["override", {"uuid1": [f"{KEY}one"], "uuid2": [f"{KEY}two"]}])
    update(public_keys=["add", {"uuid1": [f"{KEY}one c", f"{KEY}three"]}])
    update(public_keys=["replace_or_add", {"uuid2": [f"{KEY}new"], "uuid4": [f"{KEY}four"]}])
    update(public_keys=["remove", {"uuid4": []}])
    assert ssh.ParseNodeKeys(node.Read(known)) == {"uuid1": [f"{KEY}one", f"{KEY}three"], "uuid2": [f"{KEY}new"]}
    assert os.stat(node.Path(known)).st_mode & 0o777 == 0o600
    update(public_keys=["clear", {}])
    assert node.Read(known) == ""


def test_no_line_is_smuggled_into_authorized_keys(node: VirtualNode) -> None:
    for line in (f"{KEY}x\n{KEY}evil", "", "# comment", "command=evil"):
        code, stderr = run(node, "ssh_update", {"cluster_name": "c", "authorized_keys": ["add", {"u": [line or " "]}]})
        assert code != 0 and "not a line of an SSH key" in stderr
    assert not Path(node.Path(root_file(node, "authorized_keys"))).exists()


def test_keys_of_host_and_root_for_joining(node: VirtualNode) -> None:
    private, public = "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n-----END OPENSSH PRIVATE KEY-----\n", f"{KEY}host root@c"
    node.Write("/etc/ssh/ssh_host_rsa_key", "old\n", 0o600)
    data = {
        "cluster_name": "c",
        "ssh_root_key": [["rsa", private, f"{KEY}root root@c"]],
        "authorized_keys": {"uuid0": [f"{KEY}master root@node0"]},
    }
    assert run(node, "prepare_node_join", data) == (0, "")
    assert node.Read(root_file(node, "id_rsa")) == private
    lines = node.Read(root_file(node, "authorized_keys")).splitlines()
    assert lines == [f"{KEY}root root@c", f"{KEY}master root@node0"]
    data["node_daemon_certificate"] = SERVER
    code, stderr = run(node, "prepare_node_join", data)
    assert code != 0 and "No private key" in stderr
    code, stderr = run(node, "prepare_node_join", {"cluster_name": "c", "unknown": 1})
    assert code != 0 and "expected format" in stderr
    assert public not in stderr


def test_a_node_that_was_away_while_keys_were_renewed_forgets_the_old_ones(node: VirtualNode) -> None:
    """As a possible candidate it has the list of what it accepted; its own old key is replaced, too."""
    authorized = root_file(node, "authorized_keys")
    old = [f"{KEY}old0 root@node0", f"{KEY}old1 root@node1"]
    node.Write(authorized, "".join(f"{line}\n" for line in ("# mine", f"{KEY}admin a", *old, f"{KEY}own x")), 0o600)
    node.Write(f"{DATA}/ganeti_pub_keys", f"uuid0 {old[0]}\nuuid1 {old[1]}\nuuid2 {KEY}new2 root@node2\n", 0o600)
    node.Write(root_file(node, "id_rsa"), "old private\n", 0o600)
    node.Write(root_file(node, "id_rsa.pub"), f"{KEY}own x\n")
    # What is advised for such a node must not lose the list.
    assert run(node, "node_cleanup", "", "--yes-do-it") == (0, "")
    new = [f"{KEY}new0 root@node0", f"{KEY}new2 root@node2"]
    data = {"cluster_name": "c", "authorized_keys": {"uuid0": new[:1], "uuid2": new[1:]}, "ssh_key_type": "rsa"}
    assert run(node, "prepare_node_join", data) == (0, "")
    *lines, own = node.Read(authorized).splitlines()
    assert lines == ["# mine", f"{KEY}admin a", *new]
    assert own == node.Read(root_file(node, "id_rsa.pub")).strip()


def test_a_node_without_a_list_tells_the_keys_of_nodes_by_their_comments(node: VirtualNode) -> None:
    """It could never become a candidate; a machine that joins for the first time keeps what its administrator let in."""
    authorized = root_file(node, "authorized_keys")
    mine = [f"{KEY}a root@desk", f'from="10.0.0.9" {KEY}b root@node0', f"{KEY}c backup@node0", "# root@node0"]
    old = [f"{KEY}old0 root@node0", f"{KEY}old1 root@node1.example.com"]
    before = [*mine, *old, f"{KEY}same root@node0"]
    node.Write(authorized, "\n".join(before) + "\n", 0o600)
    new = [f"{KEY}same root@node0", f"{KEY}new root@node0"]
    data = {"cluster_name": "c", "node_name": node.name, "ssconf": MEMBERS, "authorized_keys": {"uuid0": new}}
    first = {**data, "ssconf": {"node_primary_ips": "node0.example.com 10.0.0.1"}}
    assert run(node, "prepare_node_join", first) == (0, "")
    assert node.Read(authorized).splitlines() == [*before, new[1]]
    assert run(node, "prepare_node_join", data) == (0, "")
    assert node.Read(authorized).splitlines() == [*mine, *new]


def test_a_machine_lets_its_master_in_before_it_shows_the_key_of_the_cluster(node: VirtualNode) -> None:
    """Cut off in between, it is prepared again without a question about its host key."""
    os.makedirs(node.Path("/etc/ssh/ssh_host_rsa_key"))  # cannot be written
    data = {
        "cluster_name": "c",
        "ssh_host_key": [["rsa", "private\n", f"{KEY}host root@c"]],
        "authorized_keys": {"uuid0": [f"{KEY}master root@node0"]},
    }
    code, stderr = run(node, "prepare_node_join", data)
    assert code != 0 and "/etc/ssh/ssh_host_rsa_key" in stderr
    assert node.Read(root_file(node, "authorized_keys")) == f"{KEY}master root@node0\n"


@pytest.mark.parametrize(("kind", "bits"), [("ecdsa", 1000), ("rsa", 512), ("rsa", 100000), ("dsa", 2048)])
def test_a_key_that_cannot_be_made_costs_no_key(node: VirtualNode, kind: str, bits: int) -> None:
    node.Write(root_file(node, f"id_{kind}"), "mine\n", 0o600)
    data = {"cluster_name": "c", "ssh_key_type": kind, "ssh_key_bits": bits, "authorized_keys": {"uuid": [f"{KEY}x"]}}
    code, stderr = run(node, "prepare_node_join", data)
    assert code == 12 and f"{bits}" in stderr and "bits" in stderr
    assert [path.name for path in Path(node.Path(root_file(node, ""))).iterdir()] == [f"id_{kind}"]


@pytest.mark.parametrize("kind", ["rsa", "ecdsa", "ed25519"])
def test_a_new_key_has_the_usual_length_of_its_type(node: VirtualNode, kind: str) -> None:
    assert run(node, "prepare_node_join", {"cluster_name": "c", "ssh_key_type": kind}) == (0, "")
    assert ssh.CheckKeyLine(node.Read(root_file(node, f"id_{kind}.pub")))


def test_a_new_key_pair_keeps_the_old_one_aside(node: VirtualNode) -> None:
    node.Write(root_file(node, "id_rsa"), "old private\n", 0o600)
    node.Write(root_file(node, "id_rsa.pub"), "old public\n")
    assert run(node, "ssh_update", {"cluster_name": "c", "generate": ["rsa", 1024, ""]}) == (0, "")
    assert "PRIVATE KEY" in node.Read(root_file(node, "id_rsa"))
    assert node.Read(root_file(node, "id_rsa.pub")).startswith("ssh-rsa ")
    backups = sorted(Path(node.Path(root_file(node, ""))).glob("id_rsa*backup*"))
    assert [path.read_text() for path in backups] == ["old private\n", "old public\n"]
    assert run(node, "ssh_update", {"cluster_name": "c", "generate": ["rsa", 1024, "/../../x"]})[0] != 0


# Cleaning up


def test_cleaning_up_asks_first_and_leaves_no_secret(node: VirtualNode) -> None:
    assert run(node, "node_daemon_setup", setup_data())[0] == 0
    node.Write(f"{DATA}/ext/store.db", "rows")
    before = written(node)
    code, stderr = run(node, "node_cleanup", "")
    assert code == 1 and "--yes-do-it" in stderr and written(node) == before
    assert run(node, "node_cleanup", "", "--yes-do-it", "--no-backup")[0] == 0
    assert written(node) == set()
    assert not Path(node.Path(f"{DATA}/ext")).exists()
