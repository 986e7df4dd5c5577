"""The script that brings the cluster's address up, in a network namespace of its own."""

from __future__ import annotations

import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.virtualnode import VirtualNode

SCRIPT = pathlib.Path(__file__).parents[3] / "daemons" / "tools" / "master-ip-setup.in"
DEVICE, ADDRESS = "mip0", "192.0.2.77"


class Namespace:
    """Held by a process that sleeps in it: ``ip netns`` would leave a mount on a machine that has none yet, and changes the
    mounts of what it runs.
    """

    def __init__(self) -> None:
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; exec sleep 600"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        assert self._holder.stdout is not None
        self._holder.stdout.readline()
        self.Run("ip", "link", "add", DEVICE, "type", "veth", "peer", "name", "mip1")
        for device in ("lo", DEVICE, "mip1"):
            self.Run("ip", "link", "set", device, "up")

    def Command(self, *argv: str) -> list[str]:
        return ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net", *argv]

    def Run(self, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.Command(*argv), env={**os.environ, **env}, text=True, capture_output=True, timeout=50
        )

    def Script(self, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
        env = {"MASTER_IP": ADDRESS, "MASTER_NETMASK": "24", "MASTER_NETDEV": DEVICE, "CLUSTER_IP_VERSION": "4"}
        return self.Run("sh", str(SCRIPT), *words, **{**env, **changes})

    def Product(self, root: str, call: str) -> subprocess.CompletedProcess[str]:
        """Calls a function of the node daemon's in it."""
        node = VirtualNode(root)
        code = f"from ganeti import runtime\nfrom ganeti.backend import master\nmaster.{call}"
        return self.Run(sys.executable, "-c", code, **node.Environment())

    def Addresses(self, address: str) -> list[str]:
        """What the device has of this address: each with its mask and label."""
        shown = self.Run("ip", "-o", "address", "show", "dev", DEVICE, "to", address).stdout
        return [re.sub(r"\s+", " ", line.partition("inet")[2].partition("\\")[0]) for line in shown.splitlines()]

    def HasAddress(self) -> bool:
        return ADDRESS in self.Run("ip", "-o", "-4", "address", "show", "dev", DEVICE).stdout

    def Close(self) -> None:
        self._holder.kill()
        self._holder.communicate()


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    made = Namespace()
    yield made
    made.Close()


def test_the_address_comes_and_goes_and_twice_is_no_error(namespace: Namespace) -> None:
    assert namespace.Script("start").returncode == 0
    assert namespace.HasAddress()
    again = namespace.Script("start")
    assert again.returncode == 0
    assert "already" in again.stdout
    assert namespace.Script("stop").returncode == 0
    assert not namespace.HasAddress()
    again = namespace.Script("stop")
    assert again.returncode == 0
    assert "not up" in again.stdout


@pytest.mark.parametrize(
    ("words", "changes", "text"),
    [
        ((), {}, "usage"),
        (("restart",), {}, "usage"),
        (("start", "now"), {}, "usage"),
        (("start",), {"MASTER_IP": ""}, "MASTER_IP is not set"),
        (("start",), {"MASTER_NETDEV": "nodev"}, "no network device nodev"),
    ],
)
def test_wrong_use_is_told(namespace: Namespace, words: tuple[str, ...], changes: dict[str, str], text: str) -> None:
    result = namespace.Script(*words, **changes)
    assert result.returncode == 1
    assert text in result.stderr
    assert not namespace.HasAddress()


def test_an_address_on_another_device_is_not_taken_away(namespace: Namespace) -> None:
    assert namespace.Script("start").returncode == 0
    result = namespace.Script("stop", MASTER_NETDEV="mip1")
    assert result.returncode == 1
    assert "not on mip1" in result.stderr
    assert namespace.HasAddress()


SIX = {"MASTER_IP": "2001:db8::77", "MASTER_NETMASK": "64", "CLUSTER_IP_VERSION": "6"}
# Prints "up", then the first announcement of an address: an ARP packet whose sender asks for itself.
_LISTEN = """
import socket, sys
sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806))
sock.bind((sys.argv[1], 0))
print("up", flush=True)
while True:
    data = sock.recv(100)
    if data[28:32] == data[38:42]:
        print(socket.inet_ntoa(data[28:32]), data[:6].hex(), flush=True)
        break
"""


def test_an_address_of_ipv6_comes_and_goes(namespace: Namespace) -> None:
    assert namespace.Script("start", **SIX).returncode == 0
    (shown,) = namespace.Addresses(SIX["MASTER_IP"])
    # It can be used when the script ends.
    assert shown.startswith("6 2001:db8::77/64 ") and "deprecated" in shown and "tentative" not in shown
    again = namespace.Script("start", **SIX)
    assert again.returncode == 0 and "already" in again.stdout
    assert namespace.Script("stop", **SIX).returncode == 0
    assert namespace.Addresses(SIX["MASTER_IP"]) == []


@pytest.mark.parametrize(("ip", "family", "masks"), [(ADDRESS, 2, (32, 24, 32)), ("2001:db8::77", 10, (128, 64, 128))])
def test_the_netmask_changes_while_the_address_is_up(
    namespace: Namespace, tmp_path: Path, ip: str, family: int, masks: tuple[int, ...]
) -> None:
    def call(name: str, *arguments: object) -> None:
        done = namespace.Product(str(tmp_path), f"{name}{arguments!r}")
        assert done.returncode == 0, done.stderr

    params = {"uuid": "u", "ip": ip, "netmask": masks[0], "netdev": DEVICE, "ip_family": family}
    call("ActivateMasterIp", params, False)
    for old, new in itertools.pairwise(masks):
        call("ChangeMasterNetmask", old, new, ip, DEVICE)
        (shown,) = namespace.Addresses(ip)
        assert f" {ip}/{new} " in shown and "deprecated" in shown
        assert family == 10 or f" {DEVICE}:0" in shown
    refused = namespace.Product(str(tmp_path), f"ChangeMasterNetmask{(masks[-1], 8, ip, 'mip1')!r}")
    assert (
        refused.returncode == 1 and f"Could not remove the old netmask {masks[-1]}" in refused.stderr
    ) or family == 10
    # The mask that is taken down is the one that is there.
    call("DeactivateMasterIp", {**params, "netmask": 20}, False)
    assert namespace.Addresses(ip) == []


def test_neighbours_learn_where_the_address_is(namespace: Namespace) -> None:
    assert shutil.which("arping"), "install arping"
    argv = namespace.Command(sys.executable, "-c", _LISTEN, "mip1")
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as listener:
        try:
            assert listener.stdout is not None and listener.stdout.readline() == "up\n"
            assert namespace.Script("start").returncode == 0
            assert listener.stdout.readline() == f"{ADDRESS} ffffffffffff\n"
        finally:
            listener.kill()
