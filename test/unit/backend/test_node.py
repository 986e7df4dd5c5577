"""Procedures about the machine itself, on a virtual node's own files."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.nodes import Node
from support.realcluster import WaitUntil

from ganeti import backend, constants, errors, pathutils, rpc, runtime, x509
from ganeti.backend import files, master, node, programs
from ganeti.backend.trust import certificates, sshcheck
from ganeti.daemon import pidfile
from ganeti.rpc.encoders import Blob
from ganeti.rpc.procedures import PROCEDURES


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path, "node1.example.com") as made:
        Path(pathutils.ETC_HOSTS).write_text("127.0.0.1 localhost\n127.0.0.1 node1.example.com node1\n")
        os.makedirs(pathutils.LOCK_DIR, exist_ok=True)
        yield made


def script(path: str, text: str, mode: int = 0o755) -> str:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    Path(path).write_text(f"#!/bin/sh\n{text}\n")
    os.chmod(path, mode)
    return path


def test_every_handler_is_a_procedure_and_takes_its_arguments() -> None:
    import inspect

    wrong = {}
    for name, handler in backend.Handlers().items():
        wanted = [arg.name for arg in PROCEDURES[name].args]
        try:
            inspect.signature(handler).bind(*wanted)
        except TypeError as err:
            wrong[name] = f"{wanted}: {err}"
    assert wrong == {}


# Facts


def test_versions_and_space(here: Node) -> None:
    assert node.Version() == constants.PROTOCOL_VERSION
    boot_id, storage, hypervisors = node.NodeInfo([["file", "/", []], ["file", "/none", None]], [["fake", {}]])
    assert len(boot_id) == 36
    assert storage[0]["type"] == "file" and 0 < storage[0]["storage_free"] <= storage[0]["storage_size"]
    assert storage[1] == {"type": "file", "name": "/none", "storage_free": None, "storage_size": None}
    assert hypervisors[0]["memory_total"] > 0
    assert node.NodeInfo(None, None)[1:] == [None, None]
    # Nothing unknown hides the rest.
    unknown, known = node.NodeInfo([["rados", "pool", []], ["file", "/", []]], None)[1]
    assert unknown == {"type": "rados", "name": "pool", "storage_free": None, "storage_size": None}
    assert known["storage_free"] > 0


def test_own_addresses_and_bridges(here: Node) -> None:
    assert node.HasIpAddress("127.0.0.1")
    assert not node.HasIpAddress("192.0.2.77") and not node.HasIpAddress("no address")
    with pytest.raises(errors.RpcCallError, match=r"Missing bridges br77, \.\./\.\./etc"):
        node.BridgesExist(["br77", "../../etc"])
    node.BridgesExist([])


def test_the_hosts_file_that_changes_is_the_virtual_clusters(here: Node) -> None:
    assert node.EtcHostsModify("add", "node2.example.com", "192.0.2.2") is True
    assert "192.0.2.2 node2.example.com node2\n" in Path(pathutils.ETC_HOSTS).read_text()
    assert "node2.example.com" not in Path("/etc/hosts").read_text()
    assert node.EtcHostsModify("remove", "node2.example.com", None) is True
    assert "node2" not in Path(pathutils.ETC_HOSTS).read_text()
    with pytest.raises(errors.RpcCallError):
        node.EtcHostsModify("add", "node2.example.com", None)
    with pytest.raises(errors.RpcCallError):
        node.EtcHostsModify("remove", "node2.example.com", "192.0.2.2")


def test_the_watchers_pause(here: Node) -> None:
    assert node.GetWatcherPause() is None
    node.SetWatcherPause(1234.9)
    assert node.GetWatcherPause() == 1234
    assert os.stat(pathutils.WATCHER_PAUSE_FILE).st_mode & 0o777 == 0o644
    Path(pathutils.WATCHER_PAUSE_FILE).write_text("soon")
    with pytest.raises(errors.ParseError, match="remove it"):
        node.GetWatcherPause()
    node.SetWatcherPause(None)
    node.SetWatcherPause(None)
    assert node.GetWatcherPause() is None


def test_who_leaves_the_cluster_waits_for_the_exporter_to_write_no_more(here: Node) -> None:
    for path in (pathutils.STORE_FILE, pathutils.CLUSTER_CONF_FILE):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(path).write_text("{}")
    exporter = runtime.LockFile(pathutils.EXPORT_LOCK_FILE)
    leaving = threading.Thread(target=node.LeaveCluster, args=(False,))
    leaving.start()
    WaitUntil(lambda: not os.path.exists(pathutils.STORE_FILE), "the next round has nothing to write")
    # What a round writes that is under way goes, too.
    Path(pathutils.SsconfFile("node_list")).write_text("node1\n")
    exporter.release()
    leaving.join(60)
    assert [name for _, _, names in os.walk(pathutils.DATA_DIR) for name in names] == []


def test_a_virtual_node_resets_nobodys_machine(here: Node) -> None:
    with pytest.raises(errors.RpcCallError, match="virtual"):
        node.Powercycle("kvm", {})


def test_open_vswitch_commands() -> None:
    assert node.BuildOvs("sw1", None) == [["ovs-vsctl", "--may-exist", "add-br", "sw1"]]
    assert node.BuildOvs("sw1", "eth1")[1] == ["ovs-vsctl", "--may-exist", "add-port", "sw1", "eth1"]
    assert node.EnsureDaemon("ganeti-kvmd", True) is False


# Roles


def write_ssconf(**values: str) -> None:
    files.WriteSsconfFiles(values)


def test_a_node_that_stops_being_a_candidate_keeps_a_copy_of_the_configuration(here: Node) -> None:
    write_ssconf(master_node="node0.example.com")
    config = Path(pathutils.CLUSTER_CONF_FILE)
    config.write_text("{}")
    node.DemoteFromCandidate()
    assert not config.exists()
    assert [path.read_text() for path in config.parent.glob("config.data.backup-*")] == ["{}"]
    node.DemoteFromCandidate()
    config.write_text("{}")
    lock = pidfile.Lock(constants.MASTERD)
    with pytest.raises(errors.RpcCallError, match="runs"):
        node.DemoteFromCandidate()
    lock.release()
    write_ssconf(master_node="node1.example.com")
    with pytest.raises(errors.RpcCallError, match="master"):
        node.DemoteFromCandidate()
    assert config.exists()


def test_the_masters_name_is_known_or_not(here: Node) -> None:
    with pytest.raises(errors.RpcCallError, match="does not know a master"):
        master.MasterNodeName()
    write_ssconf(master_node="node0.example.com")
    assert master.MasterNodeName() == "node0.example.com"


PARAMS = {"uuid": "u", "ip": "192.0.2.9", "netmask": 24, "netdev": "eth0", "ip_family": 2}


def test_the_master_ip_script_gets_its_facts_and_hooks_surround_it(here: Node) -> None:
    seen = f"{here.root}/seen"
    script(pathutils.EXTERNAL_MASTER_SETUP_SCRIPT, f'echo "$1" >> {seen}; env | sort >> {seen}')
    hook = f"{pathutils.HOOKS_BASE_DIR}/master-ip-turnup"
    script(f"{hook}-pre.d/one", f'echo "pre $GANETI_MASTER_IP $GANETI_OP_CODE $GANETI_OBJECT_TYPE" >> {seen}')
    script(f"{hook}-post.d/one", f'echo "post $GANETI_HOOKS_PHASE" >> {seen}')
    master.ActivateMasterIp(PARAMS, True)
    lines = Path(seen).read_text().splitlines()
    assert lines[0] == "pre 192.0.2.9 OP_CLUSTER_IP_TURNUP CLUSTER" and lines[1] == "start" and lines[-1] == "post post"
    variables = {"MASTER_IP=192.0.2.9", "MASTER_NETDEV=eth0", "MASTER_NETMASK=24", "CLUSTER_IP_VERSION=4"}
    assert variables <= set(lines)
    assert not any(line.startswith(("HOME=", "PYTHON")) for line in lines)
    script(f"{hook}-pre.d/two", "echo no way; exit 1")
    Path(seen).unlink()
    with pytest.raises(errors.RpcCallError, match="no way"):
        master.ActivateMasterIp(PARAMS, True)
    assert "start" not in Path(seen).read_text().splitlines()


def test_a_failing_master_ip_script_is_quoted(here: Node) -> None:
    script(pathutils.EXTERNAL_MASTER_SETUP_SCRIPT, "echo device is gone; exit 1")
    with pytest.raises(errors.RpcCallError, match=r"stop the master IP 192\.0\.2\.9.*device is gone"):
        master.DeactivateMasterIp(PARAMS, True)
    with pytest.raises(errors.RpcCallError, match="ip_family"):
        master.ActivateMasterIp({"ip": "x"}, True)


def test_the_new_netmask_comes_before_the_old_one_goes() -> None:
    add, remove = master.BuildNetmaskChange(24, 32, "192.0.2.9", "eth0")
    assert add == ["ip", "address", "add", "192.0.2.9/32", "dev", "eth0", "label", "eth0:0", "preferred_lft", "0"]
    assert remove == ["ip", "address", "del", "192.0.2.9/24", "dev", "eth0"]
    assert "label" not in master.BuildNetmaskChange(24, 32, "192.0.2.9", "a-long-ifname0")[0]


def test_linux_has_no_ipv6_address_twice() -> None:
    remove, add = master.BuildNetmaskChange(64, 128, "2001:db8::9", "eth0")
    assert remove == ["ip", "address", "del", "2001:db8::9/64", "dev", "eth0"]
    assert add == ["ip", "address", "add", "2001:db8::9/128", "dev", "eth0", "preferred_lft", "0", "nodad"]


# Files


def upload(path: str, data: bytes | str, mode: int = 0o640) -> None:
    stamp = 1_600_000_000.0
    files.UploadFile([pathutils.MakeVirtualPath(path), Blob(data), mode, "root", "root", stamp, stamp])


def test_an_upload_writes_content_mode_and_time(here: Node) -> None:
    upload(pathutils.SSH_KNOWN_HOSTS_FILE, "key " * 1000)
    info = os.stat(pathutils.SSH_KNOWN_HOSTS_FILE)
    assert Path(pathutils.SSH_KNOWN_HOSTS_FILE).read_text() == "key " * 1000
    assert info.st_mode & 0o7777 == 0o640 and info.st_mtime == 1_600_000_000


def test_uploads_write_listed_files_only(here: Node) -> None:
    for path in (
        pathutils.NODED_CERT_FILE,
        pathutils.FILE_STORAGE_PATHS_FILE,
        f"{pathutils.HOOKS_BASE_DIR}/x-pre.d/y",
        f"{pathutils.DATA_DIR}/other",
    ):
        with pytest.raises(errors.RpcCallError, match="not one that a node lets the cluster write"):
            upload(path, "x")
        assert not os.path.exists(path)
    with pytest.raises(errors.RpcCallError, match="the store owns this file"):
        upload(pathutils.CLUSTER_CONF_FILE, "x")
    with pytest.raises(errors.GenericError):
        files.UploadFile(["/etc/passwd", Blob("x"), 0o644, "root", "root", 1.0, 1.0])
    with pytest.raises(errors.RpcCallError, match="user 'nobody-here' does not exist"):
        files.UploadFileSingle(
            pathutils.MakeVirtualPath(pathutils.CONFD_HMAC_KEY), Blob("x"), 0o440, "nobody-here", "root", 1.0, 1.0
        )


def test_the_administrators_own_list_adds_files(here: Node) -> None:
    extra = f"{here.root}/etc/motd"
    with pytest.raises(errors.RpcCallError):
        upload(extra, "x")
    upload(pathutils.EXTRA_FILES_LIST, f"# ours\n{extra}\nrelative\n/a/../b\n")
    assert files.ExtraFiles() == [extra]
    upload(extra, "hello")
    assert Path(extra).read_text() == "hello"


def test_password_files_of_hypervisors_may_come(here: Node) -> None:
    secret = f"{here.root}/srv/vnc"
    os.makedirs(os.path.dirname(secret), exist_ok=True)
    with pytest.raises(errors.RpcCallError):
        upload(secret, "x")
    write_ssconf(hvparams_kvm=f"vnc_password_file={secret}\nkernel_path=/boot/x")
    upload(secret, "x", 0o600)
    upload(f"{pathutils.CONF_DIR}/vnc-password-web", "y", 0o600)


def test_ssconf_files_take_lists_and_refuse_strange_names(here: Node) -> None:
    files.WriteSsconfFiles({"node_list": ["a", "b"], "cluster_name": "c"})
    assert Path(pathutils.SsconfFile("node_list")).read_text() == "a\nb\n"
    with pytest.raises(errors.GenericError, match="unknown ssconf key"):
        files.WriteSsconfFiles({"../x": "y"})


def test_file_facts_and_the_queue(here: Node) -> None:
    path = Path(here.root, "image")
    path.write_bytes(b"12345")
    assert files.FileInfo(str(path)) == [True, {"size": 5}]
    assert files.FileInfo("/none") == [False, {}]
    for name in ("jobqueue_purge", "jobqueue_update", "jobqueue_rename", "jobqueue_set_drain_flag"):
        with pytest.raises(errors.RpcCallError, match="the store owns this file"):
            files.HANDLERS[name](*PROCEDURES[name].args)


# Hooks, allocators, helpers


def test_hooks_run_in_order_with_exactly_their_environment(here: Node) -> None:
    base = f"{pathutils.HOOKS_BASE_DIR}/instance-add-pre.d"
    script(f"{base}/10good", 'echo "$GANETI_X-$HOME-$PATH"')
    script(f"{base}/20bad", "echo out; echo err >&2; exit 3")
    script(f"{base}/30quiet", "true", mode=0o644)
    script(f"{base}/40.dotted", "true")
    script(f"{base}/.hidden", "true")
    Path(f"{base}/50broken").write_text("#!/no/such/interpreter\n")
    os.chmod(f"{base}/50broken", 0o755)
    rows = programs.RunHooks("instance-add", "pre", {"GANETI_X": "1", "PATH": "/bin"})
    assert rows[0] == ["instance-add-pre.d/10good", constants.HKR_SUCCESS, "1--/bin"]
    assert rows[1][:2] == ["instance-add-pre.d/20bad", constants.HKR_FAIL] and "out" in rows[1][2]
    assert rows[2] == ["instance-add-pre.d/30quiet", constants.HKR_SKIP, ""]
    assert rows[3] == ["instance-add-pre.d/40.dotted", constants.HKR_SKIP, ""]
    assert rows[4][1] == constants.HKR_FAIL and "Hook script execution error" in rows[4][2]
    assert len(rows) == 5
    assert programs.RunHooks("nothing", "post", {}) == []
    with pytest.raises(errors.RpcCallError):
        programs.RunHooks("../../etc", "pre", {})


@pytest.mark.req("IAL-01", "IAL-04", "IAL-09", "IAL-10")
def test_an_allocator_reads_its_question_from_a_file(here: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    path = script(f"{here.root}/iallocators/mine", 'cat "$1"; shift; echo " $*"')
    monkeypatch.setattr(pathutils, "IALLOCATOR_SEARCH_PATH", (f"{here.root}/none", os.path.dirname(path)))
    assert (
        programs.RunAllocator("mine", '{"a": 1}', {"mode": "fast", "quiet": None}) == '{"a": 1} --mode=fast --quiet\n'
    )
    assert not [name for name in os.listdir(pathutils.RUN_DIR) if "iallocator" in name]
    script(path, "echo sorry; exit 1")
    with pytest.raises(
        errors.RpcCallError, match=r"iallocator module 'mine' failed: [^()]*: exit code 1, output 'sorry'$"
    ):
        programs.RunAllocator("mine", "{}", None)
    for name in ("other", "../iallocators/mine", ".."):
        with pytest.raises(errors.RpcCallError, match="not found in the search path"):
            programs.RunAllocator(name, "{}", None)


@pytest.mark.req("IAL-04", "IAL-10")
def test_an_allocator_that_cannot_be_used_says_so_in_few_words(here: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = f"{here.root}/iallocators"
    monkeypatch.setattr(pathutils, "IALLOCATOR_SEARCH_PATH", (f"{here.root}/first", folder))
    os.makedirs(f"{here.root}/first/mine")  # not a file: the next directory counts
    script(f"{folder}/mine", "echo answer")
    assert programs.RunAllocator("mine", "{}", None) == "answer\n"
    script(f"{folder}/locked", "echo answer", mode=0o644)
    with pytest.raises(errors.RpcCallError, match="iallocators/locked is not executable"):
        programs.RunAllocator("locked", "{}", None)
    endless = "head -c 11000000 /dev/zero | tr '\\0' x"
    script(f"{folder}/talker", endless)
    with pytest.raises(errors.RpcCallError, match="'talker' printed more than 10 MiB"):
        programs.RunAllocator("talker", "{}", None)
    script(f"{folder}/complainer", f"echo first; {endless} >&2; echo last >&2; exit 3")
    with pytest.raises(errors.RpcCallError, match="exit code 3") as caught:
        programs.RunAllocator("complainer", "{}", None)
    text = str(caught.value)
    assert len(text) < 35000 and "output 'first\n" in text and "characters left out" in text
    script(f"{folder}/crasher", "kill -SEGV $$")
    with pytest.raises(errors.RpcCallError, match="ended by signal 11"):
        programs.RunAllocator("crasher", "{}", None)
    monkeypatch.setattr(programs, "_CALL_TIME", 0.2)
    script(f"{folder}/sleeper", "exec sleep 1000")
    with pytest.raises(errors.RpcCallError, match=r"ended after 0\.2 seconds without a result"):
        programs.RunAllocator("sleeper", "{}", None)
    assert not [name for name in os.listdir(pathutils.RUN_DIR) if "iallocator" in name]


def test_an_out_of_band_program_answers_json_or_nothing(here: Node) -> None:
    path = script(
        f"{here.root}/oob",
        'case "$1" in power-status) echo "{\\"powered\\": true, \\"node\\": \\"$2\\"}";; '
        "health) echo rubbish;; power-on) ;; *) echo broken; exit 1;; esac",
    )
    assert programs.RunOob(path, "power-status", "node2", 60) == {"powered": True, "node": "node2"}
    assert programs.RunOob(path, "power-on", "node2", 60) is None
    with pytest.raises(errors.RpcCallError, match="did not print valid JSON"):
        programs.RunOob(path, "health", "node2", 60)
    with pytest.raises(errors.RpcCallError, match="broken"):
        programs.RunOob(path, "power-off", "node2", 60)
    script(path, "sleep 60")
    started = time.monotonic()
    with pytest.raises(errors.RpcCallError, match=r"within 0\.2 seconds"):
        programs.RunOob(path, "power-off", "node2", 0.2)
    assert time.monotonic() - started < 10


def test_restricted_commands_are_off_unless_built_in(here: Node) -> None:
    script(f"{pathutils.RESTRICTED_COMMANDS_DIR}/x", f"touch {here.root}/ran")
    os.chmod(pathutils.RESTRICTED_COMMANDS_DIR, 0o755)
    with pytest.raises(errors.RpcCallError, match=r"disabled at configure time.*--enable-restricted-commands"):
        programs.RunRestrictedCommand("x")
    assert not os.path.exists(f"{here.root}/ran")


def test_only_safe_restricted_commands_are_prepared(here: Node) -> None:
    owner = (os.getuid(), os.getgid())
    base = pathutils.RESTRICTED_COMMANDS_DIR

    def refused(name: str) -> str:
        with pytest.raises((errors.RpcCallError, OSError)) as caught:
            programs.PrepareRestrictedCommand(name, owner)
        return str(caught.value)

    assert "No such file" in refused("good")
    good = script(f"{base}/good", "true")
    os.chmod(base, 0o755)
    assert programs.PrepareRestrictedCommand("good", owner) == good
    script(f"{base}/open", "true", mode=0o775)
    script(f"{base}/dead", "true", mode=0o644)
    os.symlink("good", f"{base}/link")
    assert "775" in refused("open") and "not executable" in refused("dead") and "regular" in refused("link")
    for name in ("", "  ", "../good", "good;ls", "sub/good", "missing"):
        refused(name)
    with pytest.raises(errors.RpcCallError, match="belongs to"):
        programs.PrepareRestrictedCommand("good", (4711, 4711))
    os.chmod(base, 0o777)
    assert "777" in refused("good")


# Certificates


@pytest.mark.req("D22-X509-08", "D22-X509-18")
def test_a_transfers_certificate_comes_and_its_key_stays(here: Node) -> None:
    name, pem = certificates.CreateCertificate(30 * 86400)
    directory, key_file, cert_file = certificates.CertificateFiles(name)
    assert not x509.HasKey(pem) and Path(cert_file).read_text() == pem
    assert os.stat(key_file).st_mode & 0o777 == 0o400 and os.stat(directory).st_mode & 0o777 == 0o700
    x509.CheckKeyAndCertificate(Path(key_file).read_text() + pem)
    start, end = x509.Validity(pem)
    assert end - start <= 7 * 86400 + 600
    certificates.RemoveCertificate(name)
    assert not os.path.exists(directory)
    certificates.RemoveCertificate(name)
    for wrong in ("", "../x509-a", "x509-", "x509-a/../b", "other"):
        with pytest.raises(errors.RpcCallError, match="not a valid certificate name"):
            certificates.RemoveCertificate(wrong)


def test_the_own_digest_is_told(here: Node) -> None:
    with pytest.raises(errors.RpcCallError, match="gnt-node add --readd"):
        certificates.CryptoTokens([["ssl", "get", None]])
    pem = x509.MakeSelfSigned()[1]
    Path(pathutils.NODED_CLIENT_CERT_FILE).write_text(pem)
    assert certificates.CryptoTokens([["ssl", "get", None]]) == [["ssl", x509.Digest(pem)]]
    with pytest.raises(errors.RpcCallError, match="not supported"):
        certificates.CryptoTokens([["ssh", "get", None]])


# SSH


def test_the_host_name_check_trusts_the_clusters_key_only(here: Node) -> None:
    from ganeti import ssh

    argv = ssh.BuildCommand("node2.example.com", "true", "cluster.example.com", 2222)
    assert argv[0] == "ssh" and "-oHostKeyAlias=cluster.example.com" in argv and "-oPort=2222" in argv
    assert "-oBatchMode=yes" in argv and "-oStrictHostKeyChecking=yes" in argv
    assert argv[-2] == "root@node2.example.com"
    assert argv[-1].startswith("export GANETI_ROOTDIR=") and argv[-1].endswith("; true")
    assert sshcheck.JudgeHostName("node2.example.com", "node2.example.com\n") is None
    assert sshcheck.JudgeHostName("node2.example.com", "node2") is None
    assert "mismatch" in str(sshcheck.JudgeHostName("node2.example.com", "node20"))
    assert sshcheck.JudgeHostName("node2.example.com", "")


def test_answers_survive_the_dispatcher(here: Node) -> None:
    """What handlers return can be written as JSON."""
    from ganeti.rpc.server import Dispatcher, OpenGate

    dispatcher = Dispatcher(backend.Handlers(), OpenGate())
    status, _, body = dispatcher.Handle("/node_info", {}, b'[[["file", "/", []]], [["fake", {}]]]')
    assert status == 200 and body.startswith(b"[true,")
    assert rpc.PROCEDURES["node_info"].multi
    assert runtime.Exists("/")
