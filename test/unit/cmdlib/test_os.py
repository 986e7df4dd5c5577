"""Operating systems that are hidden, blacklisted, or have variants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.master import Master
from support.writers import InFiles

from ganeti import errors, opcodes

WEB = "web.example.org"
NEW = "new.example.org"


@pytest.fixture
def stopped(make: Callable[..., Master]) -> Master:
    """The example's instance has its disk in a file and is stopped; its system is debian+minimal."""
    return make(2, change=InFiles, prepare=lambda master: master.Run(opcodes.OpInstanceShutdown(instance_name=WEB)))


def _List(master: Master, *fields: str) -> dict[str, list[Any]]:
    rows = master.Run(opcodes.OpOsDiagnose(output_fields=["name", *fields], names=[]))
    return {name: values for name, *values in rows}


def _Set(master: Master, **lists: Any) -> None:
    master.Run(opcodes.OpClusterSetParams(**lists))


def _Create(master: Master, os_type: str, **more: Any) -> None:
    master.Run(
        opcodes.OpInstanceCreate(
            **{
                "instance_name": NEW, "mode": "create", "disk_template": "file", "disks": [{"size": 1024}], "nics": [{}],
                "os_type": os_type, "pnode": "node1", "start": False, **more,
            }
        )
    )  # fmt: skip


@pytest.mark.req("D22-OSST-01", "D22-OSST-02", "D22-OSST-03")
def test_the_cluster_has_two_lists_that_take_any_name(master: Master) -> None:
    _Set(master, hidden_os=[["add", "ghost"]], blacklisted_os=[["add", "ghost"], ["add", "noop"]])
    cluster = master.snapshot.cluster
    assert (cluster.hidden_os, cluster.blacklisted_os) == (("ghost",), ("ghost", "noop"))
    _Set(master, hidden_os=[["remove", "ghost"]], blacklisted_os=[["remove", "noop"]])
    cluster = master.snapshot.cluster
    assert (cluster.hidden_os, cluster.blacklisted_os) == ((), ("ghost",))


@pytest.mark.req("D22-OSST-04", "D22-OSST-06", "D21-OS-12")
def test_lists_leave_out_what_is_hidden_or_blacklisted_unless_the_state_is_asked_for(master: Master) -> None:
    assert _List(master, "variants") == {"debian": [["full", "minimal"]], "noop": [[]]}
    _Set(master, hidden_os=[["add", "noop"]])
    assert set(_List(master)) == {"debian"}
    assert _List(master, "hidden") == {"debian": [False], "noop": [True]}
    _Set(master, hidden_os=[["remove", "noop"]], blacklisted_os=[["add", "debian"]])
    assert set(_List(master)) == {"noop"} == set(_List(master, "hidden"))
    assert _List(master, "blacklisted") == {"debian": [True], "noop": [False]}


@pytest.mark.req("D22-OSST-05")
def test_a_hidden_system_works_as_any_other(stopped: Master) -> None:
    _Set(stopped, hidden_os=[["add", "debian"]])
    _Create(stopped, "debian+full")
    stopped.Run(opcodes.OpInstanceReinstall(instance_name=NEW))
    stopped.Run(opcodes.OpInstanceRename(instance_name=NEW, new_name="other.example.org"))
    assert [(name, again) for name, again, _ in stopped[0].installed] == [(NEW, False), (NEW, True)]
    assert stopped[0].renamed == [NEW]


@pytest.mark.req("D22-OSST-07")
def test_no_new_instance_has_a_blacklisted_system(stopped: Master) -> None:
    _Set(stopped, blacklisted_os=[["add", "debian"]])
    for name in ("debian+minimal", "debian+full"):
        with pytest.raises(errors.OpPrereqError, match="not allowed for installation") as caught:
            _Create(stopped, name)
        assert caught.value.args[1] == errors.ECODE_STATE
    assert stopped.snapshot.InstanceByName(NEW) is None and "blockdev_create" not in stopped[0].calls
    _Create(stopped, "noop")


def test_an_existing_instance_keeps_its_blacklisted_system(stopped: Master) -> None:
    _Set(stopped, blacklisted_os=[["add", "debian"]])
    stopped.Run(opcodes.OpInstanceReinstall(instance_name=WEB))
    stopped.Run(opcodes.OpInstanceRename(instance_name=WEB, new_name=NEW))
    assert [(name, again) for name, again, _ in stopped[0].installed] == [(WEB, True)]
    assert stopped[0].renamed == [WEB]


@pytest.mark.req("D22-OSST-10")
def test_a_single_variant_can_be_blacklisted(stopped: Master) -> None:
    _Set(stopped, blacklisted_os=[["add", "debian+full"]])
    with pytest.raises(errors.OpPrereqError, match="not allowed for installation"):
        _Create(stopped, "debian+full")
    _Create(stopped, "debian+minimal")
    assert stopped.Instance(NEW).os == "debian+minimal"


@pytest.mark.req("D21-OS-11")
def test_the_variant_is_chosen_at_creation_and_changed_by_an_installation(stopped: Master) -> None:
    _Create(stopped, "debian+full")
    assert stopped.Instance(NEW).os == "debian+full"
    stopped.Run(opcodes.OpInstanceReinstall(instance_name=NEW, os_type="debian+minimal"))
    assert stopped.Instance(NEW).os == "debian+minimal"
    assert stopped[0].arguments["instance_os_add"][0]["os"] == "debian+minimal"


@pytest.mark.req("D21-OS-05")
def test_the_hypervisor_of_an_instance_stays() -> None:
    assert "hypervisor" in opcodes.OpInstanceCreate.OP_PARAMS
    assert not {"hypervisor", "hvtype"} & set(opcodes.OpInstanceSetParams.OP_PARAMS)


@pytest.mark.req("D22-OSP-16")
def test_the_definition_judges_the_clusters_own_parameters(master: Master) -> None:
    seen: list[str] = []

    def verify(invocation: Any) -> int:
        seen.append(invocation.env["OSP_A"])
        invocation.Complain("no such size\n")
        return 1

    master[0].machine.programs["/srv/ganeti/os/debian/verify"] = verify
    before = master.snapshot
    with pytest.raises(errors.OpPrereqError, match="no such size"):
        _Set(master, osparams={"debian": {"a": "huge"}})
    assert seen == ["huge"] and master.snapshot is before


@pytest.mark.req("D22-OSP-08")
def test_values_of_parameters_are_free_text(stopped: Master) -> None:
    odd = "two words, a='quoted' = and ünïcode"
    stopped.Run(opcodes.OpInstanceReinstall(instance_name=WEB, osparams={"a": odd}))
    assert stopped[0].installed[-1][2]["a"] == odd
    assert stopped.Instance(WEB).osparams["a"] == odd
