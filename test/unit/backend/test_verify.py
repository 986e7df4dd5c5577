"""node_verify: each key is one check, and no check hides another."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import allocator
from support.nodes import Node

from ganeti import constants, errors, pathutils, x509
from ganeti.backend import verify

NAME = "node1.example.com"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path, NAME) as made:
        Path(pathutils.ETC_HOSTS).write_text(f"127.0.0.1 {NAME}\n")
        yield made


def check(**request: Any) -> dict[str, Any]:
    return verify.Verify({key.replace("_", "-"): value for key, value in request.items()}, "cluster", {})


def test_only_what_is_asked_for_is_answered(here: Node) -> None:
    assert check() == {}
    assert check(unknown_key=1) == {}
    assert set(check(version=None, time=None)) == {"version", "time"}
    assert check(version=None)["version"] == [constants.PROTOCOL_VERSION, constants.RELEASE_VERSION]
    seconds, microseconds = check(time=None)["time"]
    assert seconds > 1_600_000_000 and 0 <= microseconds < 1_000_000


def test_files_are_compared_by_their_digest(here: Node) -> None:
    path = f"{pathutils.DATA_DIR}/known_hosts"
    Path(path).write_bytes(b"key")
    virtual, missing = pathutils.MakeVirtualPath(path), pathutils.MakeVirtualPath(f"{path}2")
    assert check(filelist=[virtual, missing])["filelist"] == {virtual: hashlib.sha1(b"key").hexdigest()}


def test_executables(here: Node) -> None:
    good, plain = Path(here.root, "good"), Path(here.root, "plain")
    for path, mode in ((good, 0o755), (plain, 0o644)):
        path.write_text("")
        path.chmod(mode)
    paths = [str(good), str(plain), "/none", str(here.root)]
    assert check(user_scripts=paths)["user-scripts"] == paths[1:]
    first, *others = check(oob_paths=paths)["oob-paths"]
    assert first is None and all(path in text for path, text in zip(paths[1:], others, strict=True))


def test_the_client_certificate(here: Node) -> None:
    def answer() -> list[str | None]:
        return check(client_cert=None)["client-cert"]  # type: ignore[no-any-return]

    assert answer()[0] == "ERROR" and "does not exist" in str(answer()[1])
    path = Path(pathutils.NODED_CLIENT_CERT_FILE)
    server = x509.MakeServerPem()
    path.write_text(x509.MakeClientPem(server, NAME))
    assert answer() == [None, x509.Digest(path.read_text())]
    path.write_text(server)
    assert answer()[0] == "WARNING" and "self-signed" in str(answer()[1])
    path.write_text("".join(x509.MakeSelfSigned(validity=20 * 86400)))
    assert answer()[0] == "WARNING" and "expires" in str(answer()[1])
    path.write_text("rubbish")
    assert answer()[0] == "ERROR"


def test_hypervisors_and_their_parameters(here: Node) -> None:
    result = check(
        hypervisor=["fake", "none"],
        hvparms=[["cluster", "fake", {}], ["instance web", "none", {}]],
        instancelist=["fake"],
        hvinfo="fake",
    )
    assert result["hypervisor"]["fake"] is None and "none" in result["hypervisor"]["none"]
    ((source, name, text),) = result["hvparms"]
    assert (source, name) == ("instance web", "none") and text
    assert result["instancelist"] == [] and result["hvinfo"]["memory_total"] > 0
    # Where there is room for a text an error is one.
    assert isinstance(check(instancelist=["none"])["instancelist"], str)


def test_a_node_without_instances_is_not_asked_about_them(here: Node) -> None:
    for key in ("nonvmnodes", "vmnodes"):
        result = check(**{key: [NAME]}, instancelist=["fake"], hypervisor=["fake"], version=None)
        assert set(result) == {"version"}
    assert "instancelist" in check(nonvmnodes=["other"], instancelist=["fake"])


def test_a_check_that_breaks_hides_no_other(here: Node, caplog: pytest.LogCaptureFixture) -> None:
    result = check(hvinfo="none", version=None)
    assert set(result) == {"version"} and "hvinfo" in caplog.text


@pytest.mark.parametrize("value", [None, 5, [1], {"a": 1}, [[1, 2], 3], "x"])
@pytest.mark.parametrize("key", sorted(verify.CHECKS))
def test_wrong_values_are_refused_with_the_key(here: Node, key: str, value: Any) -> None:
    try:
        verify.Verify({key: value}, "cluster", {})
    except errors.RpcCallError as err:
        assert key in str(err)


def test_only_candidates_try_to_reach_others(here: Node) -> None:
    result = check(
        nodelist=[["node2"], {}, ["node9"]],
        node_net_test=[[["node2", "192.0.2.1", "192.0.2.1"]], []],
        master_ip=["node2", "192.0.2.1", ["node9"]],
    )
    assert result == {"nodelist": {}, "node-net-test": {}, "master-ip": None}


def test_the_network_test_names_who_cannot_be_reached(here: Node) -> None:
    lease = allocator.Lease()
    try:
        own, up, down = lease.Address(), lease.Address(), lease.Address()
        with socket.create_server((up, constants.DEFAULT_NODED_PORT)):
            with socket.create_server((own, constants.DEFAULT_NODED_PORT)) as server:
                nodes = [[NAME, own, own], ["up", up, up], ["half", up, down], ["down", down, down]]
                found = check(node_net_test=[nodes, [NAME]])["node-net-test"]
                # The test comes from the own address.
                server.settimeout(5)
                assert server.accept()[1][0] == own
        assert found == {
            "half": "failure using the secondary interface(s)",
            "down": "failure using the primary interface(s)",
        }
        assert list(check(node_net_test=[nodes[1:], [NAME]])["node-net-test"]) == [NAME]
    finally:
        lease.Release()


def test_node_set_up_and_bridges(here: Node) -> None:
    result = check(nodesetup=None, bridges=["br77"], oslist=None)
    assert result["bridges"] == ["br77"] and isinstance(result["oslist"], list)
    assert result["nodesetup"] == [], "a virtual node has no machine of its own to reset"


def test_where_a_gluster_volume_is_mounted(here: Node) -> None:
    for path in ("", f"{here.root}/not-there-yet", here.root):
        assert check(gluster_storage_path=str(path)) == {}, path
    here.AllowFileStorage("/srv/good")
    file = f"{here.root}/file"
    with open(file, "wb"):
        pass
    for path, problem in ((file, "is not a directory"), ("/etc/gluster", "belongs to the system"), ("a/b", "absolute")):
        assert problem in check(gluster_storage_path=path)["gluster-storage-path"]


def test_file_storage_paths(here: Node) -> None:
    here.AllowFileStorage("/srv/good", "/etc/ganeti")
    allowed = "allowed-file-storage-paths"
    assert verify.Verify({allowed: NAME}, "c", {}) == {allowed: ["/etc/ganeti"]}
    assert verify.Verify({allowed: "node2"}, "c", {}) == {}
    good = f"{here.root}/srv/good"
    os.makedirs(good)
    here.AllowFileStorage(good)
    assert check(file_storage_path=good) == {}
    assert "file-storage-path" in check(file_storage_path="/srv/not-listed")


def test_files_of_instances_are_listed_in_allowed_directories_of_this_node_only(here: Node) -> None:
    top = f"{here.root}/srv/good"
    for folder in ("web", "empty", "other"):
        os.makedirs(f"{top}/{folder}")
        if folder != "empty":
            Path(top, folder, "disk").write_text("x")
    os.symlink("/etc", f"{top}/link")
    here.AllowFileStorage(top)
    wanted = [f"{top}/{folder}" for folder in ("web", "empty", "gone", "link")]
    key = "instance-files"
    answer = verify.Verify({key: {NAME: [*wanted, "/etc"], "node2": [f"{top}/other"]}}, "c", {})
    assert answer == {key: {f"{top}/web": ["disk"]}}
