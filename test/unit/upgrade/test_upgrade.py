"""Files of 2.16 and 3.0 become files of 3.1, and back to 3.0 (doc/reference/config.md 21)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import configs

from ganeti import configfile, errors, upgrade


def _Old(version: int) -> dict[str, Any]:
    """The example as an earlier release keeps it: full sets with what that release had else."""
    data: dict[str, Any] = {}
    for key, value in configs.ExampleDict().items():
        data[key] = configs.Example().cluster.ToDict() if key == "cluster" else value
    data["version"] = version
    hvparams = data["cluster"]["hvparams"]
    hvparams["kvm"] |= {"disk_discard": "default", "vhost_net": False}
    for name in ("xen-pvm", "xen-hvm"):
        hvparams[name]["xen_cmd"] = "xm"
    data["cluster"]["os_hvp"] = {"debian": {"kvm": {"disk_discard": "default", "acpi": False}}}
    data["instances"][configs.WEB]["hvparams"] = {"disk_discard": "default", "kernel_path": ""}
    return data


@pytest.mark.parametrize("version", [2160000, 2160001, 3000000, 3000005])
def test_an_older_release_is_upgraded(version: int) -> None:
    old = _Old(version)
    new = upgrade.UpgradeConfig(old)
    assert new["version"] == 3010000
    assert new["cluster"]["hvparams"]["kvm"]["disk_discard"] == "ignore"
    assert new["cluster"]["os_hvp"] == {"debian": {"kvm": {"disk_discard": "ignore", "acpi": False}}}
    assert new["instances"][configs.WEB]["hvparams"] == {"disk_discard": "ignore", "kernel_path": ""}
    for name in ("xen-pvm", "xen-hvm"):
        assert "xen_cmd" not in new["cluster"]["hvparams"][name]
    assert new["cluster"]["hvparams"]["kvm"]["vhost_net"] is False, "a stored value is no default: it stays"
    root = configfile.LoadDict(new)
    assert configfile.StructuralProblems(root) == configfile.VerifyConfig(root) == []
    assert old == _Old(version), "the given file stays as it is"


def test_nothing_else_changes() -> None:
    new = upgrade.UpgradeConfig(_Old(2160000) | {"novelty": 1})
    old = _Old(2160000) | {"novelty": 1}
    for data in (new, old):
        data.pop("version")
        for name in ("kvm", "xen-pvm", "xen-hvm"):
            data["cluster"]["hvparams"].pop(name)
        data["cluster"].pop("os_hvp")
        data["instances"][configs.WEB].pop("hvparams")
    assert new == old


def test_an_upgraded_cluster_keeps_its_dsa_keys() -> None:
    old = _Old(2160000)
    del old["cluster"]["ssh_key_type"], old["cluster"]["ssh_key_bits"]
    cluster = configfile.LoadDict(upgrade.UpgradeConfig(old)).cluster
    assert (cluster.ssh_key_type, cluster.ssh_key_bits) == ("dsa", 1024)
    assert upgrade.UpgradeConfig(_Old(2160000))["cluster"]["ssh_key_type"] == "rsa"


def test_this_release_needs_no_changes() -> None:
    data = configs.ExampleDict()
    assert upgrade.UpgradeConfig(data) == data
    assert upgrade.UpgradeConfig(data) is not data


@pytest.mark.parametrize(
    ("version", "message", "hint"),
    [
        (1990000, r"of 1\.99 cannot be upgraded", "install the release that wrote it"),
        (2170000, r"of 2\.17 cannot be upgraded", "install the release that wrote it"),
        (3020000, r"of 3\.2 cannot be upgraded", "install the release that wrote it"),
        (None, "no version number", "another master candidate"),
        ("3000000", "no version number", "complete"),
        (True, "no version number", "complete"),
        (12, "no version number", "complete"),
    ],
)
def test_other_releases_are_refused_with_the_way_out(version: Any, message: str, hint: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=message) as caught:
        upgrade.UpgradeConfig({"version": version})
    assert caught.value.hint is not None
    assert re.search(hint, caught.value.hint)


def test_back_to_the_release_before() -> None:
    data = configs.ExampleDict()
    data["cluster"] = configs.Example().cluster.ToDict()
    old = upgrade.DowngradeConfig(data)
    assert old["version"] == 3000000
    assert [old["cluster"]["hvparams"][name]["xen_cmd"] for name in ("xen-pvm", "xen-hvm")] == ["xl", "xl"]
    assert upgrade.UpgradeConfig(old) == data, "and up again"
    with pytest.raises(errors.ConfigurationError, match=r"only a configuration of 3\.1 .* this one is of 3\.0"):
        upgrade.DowngradeConfig(old)


_JUNK = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    "cluster",
                    "hvparams",
                    "kvm",
                    "xen-pvm",
                    "os_hvp",
                    "instances",
                    "hypervisor",
                    "disks",
                    "nics",
                    "ipolicy",
                ]
            ),
            inner,
        )
    ),
    max_leaves=12,
)


@given(data=_JUNK, version=st.sampled_from([2000000, 2080000, 2120000, 2160000, 3000000, 3010000, None]))
def test_a_damaged_file_is_never_a_traceback(data: Any, version: int | None) -> None:
    if isinstance(data, dict):
        data["version"] = version
    for convert in (upgrade.UpgradeConfig, upgrade.DowngradeConfig):
        try:
            assert convert(data)["version"] in (3000000, 3010000)
        except errors.ConfigurationError:
            pass
