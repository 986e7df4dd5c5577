"""What confd answers to each query, from the example of two nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import configs

from ganeti import objects, serializer
from ganeti.confd import answers, queries, wire
from ganeti.confd.answers import Answer
from ganeti.confd.view import HIDDEN, Public, View

IP = "192.0.2.77"
SECRET = "drbd-secret-of-web"
PASSWORD = "private-password"
TOKEN = "5e" * 32


def _Root() -> objects.Snapshot:
    """The example, with an address, secrets, a drained and an offline node, and different serials."""
    root = configs.Example()
    node = root.nodes[configs.NODE2]
    for number, flags in enumerate(({"drained": True}, {"offline": True}, {})):
        root = root.WithObject(
            node.Replace(
                uuid=configs.Uuid(50 + number),
                name=f"extra{number}.example.com",
                primary_ip=f"192.0.2.{50 + number}",
                **{"master_candidate": False, "drained": False, "offline": False, **flags},
                serial_no=900 + number,
            )
        )
    web, disk = root.instances[configs.WEB], root.disks[configs.WEB_DISK]
    nics = [web.nics[0].Replace(ip=IP, network=None, nicparams={"link": "br7"}), *web.nics[1:]]
    root = root.WithObject(web.Replace(nics=nics, osparams_private={"password": PASSWORD}, serial_no=31))
    root = root.WithObject(disk.Replace(logical_id=[*disk.logical_id[:5], SECRET]))
    private = {"debian": {"root": PASSWORD}}
    token = {"sha256": TOKEN, "role": "admin", "tags": ["of-the-token"], "created": 1.0}
    cluster = root.cluster.Replace(
        osparams_private_cluster=private, serial_no=77, master_node=configs.NODE1, rapi_tokens={"robot": token}
    )
    return root.WithObject(cluster).Replace(serial_no=1234)


ROOT = _Root()
VIEW = View(ROOT)
NODE1, NODE2 = ROOT.nodes[configs.NODE1], ROOT.nodes[configs.NODE2]
WEB, DISK = ROOT.instances[configs.WEB], ROOT.disks[configs.WEB_DISK]


def _Ask(kind: int, query: Any = None, view: View = VIEW) -> wire.Reply:
    return Answer(view, wire.Request(kind, query, "r"))


def _Good(kind: int, query: Any = None) -> tuple[Any, int]:
    reply = _Ask(kind, query)
    assert reply.status == queries.OK, reply
    return reply.answer, reply.serial


def test_ping() -> None:
    assert _Good(queries.PING) == (ROOT.version, 0)


@pytest.mark.req("D21-CONFD-24")
def test_roles() -> None:
    names = [NODE1.name, NODE2.name, "extra0.example.com", "extra1.example.com", "extra2.example.com"]
    found = [_Good(queries.NODE_ROLE, name) for name in names]
    expected = [
        queries.ROLE_MASTER,
        queries.ROLE_CANDIDATE,
        queries.ROLE_DRAINED,
        queries.ROLE_OFFLINE,
        queries.ROLE_REGULAR,
    ]
    assert [role for role, _ in found] == expected
    assert [serial for _, serial in found] == [NODE1.serial_no, NODE2.serial_no, 900, 901, 902]
    assert _Good(queries.NODE_ROLE, "extra1")[0] == queries.ROLE_OFFLINE
    # What nobody can set counts in the order in which 3.1 looks at it.
    for candidate, role in ((True, queries.ROLE_CANDIDATE), (False, queries.ROLE_DRAINED)):
        both = View(ROOT.WithObject(NODE2.Replace(master_candidate=candidate, offline=True, drained=True)))
        assert _Ask(queries.NODE_ROLE, NODE2.name, both).answer == role


@pytest.mark.req("D21-CONFD-22")
def test_errors() -> None:
    for kind in (queries.NODE_ROLE, queries.NODE_DRBD, queries.NODE_INSTANCES):
        assert _Ask(kind, "nobody") == wire.Reply(queries.ERROR, "Unknown node 'nobody'", 0)
    for kind in (queries.INSTANCE_DISKS, queries.INSTANCE_NODE):
        assert _Ask(kind, "nobody") == wire.Reply(queries.ERROR, "Unknown instance 'nobody'", 0)
    assert len(_Ask(queries.NODE_ROLE, "x" * 9999).answer) < 120
    wrong = wire.Reply(queries.ERROR, queries.ARGUMENT, 0)
    for kind, query in (
        (queries.NODE_ROLE, None),
        (queries.NODE_ROLE, ["node1"]),
        (queries.INSTANCE_DISKS, 5),
        (queries.NODE_IP_BY_INSTANCE_IP, IP),
        (queries.NODE_IP_BY_INSTANCE_IP, {}),
        (queries.NODE_IP_BY_INSTANCE_IP, {"1": 5}),
        (queries.NODE_IP_BY_INSTANCE_IP, {"1": IP, "0": 5}),
        (queries.NODE_IP_BY_INSTANCE_IP, {"2": [IP, 5]}),
        (queries.NODE_IP_BY_INSTANCE_IP, {"2": IP}),
        (queries.CLUSTER_MASTER, "name"),
        (queries.CLUSTER_MASTER, {}),
        (queries.CLUSTER_MASTER, {"3": "0"}),
        (queries.INSTANCE_IPS, 5),
        (queries.CONFIG, None),
        (queries.CONFIG, "/cluster/no_such_key"),
        (queries.CONFIG, "/cluster/cluster_name/deeper"),
        (queries.CONFIG, "/cluster/enabled_hypervisors/99"),
        (queries.CONFIG, "/cluster/enabled_hypervisors/-1"),
    ):
        assert _Ask(kind, query) == wrong, (kind, query)


@pytest.mark.req("D21-CONFD-20")
@pytest.mark.req("D21-CONFD-24")
def test_node_by_the_address_of_an_instance() -> None:
    unknown = wire.Reply(queries.ERROR, queries.UNKNOWN_ENTRY, 0)
    node_ip = ROOT.nodes[WEB.primary_node].primary_ip
    assert _Good(queries.NODE_IP_BY_INSTANCE_IP, {"1": IP, "0": "br7"}) == (node_ip, 31)
    # The same address on the default link is another one.
    assert _Ask(queries.NODE_IP_BY_INSTANCE_IP, {"1": IP}) == unknown
    answer, serial = _Good(queries.NODE_IP_BY_INSTANCE_IP, {"2": [IP, "192.0.2.1"], "0": "br7"})
    assert (answer, serial) == ([[0, node_ip, 31], [1, 0, 0]], 77)


def test_an_interface_without_a_link_has_the_clusters() -> None:
    nics = [WEB.nics[0].Replace(ip=IP, network=None, nicparams={})]
    view = View(ROOT.WithObject(WEB.Replace(nics=nics)))
    assert _Ask(queries.INSTANCE_IPS, None, view).answer == [IP]
    assert _Ask(queries.NODE_IP_BY_INSTANCE_IP, {"1": IP}, view).status == queries.OK


@pytest.mark.req("D21-CONFD-11")
def test_master() -> None:
    assert _Good(queries.CLUSTER_MASTER) == (NODE1.name, 77)
    everything = [NODE1.name, ROOT.cluster.master_ip, NODE1.primary_ip]
    assert _Good(queries.CLUSTER_MASTER, {"3": [0, 1, 2]})[0] == everything
    assert _Good(queries.CLUSTER_MASTER, {"3": ["2", "0", 9, None, [0]]})[0] == [NODE1.primary_ip, NODE1.name]


@pytest.mark.req("D21-CONFD-10")
def test_lists_of_addresses() -> None:
    assert sorted(_Good(queries.CANDIDATE_IPS)[0]) == sorted([NODE1.primary_ip, NODE2.primary_ip])
    everybody = [node.primary_ip for node in ROOT.nodes.values()]
    assert sorted(_Good(queries.NODE_IPS)[0]) == sorted(everybody) and len(everybody) == 5
    assert _Good(queries.INSTANCE_IPS, "br7") == ([IP], 77)
    assert _Good(queries.INSTANCE_IPS, "br8") == ([], 77)


@pytest.mark.req("D21-CONFD-12")
@pytest.mark.req("D21-CONFD-13")
@pytest.mark.req("D21-CONFD-14")
def test_what_only_the_design_names() -> None:
    assert (queries.OFFLINE_NODES, queries.INSTANCES, queries.INSTANCE_NODE) == (100, 101, 102)
    assert _Good(queries.OFFLINE_NODES) == (["extra1.example.com"], 1234)
    assert _Good(queries.INSTANCES) == ([WEB.name], 1234)
    assert _Good(queries.INSTANCE_NODE, WEB.name) == (ROOT.NodeName(WEB.primary_node), 1234)


@pytest.mark.req("D21-CONFD-12")
@pytest.mark.req("D21-CONFD-13")
def test_lists_are_whole_and_sorted_as_people_count() -> None:
    """Whatever an instance is like: one without disks, one that is down; the order of the configuration says nothing."""
    root = ROOT.Replace(instances={}, nodes={NODE1.uuid: NODE1})
    for number, change in ((10, {}), (9, {"disks": []}), (2, {"admin_state": "down"})):
        root = root.WithObject(WEB.Replace(uuid=configs.Uuid(number), name=f"web{number}.example.com", **change))
        offline = {"offline": True, "drained": number == 9, "master_candidate": False}
        root = root.WithObject(
            NODE2.Replace(uuid=configs.Uuid(50 + number), name=f"down{number}.example.com", **offline)
        )
    view = View(root)
    for kind, word in ((queries.INSTANCES, "web"), (queries.OFFLINE_NODES, "down")):
        assert _Ask(kind, None, view).answer == [f"{word}{number}.example.com" for number in (2, 9, 10)]


def test_drbd_minors() -> None:
    a, b, _, minor_a, minor_b, _ = DISK.logical_id
    for own, peer, minor in ((a, b, minor_a), (b, a, minor_b)):
        role = "primary" if WEB.primary_node == own else "secondary"
        expected = [ROOT.NodeName(own), minor, WEB.name, "disk/0", role, ROOT.NodeName(peer)]
        assert _Good(queries.NODE_DRBD, ROOT.NodeName(own)) == ([expected], ROOT.nodes[own].serial_no)
    detached = View(ROOT.WithObject(WEB.Replace(disks=[])))
    assert _Ask(queries.NODE_DRBD, NODE1.name, detached).answer == []


def test_instances_and_disks() -> None:
    primary, secondary = _Good(queries.NODE_INSTANCES, ROOT.NodeName(WEB.primary_node))[0]
    assert [instance["name"] for instance in primary] == [WEB.name] and secondary == []
    others = [uuid for uuid in DISK.nodes if uuid != WEB.primary_node]
    assert [len(part) for part in _Good(queries.NODE_INSTANCES, ROOT.NodeName(others[0]))[0]] == [0, 1]
    for name in (WEB.name, WEB.uuid):
        disks, serial = _Good(queries.INSTANCE_DISKS, name)
        assert [disk["uuid"] for disk in disks] == [DISK.uuid] and serial == 31
        assert disks[0]["logical_id"] == [*DISK.logical_id[:5], HIDDEN]
        assert disks[0]["children"] == [child.ToDict() for child in DISK.children]


def test_the_secret_of_a_mirror_below_another_disk_is_hidden() -> None:
    lower = DISK.Replace(uuid=configs.Uuid(70))
    view = View(ROOT.WithObject(DISK.Replace(children=[lower])))
    assert SECRET not in serializer.Dump(_Ask(queries.INSTANCE_DISKS, WEB.name, view).answer)


def test_only_a_mirrors_identity_has_a_secret() -> None:
    for change in ({"dev_type": "ext", "logical_id": list("abcdef")}, {"logical_id": list(DISK.logical_id[:5])}):
        view = View(ROOT.WithObject(DISK.Replace(children=[], **change)))
        assert _Ask(queries.INSTANCE_DISKS, WEB.name, view).answer[0]["logical_id"] == change["logical_id"]


def test_parts_of_the_configuration() -> None:
    assert _Good(queries.CONFIG, "/cluster/cluster_name") == (ROOT.cluster.cluster_name, 77)
    assert _Good(queries.CONFIG, "cluster//enabled_hypervisors/0")[0] == ROOT.cluster.enabled_hypervisors[0]
    assert _Good(queries.CONFIG, f"/nodes/{NODE1.uuid}/name")[0] == NODE1.name
    assert _Good(queries.CONFIG, f"/nodes/{NODE1.uuid}")[0] == NODE1.ToDict()
    assert _Good(queries.CONFIG, "/nodes")[0] == {uuid: node.ToDict() for uuid, node in ROOT.nodes.items()}
    assert _Good(queries.CONFIG, "/serial_no")[0] == 1234
    assert _Good(queries.CONFIG, "/")[0].keys() >= {"cluster", "nodes", "instances", "disks", "version"}
    assert _Good(queries.DATA_COLLECTORS)[0] == serializer.Load(serializer.Dump(ROOT.cluster.data_collectors))


def test_what_is_much_too_large_is_not_even_built() -> None:
    view = View(configs.Large(2000))
    for kind, query in ((queries.CONFIG, "/instances"), (queries.CONFIG, "/")):
        reply = _Ask(kind, query, view)
        assert reply.status == queries.ERROR and "do not fit into a datagram" in reply.answer
    assert _Ask(queries.CONFIG, f"/instances/{configs.Uuid(100000)}/name", view).status == queries.OK


@pytest.mark.parametrize("path", ["", "/robot", "/robot/sha256", "/robot/role"])
def test_tokens_of_the_remote_interface_are_not_there(path: str) -> None:
    """Whoever has the key, so every regular node, asks for names, roles and hashes."""
    assert ROOT.cluster.rapi_tokens["robot"]["sha256"] == TOKEN
    assert _Ask(queries.CONFIG, f"/cluster/rapi_tokens{path}").status != queries.OK
    everything = serializer.Dump(_Good(queries.CONFIG, "/cluster")[0])
    assert not any(word in everything for word in ("rapi_tokens", "robot", TOKEN, "of-the-token"))


def _Paths(path: str, value: Any) -> Iterator[str]:
    yield path
    for key, item in value.items() if isinstance(value, dict) else ():
        yield from _Paths(f"{path}/{key}", item)
    for index, item in enumerate(value) if isinstance(value, list) else ():
        yield from _Paths(f"{path}/{index}", item)


def _EveryQuery() -> list[Any]:
    """Return what may be asked with: nothing, every name, uuid, address and link, and every path of the configuration."""
    queries_: list[Any] = [None, *_Paths("", serializer.Load(objects.ConfigText(ROOT)))]
    for kind in (ROOT.nodes, ROOT.instances, ROOT.disks, ROOT.nodegroups, ROOT.networks):
        queries_ += [text for obj in kind.values() for text in (obj.uuid, obj.name) if text is not None]
    addresses = [IP, *(node.primary_ip for node in ROOT.nodes.values())]
    links = ["br7", VIEW.default_link]
    queries_ += [*addresses, *links]
    for link in links:
        queries_ += [{queries.KEY_IP: ip, queries.KEY_LINK: link} for ip in addresses]
        queries_.append({queries.KEY_IPS: addresses, queries.KEY_LINK: link})
    queries_.append({queries.KEY_FIELDS: [queries.FIELD_NAME, queries.FIELD_CLUSTER_IP, queries.FIELD_MASTER_IP]})
    return queries_


def test_no_secret_leaves_and_every_answer_has_a_serial() -> None:
    """Each type of query, asked with everything that there is to ask with.  A type that is added is asked, too."""
    text = objects.ConfigText(ROOT)
    assert SECRET in text and PASSWORD in text
    everything = _EveryQuery()
    assert f"/disks/{DISK.uuid}/logical_id/5" in everything
    assert "/cluster/osparams_private_cluster/debian/root" in everything
    for kind, declared in queries.QUERY_TYPES.items():
        answered = 0
        for query in everything:
            reply = _Ask(kind, query)
            answer = serializer.Dump(reply.answer)
            assert not any(secret in answer for secret in (SECRET, PASSWORD, TOKEN)), (kind, query)
            if reply.status == queries.OK:
                answered += 1
                assert (reply.serial == 0) == (kind == queries.PING), f"{declared.name}: the serial must be an object's"
        assert answered, f"{declared.name}: _EveryQuery lacks a query that it accepts"
    assert _Good(queries.CONFIG, f"/instances/{WEB.uuid}/osparams_private")[0] == {"password": HIDDEN}


def test_objects_in_a_handlers_answer_lose_their_secrets() -> None:
    """However the handler hands them over, and however deep they lie."""
    for value in (DISK, WEB, ROOT.cluster):
        for held in (value, [value], {"it": (value,)}, value.ToDict(), [[{"it": value.ToDict()}]]):
            text = serializer.Dump(Public(held))
            assert HIDDEN in text and SECRET not in text and PASSWORD not in text
    child = {"children": [DISK.ToDict()]}
    assert SECRET not in serializer.Dump(Public(child))


def test_every_type_of_query_has_a_handler() -> None:
    assert answers.HANDLERS.keys() == queries.QUERY_TYPES.keys()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("0123") | st.text(max_size=3), inner),
    max_leaves=6,
)


@pytest.mark.req("D21-CONFD-22")
@given(st.sampled_from(list(queries.QUERY_TYPES)), JSON | st.text("/abcdefnorstuv_0", max_size=30))
def test_whatever_is_asked_gets_an_answer_that_can_be_sent(kind: int, query: Any) -> None:
    reply = _Ask(kind, query)
    assert reply.status in (queries.OK, queries.ERROR)
    if reply.status == queries.ERROR:
        assert reply.serial == 0 and isinstance(reply.answer, (int, str))
    assert wire.OpenReply(b"k", wire.PackReply(b"k", reply, "r"))[1] == "r"


@pytest.mark.req("D21-CONFD-07")
def test_serials_grow_with_the_object() -> None:
    changed = View(ROOT.WithObject(NODE2.Replace(serial_no=NODE2.serial_no + 1, offline=True, master_candidate=False)))
    before, after = (_Ask(queries.NODE_ROLE, NODE2.name, view) for view in (VIEW, changed))
    assert after.answer != before.answer and after.serial > before.serial


@pytest.mark.req("D21-CONFD-01")
def test_who_answers() -> None:
    assert [VIEW.MayAnswer(node.name) for node in ROOT.nodes.values()] == [True, True, False, False, False]
    assert not VIEW.MayAnswer("stranger.example.com")
    assert VIEW.MayAnswer(NODE2.name.partition(".")[0])


def test_reservations_without_a_name_spoil_no_answer() -> None:
    root = configs.WithReservations(ROOT)
    view = View(root)
    texts = [NODE1.name, NODE1.uuid, WEB.name, configs.RESERVATION, configs.PLACED_RESERVATION, "", "/cluster/tags"]
    links = [{queries.KEY_IP: IP}, {queries.KEY_IPS: [IP, "192.0.2.99"]}, {queries.KEY_FIELDS: [queries.FIELD_NAME]}]
    for kind in queries.QUERY_TYPES:
        for query in (None, *texts, *links):
            reply = _Ask(kind, query, view)
            assert (reply.status, reply.answer) != (queries.ERROR, queries.INTERNAL), (kind, query)
            serializer.Dump(reply.answer)
    assert _Ask(queries.INSTANCES, None, view).answer == _Ask(queries.INSTANCES).answer
    primary, _ = _Ask(queries.NODE_INSTANCES, next(iter(root.nodes.values())).name, view).answer
    assert configs.PLACED_RESERVATION in [one["uuid"] for one in primary]
    assert _Ask(queries.INSTANCE_NODE, configs.RESERVATION, view).status == queries.ERROR
