"""Indexes: after any history they answer as if made anew, and a change costs what it touches."""

from __future__ import annotations

import random
from typing import Any

import pytest
from support import configs

from ganeti import objects
from ganeti.objects import indexes

Pairs = list[tuple[Any, Any]]


def _All(index: indexes.Index) -> dict[Any, tuple[Any, ...]]:
    return dict(index.All())


def test_a_long_history_ends_in_the_same_index_as_a_short_one() -> None:
    """Far more changes than stay unsettled; keys come, are shared, and go."""
    rng = random.Random(5)
    contributed: dict[int, Pairs] = {}
    index = indexes.Index.Of([])
    for _ in range(3000):
        number = rng.randrange(200)
        old = contributed.get(number, [])
        new = [(f"key{rng.randrange(300)}", number) for _ in range(rng.randrange(3))]
        before, kept = _All(index) if rng.random() < 0.01 else None, index
        index = index.Exchange(old, new)
        contributed[number] = new
        assert before is None or _All(kept) == before, "an index is frozen"
    fresh = indexes.Index.Of(pair for pairs in contributed.values() for pair in pairs)
    assert _All(index) == _All(fresh)
    for key in (f"key{n}" for n in range(300)):
        assert index.Get(key) == fresh.Get(key)
    assert index.Get("nobody's") == ()


def test_the_recent_part_stays_small_and_the_settled_one_is_shared() -> None:
    index = indexes.Index.Of((n, n) for n in range(10_000))
    sizes = []
    settled = {id(index._settled)}
    for n in range(1000):
        index = index.Exchange([(n, n)], [(n, -n)])
        sizes.append(len(index._recent))
        settled.add(id(index._settled))
    assert max(sizes) <= indexes.MIN_RECENT + 100
    assert len(settled) <= 1000 // indexes.MIN_RECENT
    same = index.Exchange([(1, 1)], [(1, 1)])
    assert same is index, "what does not change costs nothing"


def test_removing_what_was_never_there_is_a_bug_and_seen() -> None:
    with pytest.raises(ValueError, match="not in list"):
        indexes.Index.Of([("a", 1)]).Exchange([("a", 2)], [])


def test_a_damaged_file_can_be_indexed() -> None:
    """Minors that cannot be compared, values twice: the check of the configuration reports them, nothing fails."""
    root = configs.Example()
    disk = root.disks[configs.WEB_DISK]
    odd = disk.Replace(uuid=configs.Uuid(1), logical_id=[*disk.logical_id[:3], None, "x", None])
    root = root.WithObject(odd)
    root.BuildIndexes()
    assert root.UsedMinors(disk.logical_id[0]) == {0: disk.uuid, None: odd.uuid}
    assert root.Users("port", 11001) == (odd.uuid, disk.uuid)


def test_what_an_object_gains() -> None:
    web = configs.Example().instances[configs.WEB]
    nic = web.nics[0]
    assert objects.GainedValues("MAC address", None, web) == [nic.mac]
    assert objects.GainedValues("MAC address", web, web) == []
    assert objects.GainedValues("MAC address", web, web.Replace(nics=[nic, nic])) == [nic.mac], "a second time"
    assert objects.GainedValues("volume", None, web) == [], "not of this kind"


def test_the_roots_of_a_master_keep_every_index() -> None:
    """Nothing is built again after a change, so a change of one object looks at no other."""
    root = configs.Large(300)
    root.BuildIndexes()
    looked: list[str] = []

    class Watched(objects.FrozenDict):
        def values(self) -> Any:
            looked.append("values")
            return super().values()

        def __iter__(self) -> Any:
            looked.append("iteration")
            return super().__iter__()

    web = root.instances[configs.Uuid(100007)]
    changed = root.WithObject(web.Replace(name="new.example.org", primary_node=configs.Uuid(1)))
    changed.__dict__["instances"] = Watched(changed.instances)
    assert changed.ExpandName("instance", "new").uuid == web.uuid
    assert changed.ExpandName("instance", web.name) is None
    assert web.uuid in changed.NodeInstances(configs.Uuid(1))[0]
    assert changed.Users("MAC address", web.nics[0].mac) == (web.uuid,)
    assert changed.UsedMinors(configs.Uuid(8))
    assert changed.IsUuidUsed(web.uuid)
    assert looked == []
