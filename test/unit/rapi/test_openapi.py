"""The OpenAPI document of the interface: valid, complete, and as strict as the interface itself."""

from __future__ import annotations

import http
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import openapi_spec_validator
import pytest
from support.rapi import Site
from support.rapicalls import JobMethods, Methods

from ganeti import errors
from ganeti.rapi import openapi
from ganeti.rapi.declared import BodyUse
from ganeti.rapi.requests import failures
from ganeti.rapi.requests.call import HttpError
from ganeti.rapi.resources import RESOURCES

DOCUMENT = openapi.Describe(RESOURCES)


def _Operation(path: str, verb: str) -> dict[str, Any]:
    operation: dict[str, Any] = DOCUMENT["paths"][path][verb.lower()]
    return operation


def test_valid_by_the_schema_of_openapi():
    openapi_spec_validator.OpenAPIV31SpecValidator(DOCUMENT).validate()


def test_the_daemon_answers_with_the_document_and_its_version(tmp_path: Path) -> None:
    site = Site(str(tmp_path / "users"))
    reply = site.Ask("GET", "/2/openapi.json")
    assert (reply.status, reply.value) == (200, DOCUMENT)
    again = site.Ask("GET", "/2/openapi.json", headers={"If-None-Match": reply.headers["etag"]})
    assert (again.status, again.body) == (304, b"")


def _Arrays(value: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every schema of an array, with where it stands."""
    if isinstance(value, dict):
        kinds = value.get("type")
        if kinds == "array" or (isinstance(kinds, list) and "array" in kinds):
            yield place, value
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in entries:
        yield from _Arrays(part, f"{place}/{key}")


def test_every_array_says_what_its_items_are():
    """Generators of clients leave out operations that have an array without it, though the document is valid."""
    found = dict(_Arrays(DOCUMENT))
    assert len(found) > 100
    assert [place for place, schema in found.items() if "items" not in schema] == []


def test_every_method_is_described():
    described = {
        (path, verb.upper())
        for path, item in DOCUMENT["paths"].items()
        for verb in item
        if verb not in ("parameters", "description")
    }
    assert described == {(r.path, verb) for r, verb, _ in Methods()}


@pytest.mark.req("D20-RAPI-11")
def test_answers_use_no_status_that_http_does_not_define():
    standard = {str(int(status)) for status in http.HTTPStatus}
    for resource, verb, _ in Methods():
        declared = _Operation(resource.path, verb)["responses"].keys()
        assert declared and declared - {"default"} <= standard, (resource.path, verb)
    # An error with another one cannot be made, and each kind of error has one.
    for code in (0, 299, 420, 499, 520, 599, 799):
        with pytest.raises(ValueError, match="is not a valid HTTPStatus"):
            HttpError(code, "text")
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.GenericError)]
    assert len(kinds) > 20
    for kind in kinds:
        for code in errors.ECODE_ALL:
            assert str(failures.FromError(kind("text", code)).code) in standard


def test_operations_have_names_of_their_own():
    names = [_Operation(r.path, verb)["operationId"] for r, verb, _ in Methods()]
    assert sorted(set(names)) == sorted(names)
    assert all(re.fullmatch(r"[a-z0-9_.]+", name) for name in names), names


def _Contents(operation: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every body that is sent or answered: where it stands, and its schema with its example."""
    bodies = {"request": operation.get("requestBody", {}), **operation["responses"]}
    for place, body in bodies.items():
        reference = body.get("$ref", "").rpartition("/")[2]
        described = DOCUMENT["components"]["responses"][reference] if reference else body
        yield from ((place, content) for content in described.get("content", {}).values())


@pytest.mark.parametrize(("path", "verb"), [(r.path, v) for r, v, _ in Methods()])
def test_every_operation_is_described_and_every_body_has_an_example(path: str, verb: str):
    operation = _Operation(path, verb)
    assert re.search("[a-z]{3}.*[.]", operation["description"].partition("\n\n")[0]), "what it does"
    assert operation["summary"]
    contents = list(_Contents(operation))
    assert len(contents) > len(operation["responses"]) - 2, "all but 304 have one"
    for place, content in contents:
        schema = {**content["schema"], "components": DOCUMENT["components"]}
        jsonschema.Draft202012Validator(schema).validate(content["example"])
        assert content["example"] is not None or content["schema"] == {"type": "null"}, place


@pytest.mark.parametrize(("path", "verb"), JobMethods())
def test_body_of_a_job_has_no_parameter_that_would_be_rejected(path: str, verb: str):
    [resource] = [r for r in RESOURCES if r.path == path]
    fixed = openapi.FixedNames(resource, verb)
    assert "reason" in fixed
    body = _Operation(path, verb).get("requestBody")
    if body is not None and resource.methods[verb].body is not BodyUse.ANY:
        properties = body["content"]["application/json"]["schema"]["properties"]
        assert not fixed & properties.keys()
        assert "depends" in properties
        assert all(
            "description" in schema
            for name, schema in properties.items()
            if name not in ("__version__", "instances", "tags", "disks", "start")
        )


def test_creation_says_what_it_needs():
    schema = _Operation("/2/instances", "POST")["requestBody"]["content"]["application/json"]["schema"]
    validator = jsonschema.Draft202012Validator(schema)
    body = {"__version__": 1, "name": "web1", "mode": "create", "disks": [], "nics": []}
    validator.validate(body)
    for wrong in (
        {**body, "__version__": 2},
        {**body, "instance_name": "web1"},
        {**body, "dry_run": True},
        {**body, "nics": [{"colour": "red"}]},
        {k: v for k, v in body.items() if k != "name"},
        {k: v for k, v in body.items() if k != "mode"},
    ):
        assert not validator.is_valid(wrong), wrong


def test_who_may_do_what():
    assert {} in _Operation("/2/info", "GET")["security"]
    assert {} not in _Operation("/2/modify", "PUT")["security"]
