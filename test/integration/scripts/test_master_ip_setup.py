"""The script that brings the cluster's address up, in a network namespace of its own."""

from __future__ import annotations

import os
import pathlib
import subprocess
from collections.abc import Iterator

import pytest

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

    def Run(self, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
        command = ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net", *argv]
        return subprocess.run(command, env={**os.environ, **env}, text=True, capture_output=True, timeout=50)

    def Script(self, *words: str, **changes: str) -> subprocess.CompletedProcess[str]:
        env = {"MASTER_IP": ADDRESS, "MASTER_NETMASK": "24", "MASTER_NETDEV": DEVICE, "CLUSTER_IP_VERSION": "4"}
        return self.Run("sh", str(SCRIPT), *words, **{**env, **changes})

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
