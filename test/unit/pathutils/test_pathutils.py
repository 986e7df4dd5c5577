"""Paths of a node, and of a node among several on one machine."""

import json
import os
import subprocess
import sys

import pytest

from ganeti import constants, errors, pathutils

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def _Ask(expression, **variables):
    """The value of ``expression`` in a process whose environment has the given variables; the error text on failure."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GANETI_")}
    code = f"""
import json
from ganeti import errors, pathutils
try:
    print(json.dumps({expression}))
except errors.GenericError as err:
    print(json.dumps("error: " + str(err)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment | variables, cwd=TOP, capture_output=True, text=True, timeout=60
    )
    return json.loads(done.stdout) if done.returncode == 0 else (done.returncode, done.stderr)


VIRTUAL = {"GANETI_ROOTDIR": "/srv/vc/node2", "GANETI_HOSTNAME": "node2"}


def test_package_layout():
    assert _Ask("pathutils.CLUSTER_CONF_FILE") == "/var/lib/ganeti/config.data"
    assert _Ask("pathutils.ArchivedJobFile(123456)") == "/var/lib/ganeti/queue/archive/12/job-123456"
    assert _Ask("pathutils.DaemonPidFile('ganeti-noded')") == "/var/run/ganeti/ganeti-noded.pid"
    assert _Ask("pathutils.BdevCacheFile('/dev/xenvg/lv1')") == "/var/run/ganeti/bdev-cache/bdev_xenvg_lv1"
    assert _Ask("pathutils.ETC_HOSTS") == "/etc/hosts"


def test_everything_of_a_node_moves_into_its_directory():
    names = "DATA_DIR RUN_DIR LOG_DIR LOCK_DIR CONF_DIR EXPORT_DIR BACKUP_DIR XEN_CONFIG_DIR DEFAULT_FILE_STORAGE_DIR"
    for path in _Ask(f"[getattr(pathutils, n) for n in '{names}'.split()]", **VIRTUAL):
        assert path.startswith("/srv/vc/node2/")
    assert _Ask("pathutils.OS_SEARCH_PATH[0]", **VIRTUAL) == "/srv/ganeti/os"
    assert _Ask("pathutils.HostName()", **VIRTUAL) == "node2"


def test_hosts_file_is_shared_by_the_nodes_and_host_keys_are_not():
    assert _Ask("pathutils.ETC_HOSTS", **VIRTUAL) == "/srv/vc/hosts"
    assert _Ask("pathutils.SshHostKey('rsa')[1]", **VIRTUAL) == "/srv/vc/node2/etc/ssh/ssh_host_rsa_key.pub"


@pytest.mark.parametrize(
    "variables",
    [
        {"GANETI_ROOTDIR": "/srv/vc/node2"},
        {"GANETI_HOSTNAME": "node2"},
        {"GANETI_ROOTDIR": "srv/node2", "GANETI_HOSTNAME": "node2"},
        {"GANETI_ROOTDIR": "/srv/../node2", "GANETI_HOSTNAME": "node2"},
        {"GANETI_ROOTDIR": "/srv/node1", "GANETI_HOSTNAME": "node2"},
    ],
)
def test_half_a_virtual_cluster_is_refused(variables):
    code, text = _Ask("1", **variables)
    assert code == 1
    assert text.startswith("Failure: ")
    assert "Traceback" not in text


def test_paths_travel_between_nodes():
    sent = _Ask("pathutils.MakeVirtualPath(pathutils.RAPI_CERT_FILE)", **VIRTUAL)
    assert sent == "/###-VIRTUAL-PATH-###,/var/lib/ganeti/rapi.pem"
    other = {"GANETI_ROOTDIR": "/mnt/node3", "GANETI_HOSTNAME": "node3"}
    assert _Ask(f"pathutils.LocalizeVirtualPath({sent!r})", **other) == "/mnt/node3/var/lib/ganeti/rapi.pem"


def test_hosts_file_travels_under_its_real_name():
    assert _Ask("pathutils.MakeVirtualPath(pathutils.ETC_HOSTS)", **VIRTUAL) == "/etc/hosts"
    assert _Ask("pathutils.LocalizeVirtualPath('/etc/hosts')", **VIRTUAL) == "/srv/vc/hosts"


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/###-VIRTUAL-PATH-###,etc", "/###-VIRTUAL-PATH-###,/../node1/x", "", "/srv/vc/node1/x"]
)
def test_paths_from_elsewhere_are_refused(path):
    assert _Ask(f"pathutils.LocalizeVirtualPath({path!r})", **VIRTUAL).startswith("error: ")


def test_paths_of_other_nodes_do_not_leave():
    assert _Ask("pathutils.MakeVirtualPath('/srv/vc/node1/x')", **VIRTUAL).startswith("error: ")
    assert _Ask("pathutils.MakeVirtualPath('/srv/vc/node22/x')", **VIRTUAL).startswith("error: ")


def test_place_on_a_sibling():
    assert _Ask("pathutils.ExchangeNodeRoot('node7', pathutils.NODED_CERT_FILE)", **VIRTUAL) == (
        "/srv/vc/node7/var/lib/ganeti/server.pem"
    )
    assert _Ask("pathutils.EnvironmentForHost('node7')", **VIRTUAL) == {
        "GANETI_ROOTDIR": "/srv/vc/node7",
        "GANETI_HOSTNAME": "node7",
    }


def test_outside_virtual_clusters_nothing_changes():
    if pathutils.IsVirtual():
        pytest.fail("tests run outside virtual clusters")
    assert pathutils.MakeVirtualPath("/a/../b") == "/a/../b"
    assert pathutils.LocalizeVirtualPath("/x") == "/x"
    assert pathutils.ExchangeNodeRoot("n", "/x") == "/x"
    assert pathutils.EnvironmentForHost("n") == {}
    with pytest.raises(KeyError):
        pathutils.DaemonLog("ganeti-unknown")
    assert errors.ConfigurationError.exit_code == constants.EXIT_CONFIG
