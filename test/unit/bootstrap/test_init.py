"""gnt-cluster init refuses what cannot be before it changes anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from simulated import Invocation, World
from simulated.machine import Machine

from ganeti import errors, pathutils, runtime, ssh
from ganeti.bootstrap import init
from ganeti.bootstrap.settings import Settings

NAME = "cluster.example.org"


class Scene:
    """A machine on which a cluster could be made; whoever begins to make it is told so by ``begun``."""

    def __init__(self, world: World) -> None:
        self.machine: Machine = world.AddMachine("node1.example.org", "192.0.2.1")
        world.AddMachine(NAME, "192.0.2.9").PowerOff()
        self.begun: list[str] = []
        self.machine.programs |= {"ip": lambda _: 0, pathutils.DAEMON_UTIL: self._DaemonUtil}
        for kind, path in (("rsa", pathutils.SshHostKey("rsa")[1]), ("root", ssh.UserKeyFiles("ecdsa")[0])):
            self.machine.Call(runtime.MakeDirs, path.rpartition("/")[0])
            self.machine.Call(runtime.WriteFile, path, f"ssh-{kind} AAAA root\n")

    def _DaemonUtil(self, invocation: Invocation) -> int:
        self.begun.append(" ".join(invocation.argv[1:]))
        return 1  # that is far enough

    def Init(self, **changes: Any) -> None:
        settings = Settings(
            NAME,
            **{
                "enabled_hypervisors": ["fake"],
                "enabled_disk_templates": ["diskless"],
                "master_netdev": "eth0",
                **changes,
            },
        )
        self.machine.Call(init.InitCluster, settings)


@pytest.fixture(name="scene")
def _Scene() -> Iterator[Scene]:
    with World(1) as world:
        yield Scene(world)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"ssh_key_type": "ecdsa", "ssh_key_bits": 1000}, "ECDSA keys have 256, 384, 521 bits, not 1000"),
        ({"ssh_key_bits": 512}, "RSA keys of 512 bits are not safe"),
        ({"ssh_key_bits": 0}, "RSA keys of 0 bits are not safe"),
        ({"ssh_key_bits": -3}, "RSA keys of -3 bits are not safe"),
        ({"ssh_key_bits": 100000}, "RSA keys have at most 16384 bits"),
        ({"ssh_key_type": "ed25519"}, "Invalid SSH key type 'ed25519'; choose from rsa, dsa, ecdsa"),
        ({"install_image": "../x"}, "install_image must be an absolute path or a URL, not '../x'"),
        ({"zeroing_image": "no/where"}, "zeroing_image must be an absolute path or a URL"),
        ({"enabled_hypervisors": []}, "hypervisors list must contain at least one member"),
        ({"enabled_hypervisors": ["nix"]}, "hypervisors contains invalid entries: nix"),
        ({"enabled_disk_templates": ["diskless", "diskless"]}, "disk templates list contains duplicates"),
        ({"master_netmask": 33}, "netmask 33 is not valid: it must be 1 to 32"),
        ({"mac_prefix": "aa:00"}, "'aa:00' is not a valid MAC prefix"),
        ({"vg_name": "a b"}, "'a b' is not a valid name of a volume group"),
        ({"master_netdev": "a/b", "nicparams": {"mode": "openvswitch", "link": "sw"}}, "network interface"),
        ({"compression_tools": ["rm -rf"]}, "Invalid compression tool name"),
        ({"uid_pool": [[5, 3]]}, "lower bound is above"),
        ({"candidate_pool_size": 0}, "at least 1"),
    ],
)
def test_a_wrong_value_is_refused_before_the_first_change(scene: Scene, changes: dict[str, Any], match: str) -> None:
    with pytest.raises(errors.OpPrereqError, match=match):
        scene.Init(**changes)
    assert scene.begun == []


def test_a_machine_without_host_keys_is_refused_before_the_first_change(scene: Scene) -> None:
    scene.machine.Call(runtime.RemoveFile, pathutils.SshHostKey("rsa")[1])
    with pytest.raises(errors.OpPrereqError, match="neither an RSA nor a DSA host key"):
        scene.Init()
    assert scene.begun == []


def test_with_values_that_can_be_it_begins(scene: Scene) -> None:
    with pytest.raises(errors.OpExecError, match="stop-all"):
        scene.Init()
    assert scene.begun == ["stop-all"]
