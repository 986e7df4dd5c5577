"""Scripts of an operating system run for real: what they see, where they write, what happens when they fail."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.nodes import Node
from support.virtual import MakeDisk, MakeInstance, MakeNic, MakeUuid

from ganeti import errors, pathutils
from ganeti.backend import wire
from ganeti.backend.guestos import osdef, osrun
from ganeti.storage import tree

SHOW = '#!/bin/sh\nenv | sort > "$OUT"\npwd >> "$OUT"\numask >> "$OUT"\n'


class System:
    """One definition, one instance with a disk and NICs, on one node."""

    def __init__(self, base: Path, api: str = "20\n"):
        self.base = base
        self.path = base / "os" / "tiny"
        self.path.mkdir(parents=True)
        (self.path / "ganeti_api_version").write_text(api)
        (self.path / "parameters.list").write_text("out where to write\nsize how large\nfs-type which\n")
        (self.path / "variants.list").write_text("one\ntwo\n")
        for name in ("create", "import", "export", "rename", "verify"):
            self.Script(name, "#!/bin/sh\nexit 0\n")
        disk = MakeDisk("file", ["loop", f"{base}/disks/d0"], name="root", mode="ro")
        network = {"name": "lan", "network": "192.0.2.0/24", "gateway": "192.0.2.1", "tags": ["a", "b"]}
        nics = [
            MakeNic(0, ip="192.0.2.7", name="eth", network=MakeUuid("lan"), netinfo=network),
            MakeNic(1, mode="routed", link="main"),
        ]
        self.instance = MakeInstance(
            disks=[disk],
            nics=nics,
            os="tiny+two",
            hypervisor="kvm",
            hvparams={"disk_type": "paravirtual", "nic_type": "e1000", "acpi": True, "root_path": None},
            osparams={"out": f"{base}/out", "fs-type": "ext4"},
            secondary_nodes=[MakeUuid("s1"), MakeUuid("s2")],
        )
        (base / "disks").mkdir()

    def Script(self, name: str, text: str) -> None:
        (self.path / name).write_text(text)
        (self.path / name).chmod(0o755)

    def Show(self, name: str) -> None:
        self.Script(name, SHOW.replace("$OUT", f"{self.base}/out"))

    def Data(self, **changes: Any) -> dict[str, Any]:
        return self.instance.Replace(**changes).ToDict(runtime=True)

    def Seen(self) -> tuple[dict[str, str], str, str]:
        """(environment, working directory, umask) of the last script that ``Show`` wrote."""
        *lines, directory, mask = (self.base / "out").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line), directory, mask


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    node = Node(tmp_path, "node1", [tmp_path / "os"])
    with node:
        made = System(tmp_path)
        node.AllowFileStorage(tmp_path / "disks")
        [disk] = wire.InstanceDisks(made.instance)
        tree.Create(disk, 8, made.instance.name, True)
        yield made


SHELL_OWN = {"PWD", "SHLVL", "_", "OLDPWD"}


@pytest.mark.req(
    "D20-OS-09",
    "D20-OS-10",
    "D20-OS-11",
    "D20-VAR-04",
    "D21-OS-04",
    "D21-OS-06",
    "D21-OS-10",
    "D22-OSP-12",
)
def test_create_sees_all_of_the_instance(system: System) -> None:
    system.Show("create")
    osrun.Add(system.Data(), False, 2)
    env, directory, mask = system.Seen()
    uuid = system.instance.uuid
    disk = wire.InstanceDisks(system.instance)[0].uuid
    nics = [nic.uuid for nic in system.instance.nics]
    assert directory == str(system.path)
    assert mask == "0022"
    assert {name: value for name, value in env.items() if name not in SHELL_OWN} == {
        "PATH": "/sbin:/bin:/usr/sbin:/usr/bin",
        "OS_API_VERSION": "20",
        "OS_NAME": "tiny",
        "OS_VARIANT": "two",
        "DEBUG_LEVEL": "2",
        "OSP_OUT": f"{system.base}/out",
        "OSP_FS_TYPE": "ext4",
        "INSTANCE_NAME": "guest.example.com",
        "INSTANCE_OS": "tiny+two",
        "INSTANCE_UUID": uuid,
        "INSTANCE_CTIME": "1.5",
        "INSTANCE_MTIME": "2.5",
        "INSTANCE_PRIMARY_NODE": MakeUuid("node a"),
        "INSTANCE_SECONDARY_NODES": f"{MakeUuid('s1')} {MakeUuid('s2')}",
        "HYPERVISOR": "kvm",
        "DISK_COUNT": "1",
        "NIC_COUNT": "2",
        "DISK_0_PATH": f"{system.base}/disks/d0",
        "DISK_0_ACCESS": "ro",
        "DISK_0_UUID": disk,
        "DISK_0_NAME": "root",
        "DISK_0_SIZE": "8",
        "DISK_0_FRONTEND_TYPE": "paravirtual",
        "DISK_0_BACKEND_TYPE": "file:loop",
        "NIC_0_MAC": "aa:00:00:00:00:00",
        "NIC_0_UUID": nics[0],
        "NIC_0_NAME": "eth",
        "NIC_0_IP": "192.0.2.7",
        "NIC_0_MODE": "bridged",
        "NIC_0_LINK": "br0",
        "NIC_0_BRIDGE": "br0",
        "NIC_0_FRONTEND_TYPE": "e1000",
        "NIC_0_NETWORK_NAME": "lan",
        "NIC_0_NETWORK_UUID": MakeUuid("lan"),
        "NIC_0_NETWORK_TAGS": "a b",
        "NIC_0_NETWORK_SUBNET": "192.0.2.0/24",
        "NIC_0_NETWORK_GATEWAY": "192.0.2.1",
        "NIC_1_MAC": "aa:00:00:00:00:01",
        "NIC_1_UUID": nics[1],
        "NIC_1_MODE": "routed",
        "NIC_1_LINK": "main",
        "NIC_1_FRONTEND_TYPE": "e1000",
        "INSTANCE_BE_minmem": "64",
        "INSTANCE_BE_maxmem": "128",
        "INSTANCE_BE_vcpus": "1",
        "INSTANCE_BE_auto_balance": "True",
        "INSTANCE_HV_disk_type": "paravirtual",
        "INSTANCE_HV_nic_type": "e1000",
        "INSTANCE_HV_acpi": "True",
        "INSTANCE_HV_root_path": "None",
    }


def test_reinstallation_is_told(system: System) -> None:
    system.Show("create")
    osrun.Add(system.Data(), True, 0)
    assert system.Seen()[0]["INSTANCE_REINSTALL"] == "1"


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        pytest.param("$#", "0", marks=pytest.mark.req("D20-OS-01"), id="no arguments"),
        pytest.param("$OSP_FS_TYPE", "ext4", marks=pytest.mark.req("D22-OSP-18"), id="the parameters"),
    ],
)
def test_what_every_script_gets(system: System, words: str, wanted: str) -> None:
    kinds = ("create", "rename", "export", "import")
    for name in kinds:
        system.Script(name, f'#!/bin/sh\necho "{name} {words}" >> {system.base}/out\n')
    [disk] = wire.InstanceDisks(system.instance)
    osrun.Add(system.Data(), False, 0)
    osrun.RunRename(system.Data(), "old.example.com", 0)
    for kind in (osdef.EXPORT, osdef.IMPORT):
        _Run(osrun.TransferCommand(kind, system.instance, disk, 0))
    assert (system.base / "out").read_text().splitlines() == [f"{name} {wanted}" for name in kinds]


@pytest.mark.req("D20-OS-12")
def test_rename_knows_the_old_name(system: System) -> None:
    system.Show("rename")
    osrun.RunRename(system.Data(), "old.example.com", 0)
    assert system.Seen()[0]["OLD_INSTANCE_NAME"] == "old.example.com"
    [log] = Path(pathutils.LOG_OS_DIR).iterdir()
    assert log.name.startswith("rename-tiny+two-old.example.com-guest.example.com-")


@pytest.mark.req("D21-OS-02")
def test_old_api_sees_only_what_it_had(tmp_path: Path) -> None:
    node = Node(tmp_path, "node1", [tmp_path / "os"])
    with node:
        system = System(tmp_path, api="10\n")
        node.AllowFileStorage(tmp_path / "disks")
        tree.Create(wire.InstanceDisks(system.instance)[0], 8, "x", True)
        system.Show("create")
        osrun.Add(system.Data(), False, 0)
        env = system.Seen()[0]
    assert set(env) - SHELL_OWN == {
        *("PATH", "OS_API_VERSION", "OS_NAME", "DEBUG_LEVEL", "INSTANCE_NAME", "HYPERVISOR", "DISK_COUNT", "NIC_COUNT"),
        *("DISK_0_PATH", "DISK_0_ACCESS", "DISK_0_FRONTEND_TYPE", "DISK_0_BACKEND_TYPE"),
        *("NIC_0_MAC", "NIC_0_IP", "NIC_0_BRIDGE", "NIC_0_FRONTEND_TYPE", "NIC_1_MAC", "NIC_1_FRONTEND_TYPE"),
    }


def test_failure_shows_the_end_of_the_log(system: System) -> None:
    system.Script("create", "#!/bin/sh\nfor n in $(seq 50); do echo line $n; done\necho 'no space' >&2\nexit 3\n")
    with pytest.raises(errors.RpcCallError) as caught:
        osrun.Add(system.Data(), False, 0)
    text = str(caught.value)
    assert "OS create script failed" in text and "exit code 3" in text
    assert text.endswith("line 50\nno space") and "line 32" in text and "line 31" not in text
    [log] = Path(pathutils.LOG_OS_DIR).iterdir()
    assert str(log) in text
    assert log.name.startswith("add-tiny+two-guest.example.com-")


def test_inactive_disk_stops_the_script(system: System) -> None:
    tree.Remove(wire.InstanceDisks(system.instance)[0])
    system.Show("create")
    with pytest.raises(errors.BlockDeviceError, match="not active on this node"):
        osrun.Add(system.Data(), False, 0)
    assert not (system.base / "out").exists()


@pytest.mark.req("D20-OS-19")
def test_wrong_hypervisor_stops_the_script(system: System) -> None:
    (system.path / "hypervisors").write_text("xen-pvm\n")
    system.Show("create")
    with pytest.raises(osdef.OsError, match="does not support hypervisor kvm"):
        osrun.Add(system.Data(), False, 0)
    assert not (system.base / "out").exists()


@pytest.mark.req("D21-OS-14")
def test_script_may_refuse_a_forced_variant(system: System) -> None:
    system.Script("create", '#!/bin/sh\necho "unknown variant $OS_VARIANT" >&2\nexit 1\n')
    with pytest.raises(errors.RpcCallError, match="unknown variant odd"):
        osrun.Add(system.Data(os="tiny+odd"), False, 0)


def test_first_variant_is_the_default(system: System) -> None:
    system.Show("create")
    osrun.Add(system.Data(os="tiny"), False, 0)
    assert system.Seen()[0]["OS_VARIANT"] == "one"


# --- checks -----------------------------------------------------------------------------------------------------------


@pytest.mark.req("D22-OSP-13", "D22-OSP-14", "D22-OSP-15")
def test_verify_judges_parameters_without_an_instance(system: System) -> None:
    assert osrun.Validate(True, "tiny+one", ["parameters"], {"out": f"{system.base}/out", "size": "big"}, False) is True
    system.Script("verify", f"#!/bin/sh\nenv > {system.base}/out; echo checked $1; echo bad size >&2; exit 1\n")
    with pytest.raises(osdef.OsError, match="checked parameters\nbad size"):
        osrun.Validate(True, "tiny+one", ["parameters"], {"size": "big"}, False)
    seen = (system.base / "out").read_text()
    assert "OSP_SIZE=big" in seen and "OS_VARIANT=one" in seen and "INSTANCE_" not in seen and "DISK_" not in seen


def test_unknown_parameters_are_named(system: System) -> None:
    with pytest.raises(osdef.OsError, match="not supported by the OS tiny: color; it has out, size, fs-type"):
        osrun.Validate(True, "tiny+one", ["parameters"], {"color": "red", "size": "1"}, False)


@pytest.mark.parametrize("trusted", [True, False], ids=["both scripts", "only the other"])
def test_an_untrusted_script_never_runs_on_a_node(system: System, trusted: bool) -> None:
    """Nor does the other one of such a definition; all else of it is used."""
    for name in ("create", "create_untrusted"):
        system.Script(name, f"#!/bin/sh\ntouch {system.base}/ran\n")
    if not trusted:
        (system.path / "create").unlink()
    with pytest.raises(
        errors.RpcCallError, match="'create_untrusted' now, so it is installed in a helper VM and never on a node"
    ):
        osrun.Add(system.Data(), False, 0)
    assert not (system.base / "ran").exists()
    assert osrun.Validate(True, "tiny+one", ["import"], {}, False) is True


@pytest.mark.req("D21-OS-13")
def test_absent_system_and_forced_variant(system: System) -> None:
    assert osrun.Validate(False, "none", ["parameters"], {"x": "1"}, False) is False
    with pytest.raises(osdef.OsError, match="not found"):
        osrun.Validate(True, "none", ["parameters"], {}, False)
    with pytest.raises(osdef.OsError, match="Unsupported OS variant"):
        osrun.Validate(True, "tiny+odd", [], {}, False)
    assert osrun.Validate(True, "tiny+odd", [], {}, True) is True


@pytest.mark.req("D20-OS-03")
def test_whoever_needs_a_script_can_ask_for_it_before(system: System) -> None:
    assert osrun.Validate(False, "tiny+one", ["export"], {}, True) and osrun.Validate(
        False, "tiny+one", ["import"], {}, True
    )
    for script in ("export", "import"):
        (system.path / script).unlink()
    for script in ("export", "import"):
        with pytest.raises(osdef.OsError, match=f"OS tiny has no {script} script"):
            osrun.Validate(False, "tiny+one", [script], {}, True)


@pytest.mark.parametrize("variant", ["../../../tmp/evil", ".hidden", "a b", "a/b", "a\nb"])
def test_a_forced_variant_leads_no_script_astray(system: System, variant: str) -> None:
    """Scripts of systems read a file with the variant's name."""
    with pytest.raises(osdef.OsError, match="is not a valid name for a variant of OS tiny"):
        osrun.Validate(True, f"tiny+{variant}", [], {}, True)
    with pytest.raises(osdef.OsError, match="is not a valid name for a variant of OS tiny"):
        osrun.Add(system.Data(os=f"tiny+{variant}"), False, 0)


@pytest.mark.req("D20-OS-03")
@pytest.mark.parametrize("script", ["create", "rename"])
def test_an_operation_whose_script_is_missing_fails(system: System, script: str) -> None:
    """A script that is missing is not one that does nothing."""
    guest = MakeInstance(os="tiny+one").ToDict(runtime=True)
    operation = {"create": lambda: osrun.Add(guest, False, 0), "rename": lambda: osrun.RunRename(guest, "old", 0)}[
        script
    ]
    system.Script(script, "#!/bin/sh\nexit 0\n")
    operation()
    (system.path / script).unlink()
    with pytest.raises(osdef.OsError, match=f"{script} script"):
        operation()


def test_parameters_without_a_verify_script_are_refused(system: System) -> None:
    (system.path / "verify").unlink()
    assert osrun.Validate(True, "tiny+one", ["parameters"], {}, False) is True
    with pytest.raises(osdef.OsError, match="no verify script"):
        osrun.Validate(True, "tiny+one", ["parameters"], {"size": "1"}, False)


# --- transfer ---------------------------------------------------------------------------------------------------------


def _Run(command: tuple[str, dict[str, str]], data: bytes = b"") -> bytes:
    fragment, env = command
    return subprocess.run(["bash", "-c", fragment], env=env, input=data, check=True, capture_output=True).stdout


@pytest.mark.req("D20-OS-13", "D20-OS-14", "D20-OS-16")
def test_export_writes_and_import_reads_one_disk(system: System) -> None:
    system.Script("export", '#!/bin/sh\necho starting >&2\ncat "$EXPORT_DEVICE"\n')
    system.Script("import", '#!/bin/sh\npwd >&2\ncat > "$IMPORT_DEVICE"\n')
    [disk] = wire.InstanceDisks(system.instance)
    Path(disk.logical_id[1]).write_bytes(b"content")
    export = osrun.TransferCommand(osdef.EXPORT, system.instance, disk, 0)
    assert _Run(export) == b"content"
    assert export[1]["EXPORT_INDEX"] == "0" and export[1]["EXPORT_DISK_PATH"] == disk.logical_id[1]
    _Run(osrun.TransferCommand(osdef.IMPORT, system.instance, disk, 0), b"other")
    assert Path(disk.logical_id[1]).read_bytes() == b"other"


def test_snapshot_is_exported_beside_the_disk(system: System) -> None:
    snapshot = MakeDisk("file", ["loop", f"{system.base}/disks/snap"])
    tree.Create(snapshot, 4, "x", True)
    [disk] = wire.InstanceDisks(system.instance)
    _, env = osrun.TransferCommand(osdef.EXPORT, system.instance, snapshot, 0)
    assert env["EXPORT_DEVICE"] == snapshot.logical_id[1] and env["DISK_0_PATH"] == disk.logical_id[1]


def test_wrong_objects_are_refused_in_words() -> None:
    with pytest.raises(errors.RpcCallError, match="Instance in the call's arguments: instance 'x'"):
        osrun.Add({"name": "x"}, False, 0)


@pytest.mark.req("D20-OS-15", "D22-OSP-05")
def test_manual_describes_every_variable(system: System) -> None:
    """Every variable that a script can get stands in ganeti-os-interface(7)."""
    manual = (Path(__file__).parents[3] / "man" / "ganeti-os-interface.7.rst").read_text()
    plain = manual.replace("``\\ *N*\\ ``", "N").replace("``\\ *name*", "name").replace("``\\ *NAME*", "NAME")
    [disk] = wire.InstanceDisks(system.instance)
    seen = {"EXP_SIZE_FD", "INSTANCE_REINSTALL", "OLD_INSTANCE_NAME", "DISK_0_URI", "NIC_0_IP"}
    for kind in (osdef.IMPORT, osdef.EXPORT):
        seen |= set(osrun.TransferCommand(kind, system.instance, disk, 0)[1])
    for name in sorted(seen):
        shown = re.sub(r"^(DISK|NIC)_\d+_", r"\1_N_", name)
        for prefix, pattern in (("INSTANCE_BE_", "name"), ("INSTANCE_HV_", "name"), ("OSP_", "NAME")):
            if shown.startswith(prefix):
                shown = prefix + pattern
        if shown.startswith("NIC_N_NETWORK_") and shown != "NIC_N_NETWORK_NAME":
            shown = "``" + shown.removeprefix("NIC_N_NETWORK") + "``"
        assert shown in plain, name
    assert "Increase it with every change" in plain
