"""What ``adopt`` judges and restores, with what was recorded of a cluster of Debian's 3.0.2; whole stories are in
``test/integration/test_adopt.py``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from support.adoption import Report
from support.virtualnode import TOP, VirtualNode

from ganeti import constants
from ganeti.tools.adopt import plan

ADOPTION = Path(TOP, "test", "data", "adoption")
NODES = ("node1.peer.test", "node2.peer.test", "node3.peer.test")


def Config() -> dict[str, Any]:
    data: dict[str, Any] = json.loads((ADOPTION / "debian-3.0.2.config.data").read_text())
    return data


def Facts(config: dict[str, Any] | None = None, **changed: Any) -> plan.Facts:
    facts = plan.Facts(
        config if config is not None else Config(), NODES[0], "/usr", [], {name: Report() for name in NODES}, {},
        dict.fromkeys(NODES, 0.0), [],
    )  # fmt: skip
    return facts._replace(**changed)


def test_nothing_stands_in_the_way_of_the_recorded_cluster() -> None:
    assert plan.Problems(Facts()) == []
    text = "\n".join(plan.Describe(Facts()))
    assert "3 nodes, 7 instances" in text
    assert "node1.peer.test, node2.peer.test, node3.peer.test:" in text  # all alike: said once


@pytest.mark.parametrize("version", ["2.16.2", "3.0.2", "3.1.0"])
def test_releases_that_can_be_taken_over(version: str) -> None:
    reports = {name: Report(version=version) for name in NODES}
    assert plan.Problems(Facts(reports=reports)) == []


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"version": "2.15.2"}, "its release is 2.15.2"),
        ({"over": True}, "installed over the original in /usr"),
        ({"version": "", "broken": "no such file"}, "cannot be used: no such file"),
        ({"ours": "3.0.99"}, "it has version 3.0.99, and this node"),
        ({"store": True}, "has belonged to this release before"),
        ({"daemons": {"ganeti-masterd": "ours"}}, "ganeti-masterd of this release is running"),
        ({"lacking": "User 'gnt-masterd' does not exist here: run users-setup"}, "User 'gnt-masterd' does not exist"),
        ({"free": 100}, "100 MiB free"),
        ({"data": 900, "backup_free": 950}, "has 950 MiB free, a copy of /var/lib/ganeti needs 964"),
        ({"boot_missing": ["/x/ganeti.target"]}, "/x/ganeti.target is missing, which would replace"),
        ({"boot_others": ["/etc/init.d/ganeti"]}, "/etc/init.d/ganeti starts programs of the original"),
        ({"boot_others": ["/etc/crontab"]}, "/etc/crontab runs the original's watcher; take that line out"),
        ({"version": "3.0.1"}, "different releases of the original: 3.0.1, 3.0.2"),
    ],
)
def test_what_is_wrong_with_one_node(changed: dict[str, Any], problem: str) -> None:
    found = plan.Problems(Facts(reports={**Facts().reports, NODES[1]: Report(**changed)}))
    assert [text for text in found if problem in text], found
    assert all("node2.peer.test" in text or "The nodes have" in text for text in found)


def test_missing_tables_are_no_reason_to_stop() -> None:
    """The daemons start without them."""
    facts = Facts(reports={**Facts().reports, NODES[1]: Report(boot_missing=["/x/ganeti.cron"])})
    assert plan.Problems(facts) == []
    assert any("Missing: /x/ganeti.cron" in text for text in plan.Warnings(facts))


def test_what_is_wrong_with_the_cluster() -> None:
    assert "clock differs by -200" in plan.Problems(Facts(skew={**Facts().skew, NODES[2]: -200.0}))[0]
    assert "master does not answer" in plan.Problems(Facts(jobs=None))[0]
    config = Config()
    config["version"] = 2150000
    assert "one of release 2.15" in plan.Problems(Facts(config))[0]
    config = Config()
    config["cluster"]["enabled_hypervisors"] = []
    assert "enabled_hypervisors is empty" in plan.Problems(Facts(config))[0]


def test_what_could_not_be_given_back_is_not_taken() -> None:
    """Hand-back refuses keys that no original reads, and that must not come out when the cluster has no master."""
    config = Config()
    disk = next(iter(config["disks"].values()))
    disk["colour"] = "red"
    assert f"key 'colour' of disk {disk['uuid']} is not known to this release" in plan.Problems(Facts(config))[0]


def test_hypervisors_and_templates_in_use_that_are_not_supported() -> None:
    config = Config()
    first, *_ = sorted(config["instances"].values(), key=lambda item: str(item["name"]))
    first["hypervisor"] = constants.HT_LXC
    disk = next(iter(config["disks"].values()))
    disk["dev_type"] = "holographic"
    problems = plan.Problems(Facts(config))
    assert any(f"The hypervisor lxc of {first['name']} is not supported" in text for text in problems)
    assert any("The disk template holographic of" in text for text in problems)
    # Enabled, and nobody uses it: no reason to stop.
    config = Config()
    config["cluster"]["enabled_hypervisors"].append(constants.HT_LXC)
    assert plan.Problems(Facts(config)) == []
    assert any("Hypervisor lxc is enabled" in text for text in plan.Warnings(Facts(config)))


def test_what_the_original_does_not_support_is_named_with_a_way_out() -> None:
    assert plan.OnlyHere(Config()) == []
    config = Config()
    config["cluster"]["rapi_tokens"] = [{"name": "backup"}]
    group = next(iter(config["nodegroups"].values()))
    group.setdefault("ipolicy", {})["max-node-failures"] = 1
    disk = next(iter(config["disks"].values()))
    disk["behind"] = ["node2.peer.test", 1.0]
    owner = next(item["name"] for item in config["instances"].values() if disk["uuid"] in item["disks"])
    config["cluster"].setdefault("ipolicy", {})["memory-ratio"] = 1.5
    found = "\n".join(plan.OnlyHere(config))
    assert "gnt-cluster rapi-token remove NAME" in found
    assert (
        f"group {group['name']} has max-node-failures: 'gnt-group modify --ipolicy-max-node-failures default GROUP'"
        in found
    )
    assert "The policy of the cluster has memory-ratio: 'gnt-cluster modify --ipolicy-memory-ratio default'" in found
    place = f"disk {disk['iv_name']} of {owner}"
    assert f"A copy of {place} is behind: wait until it is filled, 'gnt-instance info {owner}' shows it" in found
    disk["behind"], disk["adopts"] = None, True
    found = "\n".join(plan.OnlyHere(config))
    assert f"The volume of {place} is being adopted" in found and "is behind" not in found


MAIN = "import sys; from ganeti.tools.adopt.main import Main; sys.exit(Main())"


def test_a_machine_without_a_configuration(tmp_path: Path) -> None:
    """The code of wrong options, 2, is not for it."""
    done = VirtualNode(str(tmp_path)).Python(MAIN)
    assert done.returncode == 1
    assert "/config.data is missing: this machine is not the master of a cluster" in done.stderr
    assert "run this on the master" in done.stderr


# --- owners and modes -----------------------------------------------------------------------------------------------------

TAKE = "import json, sys; from ganeti.tools.adopt import records; json.dump(records.Owners(), sys.stdout)"
RESTORE = "import json, sys; from ganeti.tools.adopt import records; records.Restore(json.load(sys.stdin))"


def Found(node: VirtualNode) -> dict[str, tuple[int, int, int]]:
    found = {}
    for folder, _, files in os.walk(node.Path("/var/lib/ganeti")):
        for path in (folder, *(os.path.join(folder, name) for name in files)):
            info = os.lstat(path)
            found[path] = (info.st_mode & 0o7777, info.st_uid, info.st_gid)
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="files of other users need root")
def test_owners_and_modes_come_back_as_they_were_recorded(tmp_path: Path) -> None:
    node = VirtualNode(str(tmp_path))
    for line in (ADOPTION / "debian-3.0.2-node2.list").read_text().splitlines():
        mode, owner, _, path = line.split()
        full = node.Path("/" + path)
        if mode.startswith("d"):
            os.makedirs(full, exist_ok=True)
        else:
            node.Write("/" + path, "x")
        bits = sum(1 << (8 - place) for place, letter in enumerate(mode[1:]) if letter != "-")
        os.chmod(full, bits)
        os.chown(full, *map(int, owner.split(":")))
    before = Found(node)
    taken = node.Python(TAKE)
    assert taken.returncode == 0, taken.stderr
    for path in before:
        os.chown(path, 0, 0)
        os.chmod(path, 0o700)
    new = [
        node.Write(f"/var/lib/ganeti/{name}", "x")
        for name in ("queue/job-17", "queue/archive/1/job-10001", "ssconf_new")
    ]
    done = node.Python(RESTORE, stdin=taken.stdout)
    assert done.returncode == 0, done.stderr
    after = Found(node)
    assert {path: value for path, value in after.items() if path in before} == before
    assert after[new[0]] == after[node.Path("/var/lib/ganeti/queue/job-16")]
    assert after[new[1]][1:] == after[node.Path("/var/lib/ganeti/queue/archive")][1:]
    assert after[new[2]][1:] == after[node.Path("/var/lib/ganeti")][1:]


# --- what the machine starts ----------------------------------------------------------------------------------------------

SWITCH = """
import json, sys
from ganeti import pathutils
pathutils.EXAMPLES_DIR = sys.argv[1]
from ganeti.tools.adopt import boot
saved = boot.Save()
boot.Switch()
boot.Switch()
json.dump([saved, boot.Missing()], sys.stdout)
"""
BACK = "import json, sys; from ganeti.tools.adopt import boot; boot.SwitchBack(json.load(sys.stdin))"


def test_what_the_machine_starts_is_switched_and_comes_back(tmp_path: Path) -> None:
    node = VirtualNode(str(tmp_path))
    node.Write("/etc/cron.d/ganeti", "original cron\n")
    for name in ("ganeti.target", "ganeti-noded.service", "ganeti-wconfd.service"):
        node.Write(f"/lib/systemd/system/{name}", "original unit\n")
    node.Write("/etc/systemd/system/ganeti-noded.service", "the administrator's own\n", 0o600)
    examples = tmp_path / "examples"
    examples.mkdir()
    for name in ("ganeti.cron", "ganeti.target", "ganeti-noded.service", "ganeti-masterd.service"):
        (examples / name).write_text(f"our {name}\n")

    switched = node.Run([sys.executable, "-c", SWITCH, str(examples)])
    assert switched.returncode == 0, switched.stderr
    saved, missing = json.loads(switched.stdout)
    assert node.Read("/etc/cron.d/ganeti") == "our ganeti.cron\n"
    assert node.Read("/etc/systemd/system/ganeti-noded.service") == "our ganeti-noded.service\n"
    assert node.Read("/etc/systemd/system/ganeti-masterd.service") == "our ganeti-masterd.service\n"
    assert os.readlink(node.Path("/etc/systemd/system/ganeti-wconfd.service")) == "/dev/null"
    assert f"{examples}/ganeti-rapi.service" in missing

    for _ in range(2):
        back = node.Run([sys.executable, "-c", BACK], stdin=json.dumps(saved))
        assert back.returncode == 0, back.stderr
    assert node.Read("/etc/cron.d/ganeti") == "original cron\n"
    assert os.listdir(node.Path("/etc/systemd/system")) == ["ganeti-noded.service"]
    assert node.Read("/etc/systemd/system/ganeti-noded.service") == "the administrator's own\n"
    assert os.stat(node.Path("/etc/systemd/system/ganeti-noded.service")).st_mode & 0o777 == 0o600


OTHERS = "import json, sys; from ganeti.tools.adopt import boot; json.dump(boot.Others(), sys.stdout)"
CRON = "*/5 * * * * root [ -x %s/ganeti-watcher ] && %s/ganeti-watcher\n"


def Others(node: VirtualNode) -> list[str]:
    done = node.Python(OTHERS)
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)
    return [path.removeprefix(node.Path("/").rstrip("/")) for path in found]


def test_what_starts_the_original_and_is_not_replaced_is_found(tmp_path: Path) -> None:
    node = VirtualNode(str(tmp_path))
    assert Others(node) == []
    usual = [
        node.Write("/etc/cron.d/ganeti", CRON % ("/usr/sbin", "/usr/sbin")),
        node.Write("/lib/systemd/system/ganeti.target", "x"),
        node.Write("/lib/systemd/system/ganeti-kvmd.service", "x"),
        node.Write("/etc/systemd/system/ganeti-kvmd.service", "the administrator's own"),  # replaced, and comes back
        node.Write("/etc/systemd/system/ganeti-masterd.service", "x"),
        node.Write("/etc/systemd/system/other.service", "x"),
        node.Write("/etc/cron.d/other", "# " + CRON % ("/usr/sbin", "/usr/sbin")),
        node.Write("/etc/cron.d/old.dpkg-old", CRON % ("/usr/sbin", "/usr/sbin")),
        node.Write("/etc/crontab", "17 * * * * root run-parts /etc/cron.hourly\n"),
    ]
    os.symlink("/dev/null", node.Path("/etc/systemd/system/ganeti-watcher.timer"))
    assert Others(node) == [], usual
    strange = {
        "/etc/crontab": CRON % ("/usr/sbin", "/usr/sbin"),
        "/etc/cron.d/local-watcher": CRON % ("/usr/local/sbin", "/usr/local/sbin"),
        "/etc/init.d/ganeti": "#!/bin/sh\n",
        "/etc/systemd/system/ganeti-local.service": "x",
        "/usr/local/lib/systemd/system/ganeti-luxid.service": "x",
        "/lib/systemd/system/ganeti-cleaner.timer": "x",
        "/lib/systemd/system/ganeti-watcher.timer": "masked above",
    }
    for path, text in strange.items():
        node.Write(path, text)
    assert Others(node) == sorted(strange.keys() - {"/lib/systemd/system/ganeti-watcher.timer"})


LOOK = """
import json, sys
from ganeti.tools.adopt import node
json.dump([node._CopySize(), node._BackupFree()], sys.stdout)
"""


def test_what_is_large_and_stays_is_not_counted_for_the_copy(tmp_path: Path) -> None:
    node = VirtualNode(str(tmp_path))
    node.Write("/var/lib/ganeti/config.data", "x" * 1000)
    node.Write("/var/lib/ganeti/queue/job-1", "x" * 100)
    node.Write("/var/lib/ganeti/queue/archive/0/job-0", "x" * 5000)
    node.Write("/var/lib/ganeti/export/web/disk0", "x" * 5000)
    size, free = json.loads(node.Python(LOOK).stdout)
    assert size == 1100 and free > 0


STARTED = """
import json, sys
from ganeti.tools.adopt import node
json.dump(node.STEPS["started-here"]({}), sys.stdout)
"""


def test_guests_are_of_the_release_that_saved_their_command_line(tmp_path: Path) -> None:
    node = VirtualNode(str(tmp_path))
    commands = {"ours": ["kvm", "-m", "128"], "theirs": ["kvm", "-daemonize"], "ended": ["kvm"], "broken": None}
    for name, command in commands.items():
        node.Write(f"/var/run/ganeti/kvm-hypervisor/conf/{name}.runtime", json.dumps([command, [], {}, []]))
        node.Write(f"/var/run/ganeti/kvm-hypervisor/pid/{name}", "99999999" if name == "ended" else str(os.getpid()))
    done = node.Python(STARTED)
    assert done.returncode == 0 and json.loads(done.stdout) == ["ours"], done.stderr
