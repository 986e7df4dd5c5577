"""NIC and node parameters (doc/reference/parameters.md 3 and 4)."""

from __future__ import annotations

from typing import Any

import pytest

from ganeti.params import nd, nic


@pytest.mark.parametrize(
    "values",
    [
        {"mode": "bridged", "link": "br0", "vlan": ""},
        {"mode": "routed", "link": "", "vlan": ""},
        {"mode": "routed", "link": "100", "vlan": ""},
        {"mode": "bridged", "link": "br-lan.100@eth0:1", "vlan": ""},
        {"mode": "openvswitch", "link": "switch1", "vlan": ".5"},
        {"mode": "openvswitch", "link": "switch1", "vlan": ":5:6"},
        {"mode": "bridged", "link": "br0", "vlan": ".5:6:7"},
    ],
)
def test_good_nics(values: dict[str, Any]) -> None:
    assert nic.SyntaxProblems(values) == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"mode": "", "link": "x"}, "'mode': it must not be empty"),
        ({"mode": "tunnel", "link": "x"}, "'mode': found 'tunnel'"),
        ({"mode": "auto", "link": "x"}, "'mode'"),
        ({"mode": "bridged", "link": ""}, "a NIC in mode bridged needs a link"),
        ({"mode": "bridged", "link": "br0\nX=1"}, "'link': found"),
        ({"mode": "bridged", "link": "br 0"}, "'link': found"),
        ({"mode": "bridged", "link": "-h"}, "'link': found"),
        ({"mode": "bridged", "link": "../br0"}, "'link': found"),
        ({"mode": "bridged", "link": "br0\0"}, "'link': found"),
        ({"mode": "bridged", "link": "x" * 256}, "'link': found"),
        ({"mode": "routed", "link": "", "vlan": "5"}, "'vlan'"),
        ({"mode": "routed", "link": "", "vlan": ".0"}, "'vlan'"),
        ({"mode": "routed", "link": "", "vlan": ".4095"}, "'vlan'"),
        ({"mode": "routed", "link": "", "vlan": ":"}, "'vlan'"),
    ],
)
def test_bad_nics(values: dict[str, Any], message: str) -> None:
    assert message in "; ".join(nic.SyntaxProblems(values))


def test_a_bare_vlan_is_an_access_port() -> None:
    assert [nic.NormalizeVlan(value) for value in ("5", ".5", ":5", "", "x")] == [".5", ".5", ":5", "", "x"]


@pytest.mark.req("D21-PARAM-03", "D20-PAR-05")
def test_what_is_unique_has_no_common_default() -> None:
    assert set(nic.TABLE) == {"mode", "link", "vlan"}


def test_declared_state_of_nodes() -> None:
    assert set(nd.HV_STATE_DEFAULTS) == {"cpu_node", "cpu_total", "mem_hv", "mem_node", "mem_total"}
    assert nd.DISK_STATE_DEFAULTS == {"disk_overhead": 0, "disk_reserved": 0, "disk_total": 0}
    assert nd.DISK_STATE_TYPES == ("plain",)


def test_node_parameters() -> None:
    assert nd.SyntaxProblems(nd.DEFAULTS) == []
    assert nd.SyntaxProblems({"cpu_speed": -1.0}) == [
        "node parameter 'cpu_speed': found '-1.0', allowed is more than 0"
    ]
    assert nd.SyntaxProblems({"oob_program": "x"})
    assert nd.SyntaxProblems({"ssh_port": 0}) == ["node parameter 'ssh_port': found '0', allowed is 1 to 65535"]
    assert nd.SyntaxProblems({"ssh_port": 70000})
    assert nd.SyntaxProblems({"spindle_count": 0, "ovs_name": None}) == []
