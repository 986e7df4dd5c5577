"""A token for some instances, at the real daemons: what it learns of the others."""

from __future__ import annotations

from typing import Any

from support.rapihttp import Rapi
from support.realcluster import RealCluster
from support.stories import STARTER


def _Creation(name: str, *tags: str) -> dict[str, Any]:
    body = {"__version__": 1, "name": name, "mode": "create", "disk_template": "diskless", "disks": [], "nics": []}
    more = {"no_install": True, "os": "mini+default", "pnode": "node1.example.com", "ignore_ipolicy": True}
    return {**body, **more, "tags": list(tags)}


def test_foreign_and_unknown_instances_are_answered_alike() -> None:
    with RealCluster(1) as cluster:
        cluster.StartWithRapi()
        with Rapi(cluster[0]) as rapi:
            rapi.Do("POST", "/2/instances", _Creation("mine.example.com", "web"))
            for name in ("other.example.com", "twin.a.example.com", "twin.b.example.com"):
                rapi.Do("POST", "/2/instances", _Creation(name, "db"))
            uuid = rapi.Get("/2/instances/other")["uuid"]
        made = cluster[0].Python(
            STARTER, *["gnt-cluster", "rapi-token", "--role", "operate", "--tag", "web", "add", "robot"]
        )
        [token, *_] = made.stdout.split()
        cluster.more_secrets.append(token)
        with Rapi(cluster[0], headers={"Authorization": f"Bearer {token}"}) as robot:
            assert [link["id"] for link in robot.Get("/2/instances")] == ["mine.example.com"]
            assert robot.Get("/2/instances/mine")["name"] == "mine.example.com"
            answers = set()
            for name in (
                "other.example.com",
                "other",
                "OTHER",
                uuid,
                "twin",
                "nobody",
                "nobody.example.com",
                "o",
            ):
                for verb, rest in (("GET", ""), ("GET", "/tags"), ("PUT", "/startup"), ("PUT", "/shutdown")):
                    reply = robot.Ask(verb, f"/2/instances/{name}{rest}")
                    answers.add((reply.status, reply.body))
            assert len(answers) == 1, answers
            [(status, _)] = answers
            assert status == 403
