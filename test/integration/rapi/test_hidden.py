"""No secret leaves through any GET: not the shared secret of a DRBD disk, not private or secret OS parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from support import configs
from support.rapicalls import Methods
from support.rapihttp import Rapi
from support.realcluster import RealCluster
from support.secrets import MARK

from ganeti import objects
from ganeti.query import GetKind
from ganeti.rapi.resources.common import TJob
from ganeti.rapi.resources.query import KINDS

DRBD, PRIVATE, SECRET, CLUSTER = (MARK + word for word in ("drbd", "private", "secret", "cluster"))
NAME = "drbd1.example.com"


def _WithMirror(root: objects.Snapshot) -> objects.Snapshot:
    """The configuration with an instance on a DRBD disk, and private parameters of its operating system."""
    example = configs.Example()
    first, second = list(root.nodes)[:2]
    disk = next(d for d in example.disks.values() if d.dev_type == "drbd")
    inst = next(i for i in example.instances.values() if disk.uuid in i.disks)
    disk = disk.Replace(logical_id=[first, second, *disk.logical_id[2:5], DRBD], nodes=[first, second], children=[])
    inst = inst.Replace(
        name=NAME,
        primary_node=first,
        disks=[disk.uuid],
        nics=[],
        hypervisor="fake",
        hvparams={},
        os="mini+default",
        osparams={},
        osparams_private={"key": PRIVATE},
    )
    cluster = root.cluster.Replace(
        osparams_private_cluster={"mini": {"other": CLUSTER}},
        tcpudp_port_pool=[],
        enabled_disk_templates=["drbd", "file"],
    )
    return root.Replace(cluster=cluster, disks={disk.uuid: disk}, instances={inst.uuid: inst})


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    with RealCluster(2) as made:
        made.config = _WithMirror(made.config)
        for node in made.nodes:
            node.Write("/var/lib/ganeti/config.data", objects.ConfigText(made.config), 0o640)
        made.StartWithRapi()
        yield made


@pytest.fixture(scope="module")
def jobs(cluster: RealCluster) -> Iterator[list[int]]:
    """Jobs with marked values: some ended, some that wait and still hold what they need."""
    creation = {
        "__version__": 1,
        "name": "new.example.com",
        "mode": "create",
        "disks": [],
        "nics": [],
        "pnode": "node1",
    }
    creation |= {"disk_template": "diskless", "os": "mini+default"}
    private = {"osparams_private": {"key": PRIVATE}}
    both = {**private, "osparams_secret": {"key2": SECRET}}
    requests = (
        ("POST", "/2/instances", {**creation, **both}),
        ("PUT", f"/2/instances/{NAME}/modify", private),
        ("PUT", "/2/modify", {"osparams_private_cluster": {"mini": {"third": CLUSTER}}}),
    )
    with Rapi(cluster[0]) as rapi:
        ended = [_Submitted(rapi, *request) for request in requests]
        for job in ended:
            rapi.Follow(job)
        kinds = ("OP_INSTANCE_CREATE", "OP_INSTANCE_SET_PARAMS", "OP_CLUSTER_SET_PARAMS")
        these = ["|", *(["=", "OP_ID", kind] for kind in kinds)]
        rapi.Ask("POST", "/2/filters", {"predicates": [["opcode", these]], "action": "PAUSE"})
        waiting = [_Submitted(rapi, *request) for request in requests]
        yield [*ended, *waiting]
        for job in waiting:
            rapi.Ask("DELETE", f"/2/jobs/{job}")


def _Submitted(rapi: Rapi, verb: str, target: str, body: object) -> int:
    answer = rapi.Ask(verb, target, body)
    assert answer.status == 200, answer.body
    number: int = answer.value
    return number


def _Targets(job: int) -> Iterator[str]:
    """Every GET there is, about the instance with secrets and a job with secrets."""
    area = {"nodes": "node1", "instances": NAME, "groups": "default", "networks": "none"}
    for resource, verb, method in Methods():
        if verb != "GET" or method.media == "text/event-stream":
            continue
        path = resource.path
        for kind in KINDS if "{resource}" in path else [""]:
            target = path.replace("{job}", str(job)).replace("{uuid}", configs.Uuid(1)).replace("{resource}", kind)
            target = re.sub(r"\{name\}", area.get(path.split("/")[2] if path.count("/") > 1 else "", ""), target)
            fields = ",".join(GetKind(kind).fields) if kind and not path.endswith("fields") else "name"
            names = {argument.name for argument in method.arguments}
            query = "&".join(
                [*(["bulk=1"] if "bulk" in names else []), *([f"fields={fields}"] if "fields" in names else [])]
            )
            yield f"{target}?{query}&output_fields=name" if "output_fields" in names else f"{target}?{query}"


def test_no_get_shows_a_secret(cluster: RealCluster, jobs: list[int]) -> None:
    leaks, shown = [], 0
    with Rapi(cluster[0]) as rapi:
        seen = {target for job in jobs for target in _Targets(job)}
        for target in sorted(seen):
            path = target.partition("?")[0]
            [method] = [r.methods["GET"] for r, verb, _ in Methods() if verb == "GET" and r.pattern.fullmatch(path)]
            body = {"fields": ["ops", "opresult", "oplog"], "previous_job_info": None, "previous_log_serial": None}
            answer = rapi.Ask("GET", target, body if path.endswith("/wait") else b"")
            assert answer.status in (200, 404, 503), (target, answer.body)
            bodies = [answer.body]
            if method.answer is TJob and answer.status == 200:
                job = rapi.Follow(answer.value)
                bodies.append(str(job).encode())
            shown += sum(b"osparams_private" in text for text in bodies)
            leaks += [
                f"{target}: {m}" for m in (DRBD, PRIVATE, SECRET, CLUSTER) if any(m.encode() in b for b in bodies)
            ]
    assert leaks == []
    assert shown > 5, "the values were looked for where they are"


def test_names_of_hidden_parameters_are_shown_with_null(cluster: RealCluster, jobs: list[int]) -> None:
    with Rapi(cluster[0]) as rapi:
        for creation, modify, settings in (jobs[:3], jobs[3:]):
            [op] = rapi.Get(f"/2/jobs/{creation}")["ops"]
            assert (op["osparams_private"], op["osparams_secret"]) == ({"key": None}, {"key2": None})
            assert rapi.Get(f"/2/jobs/{modify}")["ops"][0]["osparams_private"] == {"key": None}
            [op] = rapi.Get(f"/2/jobs/{settings}")["ops"]
            assert not op["osparams_private_cluster"]["mini"] or op["osparams_private_cluster"]["mini"] == {
                "third": None
            }
