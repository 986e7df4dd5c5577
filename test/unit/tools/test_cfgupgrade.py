"""cfgupgrade: a cluster of an older release before its first start with this one."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest
from support import oldconfigs
from support.virtualnode import VirtualNode

from ganeti import configfile, x509

DATA = "/var/lib/ganeti"
CONFIG = f"{DATA}/config.data"
MAIN = "import sys; from ganeti.tools.cfgupgrade import Main; sys.exit(Main())"


@pytest.fixture
def node(tmp_path: Path) -> VirtualNode:
    """The master of the example's cluster, as release 2.6 leaves it."""
    node = VirtualNode(str(tmp_path), "node1.example.org")
    node.Write(CONFIG, json.dumps(oldconfigs.Aged("2.6")), 0o640)
    node.Write(f"{DATA}/server.pem", x509.MakeServerPem(), 0o400)
    node.Write(f"{DATA}/known_hosts", "")
    node.Write(f"{DATA}/ssconf_master_node", "node1.example.org\n")
    return node


def Run(node: VirtualNode, *words: str, stdin: str | None = None) -> tuple[int, str]:
    done = node.Run([sys.executable, "-c", MAIN, *words], stdin=stdin)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def Files(node: VirtualNode) -> set[str]:
    return {name.partition(".backup-")[0] for name in os.listdir(node.Path(DATA))}


def test_a_cluster_is_brought_to_this_release(node: VirtualNode) -> None:
    before = node.Read(CONFIG)
    node.Write(f"{DATA}/watcher.data", "{}")
    node.Write(f"{DATA}/rapi_users", "anna secret write\n")
    code, text = Run(node, "--force")
    assert code == 0, text
    assert "Configuration successfully upgraded to version 3.1." in text
    root = configfile.LoadConfig(node.Read(CONFIG))
    assert configfile.VerifyConfig(root) == []
    assert stat.S_IMODE(os.stat(node.Path(CONFIG)).st_mode) == 0o600
    (copy,) = Path(node.Path(DATA)).glob("config.data.backup-*")
    assert copy.read_text() == before
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600

    assert {"rapi.pem", "spice.pem", "spice-ca.pem", "hmac.key", "cluster-domain-secret", "client.pem"} <= Files(node)
    assert "watcher.data" not in Files(node)
    assert node.Read(f"{DATA}/rapi/users") == node.Read(f"{DATA}/rapi_users") == "anna secret write\n"
    assert os.path.islink(node.Path(f"{DATA}/rapi_users"))
    assert "/srv/ganeti/file-storage" in node.Read("/etc/ganeti/file-storage-paths")


def test_masters_of_before_2_11_get_the_certificate_that_the_list_of_candidates_names(node: VirtualNode) -> None:
    _, text = Run(node, "--force")
    root = configfile.LoadConfig(node.Read(CONFIG))
    digest = x509.Digest(node.Read(f"{DATA}/client.pem"))
    assert root.cluster.candidate_certs == {root.cluster.master_node: digest}
    assert digest in node.Read(f"{DATA}/ssconf_master_candidates_certs")
    assert "gnt-node show-join-data NODE | ssh NODE" in text
    assert "gnt-node add --readd --no-node-setup NODE" in text


def test_certificates_that_are_there_stay(node: VirtualNode) -> None:
    node.Write(CONFIG, json.dumps(oldconfigs.Aged("2.16")), 0o640)
    for name in ("rapi.pem", "client.pem", "hmac.key"):
        node.Write(f"{DATA}/{name}", f"own {name}\n")
    code, text = Run(node, "--force")
    assert code == 0, text
    assert "show-join-data" not in text
    assert [node.Read(f"{DATA}/{name}") for name in ("rapi.pem", "client.pem", "hmac.key")] == [
        "own rapi.pem\n",
        "own client.pem\n",
        "own hmac.key\n",
    ]


def test_a_dry_run_needs_no_daemon_to_be_stopped(node: VirtualNode) -> None:
    """It writes nothing, and whoever plans the change has a cluster at work."""
    before = node.Read(CONFIG)
    tried = node.Python(
        "import subprocess, sys; from ganeti import constants; from ganeti.daemon import pidfile\n"
        "lock = pidfile.Lock(constants.NODED)\n"
        "for words in (['--dry-run'], []):\n"
        f"    done = subprocess.run([sys.executable, '-c', {MAIN!r}, '--force', *words], capture_output=True, text=True)\n"
        "    print(done.returncode, done.stderr)"
    )
    assert tried.stdout.startswith("0 ") and "Configuration can be upgraded" in tried.stdout, tried.stdout
    assert "1 " in tried.stdout and "ganeti-noded is running" in tried.stdout, tried.stdout
    assert node.Read(CONFIG) == before


@pytest.mark.parametrize("words", [("--dry-run", "--force"), ()])
def test_nothing_is_written_by_a_trial_or_without_a_yes(node: VirtualNode, words: tuple[str, ...]) -> None:
    node.Write(f"{DATA}/watcher.data", "{}")
    before = node.Read(CONFIG), Files(node)
    code, text = Run(node, *words)
    assert (node.Read(CONFIG), Files(node)) == before
    if words:
        assert (code, "Configuration can be upgraded to version 3.1." in text) == (0, True), text
    else:
        assert code == 1
        assert "Do you want to continue?" in text
        assert Run(node, stdin="y\n")[0] == 0


def test_it_is_run_on_the_master_only(node: VirtualNode) -> None:
    node.Write(f"{DATA}/ssconf_master_node", "node2.example.org\n")
    code, text = Run(node, "--force")
    assert code == 1
    assert "This is node node1.example.org, and the master is node2.example.org" in text
    assert Run(node, "--force", "--ignore-hostname")[0] == 0


@pytest.mark.parametrize("name", ["config.data", "server.pem", "known_hosts"])
def test_files_of_a_master_must_be_there(node: VirtualNode, name: str) -> None:
    os.remove(node.Path(f"{DATA}/{name}"))
    code, text = Run(node, "--force")
    assert code == 1
    assert f"{DATA}/{name} is missing" in text


@pytest.mark.req("D20-HIST-03")
def test_jobs_of_another_format_must_be_archived_first(node: VirtualNode) -> None:
    node.Write(f"{DATA}/queue/serial", "7\n")
    node.Write(f"{DATA}/queue/archive/0/job-6", "{}")
    job = node.Write(f"{DATA}/queue/job-7", "{}")
    before = node.Read(CONFIG), Files(node)
    code, text = Run(node, "--force")
    assert code == 1
    assert "The job queue is not empty: job 7 in" in text
    assert "'gnt-job autoarchive all'" in text
    assert (node.Read(CONFIG), Files(node)) == before
    os.remove(job)
    assert Run(node, "--force")[0] == 0


def test_what_no_daemon_could_start_with_is_not_written(node: VirtualNode) -> None:
    data = oldconfigs.Aged("2.6")
    data["cluster"]["master_node"] = "node9.example.org"
    node.Write(CONFIG, json.dumps(data))
    before = node.Read(CONFIG), Files(node)
    code, text = Run(node, "--force")
    assert code == 1
    assert "nothing was written: cluster: master_node node9.example.org is not a node" in text
    assert (node.Read(CONFIG), Files(node)) == before


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"version": 1}', '{"version": 9010000}', '{"version": 2060000}', "\udcff"]
)
def test_rubbish_is_named(node: VirtualNode, content: str) -> None:
    Path(node.Path(CONFIG)).write_bytes(content.encode("utf-8", "surrogateescape"))
    code, text = Run(node, "--force")
    assert code == 1
    assert "Configuration successfully" not in text
    assert Path(node.Path(CONFIG)).read_bytes() == content.encode("utf-8", "surrogateescape")


def test_problems_that_do_not_prevent_a_start_are_shown(node: VirtualNode) -> None:
    data = oldconfigs.Aged("2.6")
    for item in data["nodes"].values():
        item["secondary_ip"] = "198.51.100.1"
    node.Write(CONFIG, json.dumps(data))
    code, text = Run(node, "--force")
    assert code == 0
    assert "Warning: " in text
    assert "198.51.100.1" in text


def test_there_and_back(node: VirtualNode) -> None:
    assert Run(node, "--force")[0] == 0
    code, text = Run(node, "--force", "--downgrade")
    assert code == 0, text
    assert "Configuration successfully downgraded to version 3.0." in text
    data = json.loads(node.Read(CONFIG))
    assert data["version"] == 3000000
    assert data["cluster"]["hvparams"]["xen-pvm"]["xen_cmd"] == "xl"
    assert Run(node, "--force", "--downgrade")[0] == 0, "no conversion is needed"
    assert json.loads(node.Read(CONFIG)) == data


def test_the_original_gets_no_key_that_it_does_not_know(node: VirtualNode) -> None:
    assert Run(node, "--force")[0] == 0
    data = json.loads(node.Read(CONFIG))
    disk = next(iter(data["disks"].values()))
    disk["decision"] = 2
    disk["behind"] = {"node": disk["nodes"][0] if disk.get("nodes") else "x", "since": 5}
    node.Write(CONFIG, json.dumps(data))
    code, text = Run(node, "--force", "--downgrade")
    assert code == 1 and "is behind: wait until it is filled" in text
    assert json.loads(node.Read(CONFIG)) == data
    del disk["behind"]
    node.Write(CONFIG, json.dumps(data))
    assert Run(node, "--force", "--downgrade")[0] == 0
    assert "decision" not in node.Read(CONFIG)


def test_users_of_the_remote_interface_in_two_places_are_for_somebody_to_decide(node: VirtualNode) -> None:
    node.Write(f"{DATA}/rapi_users", "anna secret write\n")
    node.Write(f"{DATA}/rapi/users", "otto secret write\n")
    before = node.Read(CONFIG)
    code, text = Run(node, "--force")
    assert code == 1
    assert f"{DATA}/rapi_users and in" in text
    assert node.Read(CONFIG) == before


def test_a_full_disk_is_reported_and_the_next_run_finishes(node: VirtualNode) -> None:
    """Each file may have as many blocks as given; what is written first is smaller than what comes later."""
    node.Write(f"{DATA}/rapi_users", "anna secret write\n")
    before = node.Read(CONFIG)
    for blocks in (0, 8):
        argv = ["sh", "-c", f'ulimit -f {blocks}; exec "$@"', "sh", sys.executable, "-c", MAIN, "--force"]
        done = node.Run(argv)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        assert "config.data is as it was" in done.stderr and "run the same command again" in done.stderr
        assert node.Read(CONFIG) == before
        assert node.Read(f"{DATA}/rapi_users") == "anna secret write\n"
    assert "spice.pem" in Files(node), "it got as far as the large files"
    assert Run(node, "--force")[0] == 0
    assert configfile.VerifyConfig(configfile.LoadConfig(node.Read(CONFIG))) == []


def test_users_that_were_moved_before_a_cut_are_no_conflict(node: VirtualNode) -> None:
    for name in ("rapi_users", "rapi/users"):
        node.Write(f"{DATA}/{name}", "anna secret write\n")
    os.symlink("nowhere", node.Path(f"{DATA}/rapi_users.link"))
    assert Run(node, "--force")[0] == 0
    assert os.path.islink(node.Path(f"{DATA}/rapi_users"))
    assert node.Read(f"{DATA}/rapi_users") == "anna secret write\n"
    assert "rapi_users.link" not in Files(node)


def test_arguments_are_not_expected(node: VirtualNode) -> None:
    code, text = Run(node, "now")
    assert code == 1
    assert "No arguments expected" in text
