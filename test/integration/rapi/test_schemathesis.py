"""Requests made from our own OpenAPI document: no error of the server, no answer that the document does not know."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from typing import Any

import hypothesis
import jsonschema
import pytest
import requests
import schemathesis
from hypothesis import strategies as st
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi import checks
from support import configs
from support.rapihttp import WRITER, Rapi
from support.realcluster import RealCluster

from ganeti import constants
from ganeti.rapi import openapi
from ganeti.rapi.resources import RESOURCES

OS, INSTANCE, NODE = "mini", "web1.example.com", "node1.example.com"
EXAMPLES = 8
KNOWN = {"nodes": NODE, "groups": "default", "networks": "lan"}
UUID = "7a9d3a1e-9f8b-4f0e-8a57-0b3f1f6f2c11"
CHECKS = [checks.status_code_conformance, checks.content_type_conformance]

# As a client gets it.
DOCUMENT = json.loads(json.dumps(openapi.Describe(RESOURCES)))
# A stream does not end.
OTHER_TESTS = {path for path, item in DOCUMENT["paths"].items() if "text/event-stream" in json.dumps(item)}
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)
OPERATIONS = [
    (path, verb)
    for path, item in DOCUMENT["paths"].items()
    for verb in item
    if path not in OTHER_TESTS and verb in ("get", "put", "post", "delete")
]


@pytest.fixture(scope="module")
def site() -> Iterator[tuple[str, requests.Session]]:
    """A cluster with one object of each kind, and a connection to its REST daemon."""
    with RealCluster(1) as cluster:
        cluster.WriteConfig(configs.WithReservation(cluster.config))
        cluster.StartWithRapi(name=OS)
        creation = {
            "__version__": 1,
            "name": INSTANCE,
            "mode": "create",
            "disk_template": "diskless",
            "disks": [],
            "nics": [],
        }
        creation |= {"pnode": NODE, "no_install": True, "os": f"{OS}+default", "ignore_ipolicy": True}
        with Rapi(cluster[0]) as rapi:
            rapi.Do("POST", "/2/instances", creation)
            rapi.Do("PUT", f"/2/instances/{INSTANCE}/startup")
            rapi.Do("POST", "/2/networks", {"name": "lan", "network": "192.0.2.0/28"})
            assert rapi.Ask("PUT", f"/2/filters/{UUID}", {}).status == 200
        with requests.Session() as session:
            session.verify = False
            session.headers.update(WRITER)
            yield f"https://{cluster[0].address}:{constants.DEFAULT_RAPI_PORT}", session


def _Aim(case: Any, instance: str) -> None:
    """Let a request be about something that exists, among instances this one."""
    area = case.path.split("/")[2] if case.path.count("/") > 2 else ""
    known = {
        "name": {**KNOWN, "instances": instance}.get(area),
        "job": "1",
        "uuid": UUID,
        "resource": "node",
        "index": "0",
    }
    for name in case.path_parameters or {}:
        case.path_parameters[name] = known[name] or case.path_parameters[name]


def _CheckAnswer(path: str, verb: str, answer: Any) -> None:
    """Compare an answer with the document; the library's own check mistakes the types of a list's items.

    No request here belongs to no operation, so that ``default`` does not count.
    """
    described = DOCUMENT["paths"][path][verb]["responses"][str(answer.status_code)]
    if "$ref" in described:
        described = DOCUMENT["components"]["responses"][str(answer.status_code)]
    if "ETag" not in described.get("headers", {}):
        assert "etag" not in answer.headers
    if "content" not in described:
        assert not answer.content
        return
    if "application/json" not in described["content"]:
        return
    schema = described["content"]["application/json"]["schema"]
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"]["Error"]
    jsonschema.Draft202012Validator(schema).validate(answer.json())


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
@pytest.mark.parametrize(("path", "verb"), OPERATIONS)
def test_requests_of_our_own_document(path: str, verb: str, site: tuple[str, requests.Session]) -> None:
    base, session = site
    operation = SCHEMA[path][verb]
    seed = zlib.crc32(f"{os.environ.get('SEED', '1')} {verb} {path}".encode())
    strategy = st.one_of(
        operation.as_strategy(generation_mode=mode) for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    )

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=EXAMPLES,
        database=None,
        phases=[hypothesis.Phase.generate],
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=strategy, existing=st.sampled_from(["", "", INSTANCE, configs.RESERVATION]))
    def check(case: Any, existing: str) -> None:
        if existing and not (verb == "delete" and "tags" not in path):
            _Aim(case, existing)
        answer = case.call_and_validate(base_url=base, session=session, checks=CHECKS, timeout=30, verify=False)
        # An instance that another request has stopped has no console.
        allowed = {503} if path.endswith("/console") else set()
        assert answer.status_code < 500 or answer.status_code in allowed, answer.text
        _CheckAnswer(path, verb, answer)

    check()
