"""Nodes, groups, and the pool of master candidates: who votes changes with the flags (doc/reference/drivers.md d.7)."""

from __future__ import annotations

from typing import Any

import pytest
from support import configs
from support.writers import Setup

from ganeti import errors, objects
from ganeti.config import VotersOf
from ganeti.store import StoreError


def _Voters(s: Setup) -> set[str]:
    return set(s.store.Voters().by_uuid)


def _Flagged(s: Setup) -> set[str]:
    return {node.uuid for node in s.cfg.Snapshot().nodes.values() if node.master_candidate and not node.offline}


def _Node(s: Setup, number: int) -> objects.Node:
    return s.cfg.Snapshot().nodes[s.nodes[number]]


def _SetPool(s: Setup, size: int) -> None:
    s.cfg.Update(s.cfg.Snapshot().cluster.Replace(candidate_pool_size=size))


def _Follow(s: Setup) -> None:
    """Whoever the configuration wants is what the store reconciles to, as in a running master."""
    s.cluster.wanted = VotersOf(s.cfg.Snapshot())


def test_a_promoted_node_votes_from_the_same_moment(make: Any) -> None:
    s = make(3)
    assert _Voters(s) == {s.nodes[0]}
    before = s.cfg.Snapshot()
    promoted = s.cfg.PromoteNode(s.nodes[1])
    assert promoted.master_candidate
    assert promoted.serial_no == before.nodes[s.nodes[1]].serial_no + 1
    assert promoted.mtime == before.nodes[s.nodes[1]].mtime
    assert s.cfg.Snapshot().cluster.serial_no == before.cluster.serial_no + 1
    assert _Voters(s) == _Flagged(s) == {s.nodes[0], s.nodes[1]}
    # The new candidate has everything, itself as a candidate included.
    rows = {(row.kind, row.id): row.value for row in s.cluster[1].store.database.GetRows()}
    assert rows[("node", s.nodes[1])] == promoted.Json()
    assert s.cfg.PromoteNode(s.nodes[1]) == promoted, "again is nothing"


def test_flags_set_by_update_change_the_voters_too(make: Any) -> None:
    s = make(3, candidates=3)
    assert _Voters(s) == set(s.nodes)
    s.cfg.Update(_Node(s, 1).Replace(master_candidate=False, drained=True))
    _Follow(s)
    assert _Voters(s) == _Flagged(s) == {s.nodes[0], s.nodes[2]}
    s.cfg.Update(_Node(s, 2).Replace(master_candidate=False, offline=True))
    _Follow(s)
    assert _Voters(s) == _Flagged(s) == {s.nodes[0]}
    s.cfg.Update(_Node(s, 2).Replace(offline=False, master_candidate=True))
    assert _Voters(s) == _Flagged(s) == {s.nodes[0], s.nodes[2]}
    assert s.Stored() == s.cfg.Snapshot()


def test_the_master_always_votes(setup: Setup) -> None:
    before = setup.cfg.Snapshot()
    with pytest.raises(errors.OpPrereqError, match="The master is always a voter"):
        setup.cfg.Update(_Node(setup, 0).Replace(master_candidate=False))
    with pytest.raises(errors.OpPrereqError, match="The master is always a voter"):
        setup.cfg.RemoveNode(setup.nodes[0])
    assert setup.cfg.Snapshot() is before


def test_a_stale_object_does_not_change_the_voters(make: Any) -> None:
    s = make(2)
    old = _Node(s, 1)
    s.cfg.Update(old.Replace(powered=False))
    with pytest.raises(errors.ConfigurationError, match="out of date"):
        s.cfg.Update(old.Replace(master_candidate=True))
    assert _Voters(s) == _Flagged(s) == {s.nodes[0]}


def test_a_voter_keeps_its_address(make: Any) -> None:
    """The store knows where its voters are by their entry; another address needs a new one."""
    s = make(2, candidates=2)
    before = s.cfg.Snapshot()
    for change in ({"primary_ip": "127.0.0.9"}, {"name": "other.example.org"}):
        with pytest.raises(errors.ConfigurationError, match="cannot change while it is a master candidate") as caught:
            s.cfg.Update(_Node(s, 1).Replace(**change))
        assert "--master-candidate no node2.example.org" in str(caught.value.hint)
    assert s.cfg.Snapshot() is before
    s.cfg.Update(_Node(s, 1).Replace(master_candidate=False, primary_ip="127.0.0.9"))
    assert s.cfg.Update(_Node(s, 1).Replace(primary_ip="127.0.0.2")).primary_ip == "127.0.0.2"


def test_a_node_enters_as_a_regular_one(setup: Setup) -> None:
    address = "192.0.2.99"
    new = _Node(setup, 0).Replace(
        uuid=configs.Uuid(1), name="new.example.org", primary_ip=address, secondary_ip=address
    )
    with pytest.raises(errors.ProgrammerError, match="regular node"):
        setup.cfg.AddNode(new)
    assert setup.cfg.AddNode(new.Replace(master_candidate=False)).serial_no == 1


def test_a_removed_node_votes_no_more_and_its_certificate_is_gone(make: Any) -> None:
    s = make(3, candidates=3)
    s.cfg.RemoveInstance(configs.WEB)
    for n, uuid in enumerate(s.nodes):
        s.cfg.PromoteNode(uuid, digest=f"AA:{n}")
    serial = s.cfg.Snapshot().cluster.serial_no
    s.cfg.RemoveNode(s.nodes[2])
    _Follow(s)
    assert _Voters(s) == _Flagged(s) == set(s.nodes[:2])
    assert set(s.cfg.Snapshot().cluster.candidate_certs) == set(s.nodes[:2])
    assert s.cfg.Snapshot().cluster.serial_no == serial + 1
    assert s.nodes[2] not in s.cfg.Snapshot().nodes


def test_a_certificate_counts_with_the_promotion_and_until_the_node_is_no_candidate(make: Any) -> None:
    """It changes in the same step as the flag; taken offline in a standstill, the node has none either."""
    s = make(4)
    for number, digest in ((1, "AA"), (2, "BB"), (3, None)):
        s.cfg.PromoteNode(s.nodes[number], digest=digest)
    assert s.cfg.Snapshot().cluster.candidate_certs == {s.nodes[1]: "AA", s.nodes[2]: "BB"}
    serial = s.cfg.Snapshot().cluster.serial_no
    s.cfg.PromoteNode(s.nodes[2], digest="BB")
    assert s.cfg.Snapshot().cluster.serial_no == serial, "the same again is nothing"
    s.cfg.PromoteNode(s.nodes[2], digest="CC")
    s.cfg.Update(_Node(s, 1).Replace(master_candidate=False))
    assert s.cfg.Snapshot().cluster.candidate_certs == {s.nodes[2]: "CC"}
    s.cfg.TakeOffline(s.nodes[2])
    assert s.cfg.Snapshot().cluster.candidate_certs == {}


def test_a_change_that_nodes_could_not_read_is_rejected_before_it_is_stored(setup: Setup) -> None:
    cluster = setup.cfg.Snapshot().cluster
    few, many = ([f"{number:0127}" for number in range(count)] for count in (1000, 1100))
    before = setup.cfg.Snapshot()
    with pytest.raises(errors.OpPrereqError, match=r"cluster_tags.*131072"):
        setup.cfg.Update(cluster.Replace(tags=many))
    assert setup.cfg.Snapshot() is before
    setup.cfg.Update(cluster.Replace(tags=few))
    # Other changes are not looked at.
    assert setup.cfg.VerifyConfig() == []
    setup.cfg.PromoteNode(setup.nodes[0], digest="AA")


# --- the pool -----------------------------------------------------------------------------------------------------------


def test_how_many_candidates_there_should_be(make: Any) -> None:
    s = make(4, candidates=2)
    assert s.cfg.GetMasterCandidateStats() == (2, 2, 4)
    _SetPool(s, 3)
    assert s.cfg.GetMasterCandidateStats() == (2, 3, 4)
    assert s.cfg.GetMasterCandidateStats([s.nodes[1]]) == (1, 3, 3)
    s.cfg.Update(_Node(s, 2).Replace(drained=True))
    s.cfg.Update(_Node(s, 3).Replace(master_capable=False))
    assert s.cfg.GetMasterCandidateStats() == (2, 2, 2)
    assert s.cfg.NodesToPromote() == (0, [])
    s.cfg.Update(_Node(s, 2).Replace(drained=False))
    missing, eligible = s.cfg.NodesToPromote()
    assert (missing, [node.uuid for node in eligible]) == (1, [s.nodes[2]])
    assert {node.uuid for node in s.cfg.GetMasterCandidates()} == set(s.nodes[:2])


def test_self_promotion(make: Any) -> None:
    """A node that comes in becomes a candidate while there are fewer than the pool wants, one more than possible now."""
    s = make(2)
    assert not s.cfg.DecideSelfPromotion()
    _SetPool(s, 2)
    assert s.cfg.DecideSelfPromotion([s.nodes[1]])
    s.cfg.PromoteNode(s.nodes[1])
    assert not s.cfg.DecideSelfPromotion()


def test_the_pool_is_filled_one_node_at_a_time(make: Any) -> None:
    s = make(5)
    _SetPool(s, 4)
    serial = s.cfg.Snapshot().cluster.serial_no
    promoted = s.cfg.MaintainCandidatePool()
    assert len(promoted) == 3
    assert len(_Flagged(s)) == 4
    assert _Voters(s) == _Flagged(s)
    assert s.cfg.Snapshot().cluster.serial_no == serial + 3
    assert s.cfg.MaintainCandidatePool() == []
    assert s.cfg.Snapshot().cluster.serial_no == serial + 3


def test_promotion_is_random(make: Any) -> None:
    s = make(6)
    _SetPool(s, 2)
    first = {s.cfg.NodesToPromote()[1][0].uuid for _ in range(60)}
    assert first == set(s.nodes[1:])


def test_excepted_and_unfit_nodes_are_not_promoted(make: Any) -> None:
    s = make(4)
    _SetPool(s, 4)
    s.cfg.Update(_Node(s, 1).Replace(drained=True))
    promoted = s.cfg.MaintainCandidatePool([s.nodes[2]])
    assert [node.uuid for node in promoted] == [s.nodes[3]]
    with pytest.raises(errors.ConfigurationError, match="offline, drained or not master_capable"):
        s.cfg.PromoteNode(s.nodes[1])
    with pytest.raises(errors.ConfigurationError, match="not in the configuration"):
        s.cfg.PromoteNode(configs.Uuid(1))


def test_a_node_that_cannot_be_copied_is_passed_over(make: Any) -> None:
    s = make(3)
    s.cluster[1].up = False
    _SetPool(s, 3)
    told: list[tuple[str, Exception]] = []
    promoted = s.cfg.MaintainCandidatePool(failed=lambda node, err: told.append((node.uuid, err)), timeout=3.0)
    assert [node.uuid for node in promoted] == [s.nodes[2]]
    assert [(uuid, type(err)) for uuid, err in told] == [(s.nodes[1], StoreError)]
    with pytest.raises(StoreError, match=f"node {_Node(s, 1).name} could not be given a copy"):
        s.cfg.PromoteNode(s.nodes[1], timeout=0.3)
    assert _Voters(s) == _Flagged(s) == {s.nodes[0], s.nodes[2]}


# --- groups -------------------------------------------------------------------------------------------------------------


def test_groups(setup: Setup) -> None:
    cfg = setup.cfg
    other = configs.Uuid(5)
    assert cfg.LookupNodeGroup(None).uuid == configs.GROUP
    cfg.AddNodeGroup(objects.NodeGroup(name="rack2", uuid=other, members=["x"]))
    assert cfg.Snapshot().nodegroups[other].members == ()
    moved = cfg.AssignGroupNodes([(setup.nodes[1], other), (setup.nodes[2], configs.GROUP)])
    assert [node.uuid for node in moved] == [setup.nodes[1]]
    assert cfg.Snapshot().GroupNodes(other) == (setup.nodes[1],)
    assert cfg.LookupNodeGroup("rack2").uuid == cfg.LookupNodeGroup(other).uuid == other
    for target, message in ((None, "must be named"), ("rack3", "not found")):
        with pytest.raises(errors.OpPrereqError, match=message):
            cfg.LookupNodeGroup(target)
    cfg.AssignGroupNodes([(setup.nodes[1], configs.GROUP)])
    cfg.RemoveNodeGroup(other)
    with pytest.raises(errors.ConfigurationError, match="has nodes"):
        cfg.RemoveNodeGroup(configs.GROUP)
