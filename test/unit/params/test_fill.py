"""Inheritance: the laws that hold for every kind, and what is special about each (doc/reference/config.md 15)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import configs
from support.virtualnode import TOP

from ganeti import constants, errors, objects, params
from ganeti.params import disk, hv, ipolicy, nd

_VALUES = st.integers(0, 3)


def _Keys(*names: str) -> st.SearchStrategy[dict[str, int]]:
    return st.dictionaries(st.sampled_from(names), _VALUES)


ROOT = configs.Example()
WEB = ROOT.instances[configs.WEB]


def _HV(a: dict[str, Any], b: dict[str, Any], c: dict[str, Any]) -> dict[str, Any]:
    cluster = ROOT.cluster.Replace(hvparams={"kvm": a}, os_hvp={WEB.os: {"kvm": b}})
    return params.FillHV(ROOT.Replace(cluster=cluster), WEB.Replace(hvparams=c))


def _BE(a: dict[str, Any], b: dict[str, Any], c: dict[str, Any]) -> dict[str, Any]:
    root = ROOT.Replace(cluster=ROOT.cluster.Replace(beparams={"default": a | b}))
    return params.FillBE(root, WEB.Replace(beparams=c))


def _NIC(a: dict[str, Any], b: dict[str, Any], c: dict[str, Any]) -> dict[str, Any]:
    root = ROOT.Replace(cluster=ROOT.cluster.Replace(nicparams={"default": a | b}))
    return params.FillNIC(root, WEB.nics[0].Replace(nicparams=c))


def _ND(a: dict[str, Any], b: dict[str, Any], c: dict[str, Any]) -> dict[str, Any]:
    root = ROOT.Replace(cluster=ROOT.cluster.Replace(ndparams=a))
    root = root.WithObject(root.nodegroups[configs.GROUP].Replace(ndparams=b))
    return params.FillND(root, root.nodes[configs.NODE1].Replace(ndparams=c))


def _OS(a: dict[str, Any], b: dict[str, Any], c: dict[str, Any]) -> dict[str, Any]:
    root = ROOT.Replace(cluster=ROOT.cluster.Replace(osparams={"debian": a, "debian+minimal": b}))
    return params.FillOS(root, WEB.Replace(osparams=c))


def _OSPrivate(a: dict[str, Any], b: dict[str, Any], c: dict[str, Any]) -> dict[str, Any]:
    root = ROOT.Replace(cluster=ROOT.cluster.Replace(osparams_private_cluster={"debian": a, "debian+minimal": b}))
    return params.FillOSPrivate(root, WEB.Replace(osparams_private=c))


def _Disk(a: dict[str, Any], b: dict[str, Any], c: dict[str, Any]) -> dict[str, Any]:
    root = ROOT.Replace(cluster=ROOT.cluster.Replace(diskparams={"rbd": a}))
    root = root.WithObject(root.nodegroups[configs.GROUP].Replace(diskparams={"rbd": b}))
    dev = objects.Disk(dev_type="rbd", logical_id=["rbd", "x"], size=1, uuid=configs.Uuid(1), params=c)
    filled = params.FillDisk(root, dev, configs.NODE1)
    return {k: v for k, v in filled.items() if v != disk.TEMPLATES["rbd"].defaults.get(k)}


FILLERS: list[tuple[Callable[..., dict[str, Any]], tuple[str, ...]]] = [
    (_HV, ("acpi", "boot_order", "new")),
    (_BE, ("vcpus", "minmem", "new")),
    (_NIC, ("mode", "link", "vlan")),
    (_ND, ("ovs", "ssh_port", "cpu_speed")),
    (_OS, ("a", "b", "c")),
    (_OSPrivate, ("a", "b", "c")),
    (_Disk, ("pool", "access")),
]


@pytest.mark.req(
    "D20-PAR-19", "D20-PAR-20", "D20-PAR-09", "D21-PARAM-01", "D21-PARAM-02", "D22-OSP-20", "D22-OSP-26", "D22-OSP-22"
)
@pytest.mark.parametrize(("fill", "names"), FILLERS, ids=[fill.__name__ for fill, _ in FILLERS])
@given(data=st.data())
@settings(max_examples=40)
def test_the_stronger_level_replaces_key_by_key(fill: Any, names: tuple[str, ...], data: Any) -> None:
    levels = [data.draw(_Keys(*names)) for _ in range(3)]
    assert fill(*levels) == levels[0] | levels[1] | levels[2]
    assert fill(levels[0], {}, {}) == levels[0]
    assert fill({}, {}, levels[2]) == levels[2]


@pytest.mark.req("D20-PAR-10", "D20-PAR-07")
def test_a_filled_set_is_complete_and_the_stored_one_is_not() -> None:
    assert set(params.FillHV(ROOT, WEB)) == set(hv.TABLES["kvm"])
    assert set(params.FillBE(ROOT, WEB)) == {
        "minmem", "maxmem", "vcpus", "auto_balance", "always_failover", "spindle_use"
    }  # fmt: skip
    assert WEB.ToDict()["hvparams"] == {"kernel_path": ""}
    assert WEB.ToDict()["beparams"] == {"maxmem": 512, "minmem": 512}


@pytest.mark.req("D20-PAR-11")
def test_a_changed_default_moves_only_those_without_own_value() -> None:
    own = WEB.Replace(beparams={"vcpus": 1})
    changed = ROOT.Replace(
        cluster=ROOT.cluster.Replace(beparams={"default": {**ROOT.cluster.beparams["default"], "vcpus": 4}})
    )
    assert params.FillBE(changed, own)["vcpus"] == 1
    assert params.FillBE(changed, WEB)["vcpus"] == 4


@pytest.mark.req("D21-NIC-02")
def test_changing_the_default_link_moves_nics_without_own_one() -> None:
    moved = ROOT.Replace(
        cluster=ROOT.cluster.Replace(nicparams={"default": {"mode": "bridged", "link": "br9", "vlan": ""}})
    )
    nic = WEB.nics[0]
    assert (params.FillNIC(ROOT, nic)["link"], params.FillNIC(moved, nic)["link"]) == ("br0", "br9")
    assert params.FillNIC(moved, nic.Replace(nicparams={"link": "br1"}))["link"] == "br1"


def test_os_overrides_need_the_whole_os_name() -> None:
    assert params.FillHV(ROOT, WEB)["acpi"] is False
    assert params.FillHV(ROOT, WEB.Replace(os="debian"))["acpi"] is True
    other = ROOT.Replace(cluster=ROOT.cluster.Replace(os_hvp={"debian": {"kvm": {"acpi": False}}}))
    assert params.FillHV(other, WEB)["acpi"] is True, "the bare name is not looked up for a variant"


def test_global_parameters_come_from_the_cluster_alone() -> None:
    sneaky = WEB.Replace(hvparams={"migration_port": 1})
    assert params.FillHV(ROOT, sneaky)["migration_port"] == 8102
    assert not hv.GLOBALS & params.FillHV(ROOT, sneaky, skip_globals=True).keys()
    node = ROOT.nodes[configs.NODE1].Replace(ndparams={"exclusive_storage": True})
    assert params.FillND(ROOT, node)["exclusive_storage"] is False
    group = ROOT.nodegroups[configs.GROUP].Replace(ndparams={"exclusive_storage": True})
    assert params.FillND(ROOT.WithObject(group), node)["exclusive_storage"] is True
    assert params.FillNDGroup(ROOT, group)["exclusive_storage"] is True
    (problem,) = nd.GlobalProblems({"exclusive_storage": True}, "node 'a'")
    assert "node 'a' cannot contain: exclusive_storage" in problem
    assert nd.GlobalProblems({"ovs": True}, "node 'a'") == []


def test_old_memory_in_an_instance_sets_both_limits() -> None:
    filled = params.FillBE(ROOT, WEB.Replace(beparams={"memory": 777}))
    assert (filled["minmem"], filled["maxmem"]) == (777, 777)
    assert "memory" not in filled


def test_os_parameters_of_all_visibilities() -> None:
    cluster = ROOT.cluster.Replace(
        osparams={"o": {"a": "1"}, "o+v": {"a": "2"}}, osparams_private_cluster={"o": {"p": "x"}}
    )
    merged = params.FillOSAll(cluster, "o+v", {"b": "3"}, {"q": "y"}, {"s": "z"})
    assert merged == {"a": "2", "b": "3", "p": "x", "q": "y", "s": "z"}
    assert params.FillOSAll(cluster, "other") == {}
    for public, private, secret in (
        ({"p": "1"}, {}, {}),
        ({}, {"a": "1"}, {}),
        ({}, {}, {"p": "1"}),
        ({"k": ""}, {"k": ""}, {}),
    ):
        with pytest.raises(errors.OpPrereqError, match="more than one of public, private and secret"):
            params.FillOSAll(cluster, "o", public, private, secret)


def test_policy_of_a_group() -> None:
    group = ROOT.nodegroups[configs.GROUP].Replace(ipolicy={"vcpu-ratio": 9.0, "disk-templates": ["plain"]})
    filled = params.FillIPolicy(ROOT, group)
    assert (filled["vcpu-ratio"], filled["disk-templates"]) == (9.0, ("plain",))
    assert filled["std"] == ROOT.cluster.ipolicy["std"]
    assert set(filled) == set(ipolicy.KEYS)
    assert params.FillIPolicy(ROOT, None) == ROOT.cluster.ipolicy
    merged = ipolicy.Fill(ipolicy.DEFAULTS, {"std": {"cpu-count": 2}})
    assert merged["std"] == {**ipolicy.DEFAULTS["std"], "cpu-count": 2}


# --- disks --------------------------------------------------------------------------------------------------------------


@pytest.mark.req("RM-DISK-02")
def test_names_of_a_template_become_names_of_its_devices() -> None:
    values = disk.TEMPLATES["drbd"].defaults | {
        "data-stripes": 2,
        "meta-stripes": 3,
        "disk-barriers": "bf",
        "meta-barriers": True,
    }
    own, data, meta = params.ComputeLDParams("drbd", values)
    assert data == {"stripes": 2}
    assert meta == {"stripes": 3}
    assert (own["disabled-barriers"], own["disable-meta-flush"], own["default-metavg"]) == ("bf", True, "xenvg")
    assert set(own) == {
        "resync-rate", "disabled-barriers", "disable-meta-flush", "default-metavg", "disk-custom", "net-custom", "protocol",
        "dynamic-resync", "c-plan-ahead", "c-fill-target", "c-delay-target", "c-max-rate", "c-min-rate",
    }  # fmt: skip
    assert params.ComputeLDParams("plain", {"stripes": 4}) == [{"stripes": 4}]
    assert params.ComputeLDParams("file", {}) == [{}]
    assert set(params.ComputeLDParams("gluster", disk.TEMPLATES["gluster"].defaults)[0]) == {
        "access",
        "host",
        "port",
        "volume",
    }


def test_a_disk_as_nodes_get_it() -> None:
    group = ROOT.nodegroups[configs.GROUP].Replace(diskparams={"drbd": {"data-stripes": 2, "protocol": "A"}})
    root = ROOT.WithObject(group)
    dev = root.disks[configs.WEB_DISK].Replace(params={"protocol": "B"})
    sent = params.AnnotateDisk(root, dev, configs.NODE1)
    assert sent.params["protocol"] == "B"
    assert sent.params["resync-rate"] == 61440
    assert [child.params for child in sent.children] == [{"stripes": 2}, {"stripes": 1}]
    assert dev.children[0].params == {}
    assert params.FillDisk(root, dev, configs.NODE1) == sent.params
    ext = objects.Disk(
        dev_type="ext", logical_id=["p", "v"], size=4, uuid=configs.Uuid(1), params={"provider": "p", "colour": "red"}
    )
    assert params.AnnotateDisk(root, ext, None).params == {"access": "kernelspace", "provider": "p", "colour": "red"}
    plain = dev.children[0]
    assert params.AnnotateDisk(root, plain, None).params == {"stripes": 1}


def test_disk_traits() -> None:
    """The table of properties, by set (doc/reference/config.md 16)."""
    assert tuple(disk.TEMPLATES) == constants.DISK_TEMPLATES
    assert disk.With(lvm=True) == {"plain", "drbd"}
    assert disk.With(mirror="internal") == {"drbd"}
    assert disk.With(mirror="external") == {"sharedfile", "gluster", "blockdev", "rbd", "ext", "diskless"}
    assert disk.With(file_based=True) == {"file", "sharedfile", "gluster"}
    assert disk.With(copyable=True) == {"plain", "file"}
    assert disk.With(growable=True) == {"plain", "drbd", "file", "sharedfile", "gluster", "rbd", "ext"}
    assert disk.With(name_in_path=True) == {"file", "sharedfile"}
    assert (
        disk.With(access=True)
        == {"ext", "gluster", "rbd"}
        == {n for n, t in disk.TEMPLATES.items() if "access" in t.params}
    )
    assert disk.With(space_checked=True) == {"plain", "drbd"}
    assert disk.With(convertible_from=False) == {"diskless"}
    assert disk.With(convertible_to=False) == {"diskless", "blockdev"}
    assert disk.With(snapshots=True) == {"plain", "drbd", "ext"}
    assert disk.With(adopts=None) == set(constants.DISK_TEMPLATES) - {"plain", "blockdev"}
    assert disk.With(must_adopt=True) == {"blockdev"}
    assert disk.With(exclusive_storage=True) == {"plain", "diskless"}
    assert disk.With(nodes=2) == {"drbd"}


@pytest.mark.req("RM-DISK-01")
def test_disk_parameters_by_template() -> None:
    kinds = {
        name: {key: param.type for key, param in template.params.items()} for name, template in disk.TEMPLATES.items()
    }
    assert {name for name, table in kinds.items() if not table} == {"blockdev", "diskless", "file", "sharedfile"}
    assert kinds["plain"] == {"stripes": "int"}
    assert disk.TEMPLATES["drbd"].defaults == {
        "resync-rate": 61440, "data-stripes": 1, "meta-stripes": 1, "disk-barriers": "n", "meta-barriers": False,
        "metavg": "xenvg", "disk-custom": "", "net-custom": "", "protocol": "C", "dynamic-resync": False, "c-plan-ahead": 20,
        "c-fill-target": 0, "c-delay-target": 1, "c-max-rate": 61440, "c-min-rate": 4096,
    }  # fmt: skip
    assert {key for key, kind in kinds["drbd"].items() if kind == "int"} == {
        "resync-rate", "data-stripes", "meta-stripes", "c-plan-ahead", "c-fill-target", "c-delay-target", "c-max-rate",
        "c-min-rate",
    }  # fmt: skip


@pytest.mark.req("RM-DISK-14")
def test_a_dynamic_resync_needs_a_plan() -> None:
    values = disk.TEMPLATES["drbd"].defaults | {"dynamic-resync": True}
    assert disk.SyntaxProblems("drbd", values) == []
    assert disk.SyntaxProblems("drbd", values | {"c-plan-ahead": 0}) == [
        "disk template drbd: dynamic-resync needs a c-plan-ahead above 0"
    ]
    assert disk.SyntaxProblems("drbd", disk.TEMPLATES["drbd"].defaults | {"c-plan-ahead": 0}) == []


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("resync-rate", 1, 4194304),
        ("c-plan-ahead", 0, 300),
        ("c-fill-target", 0, 1048576),
        ("c-delay-target", 1, 100),
        ("c-max-rate", 250, 4194304),
        ("c-min-rate", 0, 4194304),
    ],
)
def test_the_ranges_of_drbdsetup(name: str, low: int, high: int) -> None:
    """Those that 'drbdsetup xml-help attach' of 8.4.11 prints."""
    for value in (low, high):
        assert disk.SyntaxProblems("drbd", {name: value}) == []
    for value in (low - 1, high + 1):
        assert disk.SyntaxProblems("drbd", {name: value}), value


@pytest.mark.parametrize(
    ("name", "value"),
    [("disk-custom", "'"), ("net-custom", '--x="'), ("disk-custom", "--x\0"), ("metavg", "../x"), ("metavg", "..")],
)
def test_texts_that_no_mirror_can_be_made_with(name: str, value: str) -> None:
    assert disk.SyntaxProblems("drbd", {name: value})


def test_words_with_quotes() -> None:
    values = {"disk-custom": "--al-extents 257", "net-custom": "--verify-alg 'md5'", "metavg": "vg.meta-1"}
    assert disk.SyntaxProblems("drbd", values) == []
    assert disk.SyntaxProblems("drbd", {"disk-custom": "", "net-custom": ""}) == []


@pytest.mark.req("RM-LIM-10", "RM-DISK-04", "RM-DISK-05")
def test_the_primary_nodes_group_decides_on_disk_parameters() -> None:
    other = ROOT.nodegroups[configs.GROUP].Replace(
        uuid=configs.Uuid(3), name="other", diskparams={"drbd": {"protocol": "B", "data-stripes": 4}}
    )
    root = ROOT.WithObject(other).WithObject(ROOT.nodes[configs.NODE2].Replace(group=other.uuid))
    dev = root.disks[configs.WEB_DISK]
    assert params.AnnotateDisk(root, dev, configs.NODE1).params["protocol"] == "C"
    moved = params.AnnotateDisk(root, dev, configs.NODE2)
    assert (moved.params["protocol"], moved.children[0].params) == ("B", {"stripes": 4})


@pytest.mark.parametrize("value", ["n", "b", "f", "d", "bf", "fb", "dfb", "bfd"])
def test_barrier_letters(value: str) -> None:
    assert disk.SyntaxProblems("drbd", {"disk-barriers": value}) == []


@pytest.mark.parametrize("value", ["nb", "bb", "x", "bfdb", "B"])
def test_barrier_letters_that_are_none(value: str) -> None:
    assert disk.SyntaxProblems("drbd", {"disk-barriers": value})


# --- policy -------------------------------------------------------------------------------------------------------------


def _Violations(**changes: Any) -> list[str]:
    measures: dict[str, Any] = {
        "memory": 1024, "cpus": 2, "nics": 1, "disk_sizes": [2048], "spindles": 1, "templates": ["drbd"],
    }  # fmt: skip
    policy = changes.pop("policy", ROOT.cluster.ipolicy)
    return ipolicy.Violations(policy, **{**measures, **changes})


def test_an_instance_within_the_policy() -> None:
    assert _Violations() == []
    assert _Violations(memory=128, cpus=8) == []


@pytest.mark.req("RM-ISPEC-01", "RM-ISPEC-07", "RM-ISPEC-08", "RM-ISPEC-09", "RM-ISPEC-10", "RM-ISPEC-11")
def test_violations_are_named() -> None:
    assert _Violations(memory=64) == ["memory-size value 64 is not in range [128, 32768]"]
    assert _Violations(cpus=9) == ["cpu-count value 9 is not in range [1, 8]"]
    assert _Violations(disk_sizes=[2048, 5]) == ["disk-size/1 value 5 is not in range [1024, 1048576]"]
    assert _Violations(templates=["file"]) == ["Disk template file is not allowed (allowed templates: drbd, plain)"]
    assert _Violations(disk_sizes=[], templates=[]) == [
        "Disk template diskless is not allowed (allowed templates: drbd, plain)"
    ]
    assert _Violations(spindles=None, memory=None) == []
    assert _Violations(nics=0) == ["nic-count value 0 is not in range [1, 8]"]
    assert _Violations(nics=9) == ["nic-count value 9 is not in range [1, 8]"]
    assert _Violations(disk_sizes=[2048] * 17) == ["disk-count value 17 is not in range [1, 16]"]
    assert _Violations(spindles=13) == ["spindle-use value 13 is not in range [1, 12]"]
    # The bounds themselves are allowed.
    for end in ("min", "max"):
        bound = ipolicy.DEFAULTS["minmax"][0][end]
        sizes = [bound["disk-size"]] * bound["disk-count"]
        counts = {"nics": bound["nic-count"], "spindles": bound["spindle-use"], "disk_sizes": sizes}
        assert _Violations(memory=bound["memory-size"], cpus=bound["cpu-count"], **counts) == []


def test_one_pair_is_enough_and_else_the_nearest_is_told() -> None:
    low = {
        "min": ipolicy.DEFAULTS["minmax"][0]["min"],
        "max": {**ipolicy.DEFAULTS["minmax"][0]["max"], "memory-size": 512},
    }
    high = {"min": {**low["min"], "memory-size": 4096, "cpu-count": 4}, "max": ipolicy.DEFAULTS["minmax"][0]["max"]}
    policy = {**ipolicy.DEFAULTS, "minmax": [low, high]}
    assert _Violations(policy=policy, memory=8192, cpus=4) == []
    assert _Violations(policy=policy, memory=256) == []
    assert _Violations(policy=policy, memory=8192, cpus=2) == ["memory-size value 8192 is not in range [128, 512]"]
    assert _Violations(policy=policy, memory=1024, cpus=2) == ["memory-size value 1024 is not in range [128, 512]"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vcpu-ratio": "x"}, "vcpu-ratio"),
        ({"ram-ratio": 1.0}, "unknown instance policy key 'ram-ratio'"),
        ({"memory-ratio": 0.5}, "'memory-ratio': found '0.5', allowed is 1 to 16"),
        ({"memory-ratio": float("nan")}, "'memory-ratio': found 'nan'"),
        ({"memory-ratio": None}, "'memory-ratio' must be a number"),
        ({"max-node-failures": 0}, "'max-node-failures': found '0', allowed is 1 to 3"),
        ({"max-node-failures": 1.5}, "'max-node-failures' must be a whole number"),
        ({"disk-templates": ["tape"]}, "tape"),
        ({"disk-templates": []}, "not empty"),
        ({"minmax": [{"min": {}}]}, "exactly the keys"),
        ({"minmax": [{"min": {}, "max": {}}]}, "missing memory-size"),
        ({"minmax": [{"min": {"memory-size": "1"}, "max": {}}]}, "must be a whole number"),
        ({"minmax": 5}, "must be a list"),
        ({"minmax": [5]}, "exactly the keys"),
        ({"std": 5}, "std must be an object"),
        ({"std": {"cpu-count": 1}}, "missing"),
    ],
)
def test_wrong_policies(change: dict[str, Any], message: str) -> None:
    assert message in "; ".join(ipolicy.SyntaxProblems({**ipolicy.DEFAULTS, **change}, is_group=False))
    assert ipolicy.SyntaxProblems(ipolicy.DEFAULTS, is_group=False) == []


def test_bounds_and_the_standard_agree() -> None:
    [pair] = ipolicy.DEFAULTS["minmax"]
    least, most = pair["min"], pair["max"]

    def problems(low: dict[str, Any], high: dict[str, Any], std: dict[str, Any]) -> str:
        policy = {**ipolicy.DEFAULTS, "minmax": [{"min": low, "max": high}], "std": std}
        return "; ".join(ipolicy.SyntaxProblems(policy, is_group=False))

    assert problems(most, most, most) == problems(least, most, most) == "", "one size may be all that there is"
    crossed = problems({**least, "cpu-count": 9}, most, least)
    assert crossed == "instance policy: cpu-count of minmax number 0 has min 9 above max 8"
    for size in (least["memory-size"] - 1, most["memory-size"] + 1):
        outside = problems(least, most, {**least, "memory-size": size})
        assert outside == (
            "instance policy: std lies within none of the min/max pairs:"
            f" memory-size {size} is not in {least['memory-size']} to {most['memory-size']}"
        )


def test_only_a_group_lifts_the_memory_ratio() -> None:
    lifted = {"memory-ratio": ipolicy.LIFTED}
    assert ipolicy.SyntaxProblems(lifted, is_group=True) == []
    [problem] = ipolicy.SyntaxProblems({**ipolicy.DEFAULTS, **lifted}, is_group=False)
    assert "'memory-ratio': found '0'" in problem
    weaker = {**ipolicy.DEFAULTS, "memory-ratio": 2.0}
    assert ipolicy.Fill(weaker, {})["memory-ratio"] == 2.0
    assert ipolicy.Fill(weaker, lifted) == ipolicy.DEFAULTS


def test_a_group_has_no_std() -> None:
    assert ipolicy.SyntaxProblems({"vcpu-ratio": 2.0}, is_group=True) == []
    (problem,) = ipolicy.SyntaxProblems({"std": ipolicy.DEFAULTS["std"]}, is_group=True)
    assert "unknown instance policy key 'std'" in problem
    assert any("is missing" in text for text in ipolicy.SyntaxProblems({"vcpu-ratio": 2.0}, is_group=False))


@pytest.mark.req("RM-DISK-25")
def test_of_every_disk_parameter_it_is_documented_when_a_change_takes_effect() -> None:
    with open(os.path.join(TOP, "doc", "storage.rst"), encoding="utf-8") as stream:
        table = stream.read().partition("\nParameter  ")[2].split("\n====")[1]
    documented: dict[str, str] = {}
    cells = ["", ""]
    for line in table.splitlines()[1:]:
        # A row that begins with "template:" is a new one, else it goes on in both cells.
        cells = (
            [line[:60], line[60:]] if ": " in line[:20] else [f"{cells[0].rstrip()} {line[:60]}", cells[1] + line[60:]]
        )
        for group in cells[0].split(";"):
            names, _, params = group.partition(":")
            for name in names.split(","):
                documented.update(
                    {
                        f"{name.strip()}: {param.strip()}": cells[1].strip()
                        for param in params.split(",")
                        if param.strip()
                    }
                )
    for name, template in disk.TEMPLATES.items():
        for param in template.params:
            assert documented.get(f"{name}: {param}"), f"{name}: {param}"
    wrong = [key for key in documented if key.split(": ")[1] not in disk.TEMPLATES[key.split(": ")[0]].params]
    assert wrong == []
