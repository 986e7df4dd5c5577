"""What exports there are, asked from the nodes, for gnt-backup list, LUXI and the remote interface alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.master import Master

from ganeti import constants, errors, pathutils, runtime
from ganeti.luxi import methods
from ganeti.server.handlers import Handlers

NORMAL, NODATA, OFFLINE = constants.RS_NORMAL, constants.RS_NODATA, constants.RS_OFFLINE


@pytest.fixture
def five(make: Callable[..., Master]) -> Master:
    """node1 has two exports, node2 none, node3 never had one, node4 does not answer, node5 is offline."""

    def prepare(master: Master) -> None:
        for path in (f"{pathutils.EXPORT_DIR}/web10.example.org", f"{pathutils.EXPORT_DIR}/web9.example.org.new"):
            master[0].Call(runtime.MakeDirs, path)
        master[1].Call(runtime.MakeDirs, pathutils.EXPORT_DIR)
        master[3].Stop()
        master.cfg.Update(master.snapshot.nodes[master.nodes[4]].Replace(offline=True))

    return make(5, prepare=prepare)


def _Query(master: Master, fields: str = "node export", qfilter: Any = None) -> list[list[tuple[int, Any]]]:
    answer = master.context.query.QueryNow("export", fields.split(), qfilter)
    return [[tuple(cell) for cell in row] for row in answer["data"]]  # type: ignore[misc]


def _Filter(*names: str) -> Any:
    return ["|", *(["==", "node", name] for name in names)]


def test_a_row_for_each_export_and_for_each_node_that_did_not_answer(five: Master) -> None:
    assert _Query(five) == [
        [(NORMAL, "node1.example.org"), (NORMAL, "web10.example.org")],
        [(NORMAL, "node1.example.org"), (NORMAL, "web9.example.org.new")],
        [(NORMAL, "node3.example.org"), (NODATA, None)],
        [(NORMAL, "node4.example.org"), (NODATA, None)],
        [(NORMAL, "node5.example.org"), (OFFLINE, None)],
    ]


def test_one_field_alone_has_the_same_rows(five: Master) -> None:
    assert [row[0][1][4] for row in _Query(five, "node")] == ["1", "1", "3", "4", "5"]
    assert _Query(five, "export")[:2] == [[(NORMAL, "web10.example.org")], [(NORMAL, "web9.example.org.new")]]


def test_named_nodes_only_are_asked(five: Master) -> None:
    assert _Query(five, qfilter=_Filter("node1.example.org"))[0][1] == (NORMAL, "web10.example.org")
    assert "export_list" not in five[1].calls and "export_list" not in five[2].calls


def test_a_node_without_exports_is_no_unknown_node(five: Master) -> None:
    assert _Query(five, qfilter=_Filter("node2.example.org")) == []
    with pytest.raises(errors.OpPrereqError, match="name node9 not found"):
        _Query(five, qfilter=_Filter("node9"))


def test_filters_see_the_exports(five: Master) -> None:
    """Whether an export that is not known would pass nobody can say, so it does."""
    rows = _Query(five, qfilter=["=~", "export", "^web9"])
    assert [row[1] for row in rows] == [
        (NORMAL, "web9.example.org.new"),
        (NODATA, None),
        (NODATA, None),
        (OFFLINE, None),
    ]
    assert _Query(five, "node", ["==", "export", "web10.example.org"])[0] == [(NORMAL, "node1.example.org")]


def test_a_node_that_sends_anything_else_has_not_answered(five: Master) -> None:
    five[1].answers["export_list"] = [1, 2]
    five[0].answers["export_list"] = "web"
    assert [row[1] for row in _Query(five, qfilter=_Filter("node1.example.org", "node2.example.org"))] == [
        (NODATA, None)
    ] * 2


def _Luxi(master: Master, nodes: Sequence[str], locking: bool = False) -> Any:
    unused = cast(Any, SimpleNamespace(SubmitJob=None))
    handlers = Handlers(master.cfg, unused, master.context.query, master.rpc, master.store, unused, unused)
    arguments = methods.Find("QueryExports").Bind([list(nodes), locking])
    return handlers.Handle("QueryExports", arguments).Result(60)


def test_the_call_of_luxi_has_null_for_nodes_that_did_not_answer(five: Master) -> None:
    assert _Luxi(five, []) == [
        ["node1.example.org", "web10.example.org"],
        ["node1.example.org", "web9.example.org.new"],
        ["node3.example.org", None],
        ["node4.example.org", None],
        ["node5.example.org", None],
    ]
    assert _Luxi(five, ["node2", "node5", five.nodes[2]]) == [["node3.example.org", None], ["node5.example.org", None]]
    with pytest.raises(errors.OpPrereqError, match="queries take no locks"):
        _Luxi(five, [], True)
