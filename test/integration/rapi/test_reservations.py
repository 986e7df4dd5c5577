"""Instances that are only reserved, as 3.1 stores them: with UUID and serial number and perhaps nothing else."""

from __future__ import annotations

import os

import jsonschema
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from support import configs
from support.rapihttp import Rapi
from support.realcluster import RealCluster
from support.virtualnode import TOP

from ganeti.rapi import openapi
from ganeti.rapi.resources import RESOURCES


def test_a_reservation_without_a_name_is_shown_by_its_uuid_and_spoils_nothing() -> None:
    with RealCluster(1) as cluster:
        cluster.WriteConfig(configs.WithReservations(cluster.config))
        cluster.StartWithRapi()
        with Rapi(cluster[0]) as rapi:
            links = rapi.Get("/2/instances")
            assert [link["id"] for link in links] == [configs.RESERVATION, configs.PLACED_RESERVATION]
            shown = [rapi.Get(link["uri"]) for link in links]
            assert [(one["uuid"], one["name"], one["admin_state"]) for one in shown] == [
                (link["id"], None, None) for link in links
            ]
            assert shown[1]["disk.sizes"] == [None, None]
            assert rapi.Get("/2/instances?bulk=1") == shown
            described = openapi.Describe(RESOURCES)["paths"]
            for path, value in (("/2/instances/{name}", shown[0]), ("/2/instances", links)):
                schema = described[path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
                jsonschema.Draft202012Validator(schema).validate(value)
            [node] = rapi.Get("/2/nodes?bulk=1")
            assert node["pinst_list"] == [configs.PLACED_RESERVATION]
            numbers = rapi.Ask("GET", "/metrics")
            assert numbers.status == 200
            families = {family.name: family for family in text_string_to_metric_families(numbers.body.decode())}
            states = {sample.labels["state"]: sample.value for sample in families["ganeti_instances"].samples}
            assert states == {"up": 0, "down": 0, "offline": 0, "reserved": 2}
            for verb, rest in (("PUT", "startup"), ("PUT", "tags?tag=web")):
                job = rapi.Follow(rapi.Ask(verb, f"/2/instances/{configs.RESERVATION}/{rest}").value)
                assert job["status"] == "error"
                [[kind, [text, code]]] = job["opresult"]
                assert (kind, code) == ("OpPrereqError", "wrong_state")
                assert text.startswith(f"Instance {configs.RESERVATION} is only a reservation without a name")
            for uuid in (configs.RESERVATION, configs.PLACED_RESERVATION):
                assert rapi.Follow(rapi.Ask("DELETE", f"/2/instances/{uuid}").value)["status"] == "success"
            assert rapi.Get("/2/instances") == []


@pytest.mark.slow
def test_programs_pass_over_a_reservation_without_a_name() -> None:
    with RealCluster(1) as cluster:
        cluster.WriteConfig(configs.WithReservations(cluster.config))
        cluster.MakeOs("mini")
        cluster.StartNodeDaemons()
        cluster[0].StartMaster()
        name = cluster[0].name
        for program, *words in (
            ("gnt-instance", "list"),
            ("gnt-instance", "startup", "--all", "--force-multiple"),
            ("gnt-cluster", "info"),
            ("gnt-node", "list"),
            ("gnt-node", "info", name),
            ("gnt-node", "volumes"),
            ("gnt-debug", "locks"),
            ("hbal", "-L"),
            ("hcheck", "-L"),
            ("harep",),
            ("gnt-instance", "remove", "--force", configs.RESERVATION),
        ):
            done = cluster[0].Run([os.path.join(TOP, "scripts", program), *words], timeout=100)
            assert done.returncode == 0, (program, words, done)
            assert "Traceback" not in done.stderr and "Internal" not in done.stderr, (program, words, done)
        done = cluster[0].Run([os.path.join(TOP, "daemons", "ganeti-watcher")], timeout=200)
        log = cluster[0].Read("/var/log/ganeti/watcher.log")
        assert done.returncode == 0, (done, log)
        assert "instances, nothing to start" in log and " ERROR " not in log, log
