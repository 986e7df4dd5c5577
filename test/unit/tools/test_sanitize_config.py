"""sanitize-config as a program: what a stranger must not see, and that the rest still is a configuration."""

from __future__ import annotations

import ipaddress
import json
import os
from pathlib import Path
from typing import Any

import pytest
from support import configs
from support.virtualnode import TOP, VirtualNode

from ganeti import configfile, objects, upgrade
from ganeti.configfile import verify

STARTER = "import sys; from ganeti.tools.sanitize_config import Main; sys.argv[0] = 'sanitize-config'; sys.exit(Main())"
ADOPTED = os.path.join(TOP, "test", "data", "adoption", "debian-3.0.2.config.data")
NETWORK = configs.Uuid(900)
CONFIG = "/var/lib/ganeti/config.data"


def _Secret(words: str) -> dict[str, Any]:
    return {"debootstrap": {"root_password": words}}


def _Telling() -> dict[str, Any]:
    """A configuration with secrets, a large network, and names in places where nobody looks for them."""
    data = configs.ExampleDict()
    cluster = data["cluster"]
    cluster["osparams_private_cluster"] = _Secret("secret-of-cluster")
    cluster["rapi_tokens"] = {"secret-of-robot": {"sha256": "0" * 64, "role": "read", "tags": [], "created": 1.0}}
    cluster["hidden_os"] = ["corporate-os+variant"]
    web = data["instances"][configs.WEB]
    web["osparams_private"] = {"root_password": "secret-of-instance"}
    web["os"] = "corporate-os+variant"
    web["tags"] = [f"backup:{web['name']}", f"not{web['name']}"]
    connected = {"mode": "bridged", "link": "br0", "vlan": ""}
    data["networks"][NETWORK] = {
        "name": "customers", "network": "203.0.113.16/28", "gateway": "203.0.113.17", "network6": "2001:db8:77::/64",
        "gateway6": "2001:db8:77::1", "reservations": "0000100000000000", "ext_reservations": "1100000000000001",
        "uuid": NETWORK, "tags": [], "ctime": 1.0, "mtime": 1.0, "serial_no": 1,
    }  # fmt: skip
    data["nodegroups"][configs.GROUP]["networks"] = {NETWORK: connected}
    web["nics"][0].update(network=NETWORK, ip="203.0.113.20", nicparams=connected)
    web["hvparams"] = {"vnc_bind_address": next(iter(data["nodes"].values()))["primary_ip"]}
    return data


def _Run(node: VirtualNode, *words: str, data: dict[str, Any] | None = None) -> Any:
    node.Write(CONFIG, json.dumps(data if data is not None else _Telling()))
    return node.Python(STARTER, *words)


@pytest.fixture
def node(tmp_path: Path) -> VirtualNode:
    return VirtualNode(str(tmp_path))


def _Addresses(root: objects.Snapshot) -> set[str]:
    found = {root.cluster.master_ip}
    for other in root.nodes.values():
        found |= {other.primary_ip, other.secondary_ip}
    for instance in root.instances.values():
        found |= {nic.ip for nic in instance.nics if nic.ip}
    return found


@pytest.mark.req("D20-PAR-25")
@pytest.mark.parametrize("which", ["example", "adopted"])
def test_nothing_tells_whose_cluster_it_is_and_it_still_is_one(node: VirtualNode, which: str) -> None:
    data = _Telling() if which == "example" else json.loads(Path(ADOPTED).read_text())
    before = configfile.LoadDict(upgrade.UpgradeConfig(data))
    done = _Run(node, "-", data=data)
    assert (done.returncode, done.stderr) == (0, "")
    text = done.stdout
    names = {item.name for kind in (before.nodes, before.instances) for item in kind.values() if item.name}
    assert "corporate-os" not in text and "secret-of-" not in text
    for word in (*names, before.cluster.cluster_name, *_Addresses(before)):
        assert f'"{word}"' not in text and f":{word}" not in text, word
    assert not any(secret in text for disk in before.disks.values() for secret in disk.Secrets())
    after = configfile.LoadConfig(text)
    assert verify.VerifyConfig(after) == verify.VerifyConfig(before) or not verify.VerifyConfig(after)
    assert after.cluster.cluster_name == "cluster.example.com" and after.cluster.rsahostkeypub == ""
    assert {item.name for item in after.nodes.values()} == {f"node{n + 1}.example.com" for n in range(len(after.nodes))}
    assert after.nodes.keys() == before.nodes.keys() and after.disks.keys() == before.disks.keys()
    assert all(ipaddress.ip_address(address).is_private for address in _Addresses(after))
    assert len(_Addresses(after)) == len(_Addresses(before))
    for disk in after.disks.values():
        assert all(len(secret) == 40 for secret in disk.Secrets())


def test_a_name_is_replaced_in_other_texts_but_not_inside_longer_names(node: VirtualNode) -> None:
    before = configfile.LoadConfig(json.dumps(_Telling()))
    after = configfile.LoadConfig(_Run(node, "-").stdout)
    web, old = after.instances[configs.WEB], before.instances[configs.WEB]
    assert set(web.tags) == {f"backup:{web.name}", f"not{old.name}"}
    first = next(iter(before.nodes))
    assert web.hvparams["vnc_bind_address"] == after.nodes[first].primary_ip != before.nodes[first].primary_ip
    assert web.os == "ganeti-os1+variant" == after.cluster.hidden_os[0]


def test_addresses_keep_their_places_in_their_networks(node: VirtualNode) -> None:
    before = configfile.LoadConfig(json.dumps(_Telling()))
    after = configfile.LoadConfig(_Run(node, "-").stdout)
    compared = 0
    for uuid, network in before.networks.items():
        pairs = [(network.gateway, after.networks[uuid].gateway)] if network.gateway else []
        for key, instance in before.instances.items():
            nics = zip(instance.nics, after.instances[key].nics, strict=True)
            pairs += [(old.ip, new.ip) for old, new in nics if old.network == uuid and old.ip]
        for old, new in pairs:
            old_net, new_net = (ipaddress.ip_network(n.network) for n in (network, after.networks[uuid]))
            assert old_net.prefixlen == new_net.prefixlen and old_net != new_net
            offset = int(ipaddress.ip_address(old)) - int(old_net.network_address)
            assert int(ipaddress.ip_address(new)) - int(new_net.network_address) == offset
            compared += 1
    assert compared


def test_only_what_is_asked_for_changes_but_secrets_always_go(node: VirtualNode) -> None:
    before = configfile.LoadConfig(json.dumps(_Telling()))
    kept = _Run(node, "--no-randomization", "-").stdout
    assert "secret-of-" not in kept
    after = configfile.LoadConfig(kept)
    assert _Addresses(after) == _Addresses(before)
    assert after.instances[configs.WEB].name == before.instances[configs.WEB].name
    one = configfile.LoadConfig(_Run(node, "--sanitize-ips=no", "--sanitize-lvs=yes", "--base-domain=a.b", "-").stdout)
    assert _Addresses(one) == _Addresses(before) and one.cluster.cluster_name == "cluster.a.b"
    volumes = {name for disk in before.disks.values() for name in disk.VolumeNames()}
    assert volumes and not volumes & {name for disk in one.disks.values() for name in disk.VolumeNames()}


def test_a_file_that_exists_is_kept_and_only_its_owner_reads_the_new_one(node: VirtualNode, tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("precious")
    assert _Run(node, str(target)).returncode == 0
    assert target.stat().st_mode & 0o777 == 0o600 and "cluster.example.com" in target.read_text()
    assert [other.read_text() for other in tmp_path.glob("out?*")] == ["precious"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 1, "Usage: sanitize-config"),
        (("a", "b"), 1, "Usage: sanitize-config"),
        (("--sanitize-ips=maybe", "-"), 2, "'yes' or 'no' is expected, not 'maybe'"),
        (("--base-domain=../x", "-"), 1, "'../x' is not a domain"),
        (("--path=/nowhere", "-"), 1, "/nowhere: No such file or directory"),
        (("/nowhere/file",), 1, "/nowhere/file"),
    ],
)
def test_wrong_words_are_named(node: VirtualNode, words: tuple[str, ...], code: int, said: str) -> None:
    done = _Run(node, *words)
    assert done.returncode == code and said in done.stderr, done.stderr
    assert done.stdout == "" and "Traceback" not in done.stderr


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 99}', "\0" * 50])
def test_what_is_no_configuration_is_named(node: VirtualNode, text: str) -> None:
    node.Write(CONFIG, text)
    done = node.Python(STARTER, "-")
    assert done.returncode in (1, 2) and done.stdout == "" and done.stderr and "Traceback" not in done.stderr
