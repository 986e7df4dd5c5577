"""The declarations against the table of resources of release 3.1 (doc/reference/rapi.md 5)."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import docutils.core
import pytest
from support.rapi import WRITER, Site
from support.rapicalls import NAMES, Act, Methods, NotingMaster
from support.virtualnode import TOP

from ganeti import constants, ht
from ganeti.params import disk
from ganeti.rapi.declared import BodyUse, Role, Scope
from ganeti.rapi.resources import RESOURCES
from ganeti.rapi.resources.common import Listed, TJob
from ganeti.rapi.resources.root import FEATURES

# Arguments that we read where 3.1 ignores them, or reads them without saying so.
OURS = {"dry-run", "reason", "lock"}


def _Table() -> Iterator[tuple[str, str, list[str], set[str], str, str]]:
    """Yield path, verb, access, arguments, body and result of every row of the page."""
    with open(os.path.join(TOP, "doc", "reference", "rapi.md"), encoding="utf-8") as stream:
        section = stream.read().partition("\n## 5.")[2].partition("\n## 6.")[0]
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("| `/"):
            continue
        path, verbs, access, arguments, body, result = cells
        path = path.strip("`").replace("[name]/disk/[index]", "{name}/disk/{index}")
        path = re.sub(r"\[(\w+)\]", r"{\1}", path)
        for verb in verbs.split(", "):
            if access == "as `/2/tags`":
                changes = verb != "GET"
                rules: tuple[list[str], set[str], str, str]
                rules = (["write"], {"tag", "dry-run"}, "ignored", "job") if changes else ([], set(), "", "")
            else:
                words = [] if access == "-" else access.split(" or ")
                rules = (words, set(re.findall(r"`([\w-]+)`", arguments)), body, result)
            yield path, verb, *rules


TABLE = {(row[0], row[1]): row for row in _Table()}
# These come from other modules than the declarations of single areas.
ROOT = {"/", "/2", "/version", "/2/features"}


def test_page_was_read() -> None:
    assert len(TABLE) == 83


@pytest.mark.req("D20-RAPI-07")
def test_every_resource_of_the_page_is_declared_and_nothing_else_without_saying_so() -> None:
    declared = {(r.path, verb) for r, verb, method in Methods() if not method.addition and r.path not in ROOT}
    assert declared == {key for key in TABLE if key[0] not in ROOT}


@pytest.mark.parametrize("key", [k for k in sorted(TABLE) if k[0] not in ROOT], ids=" ".join)
def test_method_is_as_the_page_says(key: tuple[str, str]) -> None:
    path, verb, access, arguments, _body, result = TABLE[key]
    [resource] = [r for r in RESOURCES if r.path == path]
    method = resource.methods[verb]
    assert list(resource.Access(verb)) == access
    names = {a.name for a in method.arguments}
    assert arguments - {"dry-run"} <= names, "an argument of 3.1 is not read"
    assert names - arguments <= OURS
    assert (method.answer is TJob) == bool(re.search(r"\bjob(\*\*|$| \(3\.1 only)", result))
    assert method.doc.endswith(".") and resource.doc.endswith(".")


@pytest.mark.req("D20-RAPI-07")
def test_paths_differ_and_match_what_they_should() -> None:
    assert len({r.path for r in RESOURCES}) == len(RESOURCES)
    for resource in RESOURCES:
        path = re.sub(r"\{(job|index)\}", "12", resource.path)
        path = re.sub(r"\{\w+\}", "a_1.b-c", path)
        assert [r.path for r in RESOURCES if r.pattern.fullmatch(path)] == [resource.path]


WORDS = {
    "/2/instances": "instances",
    "/2/instances/{name}": "instances_name",
    "/2/instances/{name}/modify": "instances_name_modify",
    "/2/instances/{name}/disk/{index}/grow": "instances_name_disk_grow",
    "/2/instances-multi-alloc": "instances_multi_alloc",
    "/2/nodes/{name}/role": "nodes_name_role",
    "/2/nodes/{name}/storage/repair": "nodes_name_storage_repair",
    "/2/tags": "tags",
    "/2/instances/{name}/tags": "instances_name_tags",
    "/2/networks/{name}/connect": "networks_name_connect",
    "/2/modify": "cluster_modify",
    "/2/redistribute-config": "redist_config",
}


def test_words_of_reason_trails() -> None:
    assert {r.path: r.word for r in RESOURCES if r.path in WORDS} == WORDS


# Operators can only change what runs where; by the end of the path.
OPERATE = {
    ("console", "GET"),
    ("reboot", "POST"),
    ("startup", "PUT"),
    ("shutdown", "PUT"),
    ("activate-disks", "PUT"),
    ("deactivate-disks", "PUT"),
    ("migrate", "PUT"),
    ("failover", "PUT"),
    ("{job}", "DELETE"),
}


def test_what_a_token_needs() -> None:
    """Nothing that changes the cluster is for readers; every method that is not named above, or here, is for admins."""
    expected = {}
    for r, verb, _ in Methods():
        reads = verb == "GET" or (r.path, verb) == ("/2/query/{resource}", "PUT")
        operates = (r.path.rpartition("/")[2], verb) in OPERATE
        expected[r.path, verb] = "OPERATE" if operates else "READ" if reads else "ADMIN"
    assert {(r.path, verb): method.role.name for r, verb, method in Methods()} == expected
    assert [role.name.lower() for role in Role] == list(constants.RAPI_ROLES)


# Everything that a token with tags reaches.  What is not here is closed to it, whatever its role.
REACHED = {
    Scope.OPEN: {"GET /", "GET /2", "GET /version", "GET /2/features", "GET /2/openapi.json"},
    Scope.LIST: {"GET /2/instances"},
    Scope.INSTANCE: {
        "GET /2/instances/{name}",
        "GET /2/instances/{name}/info",
        "GET /2/instances/{name}/console",
        "GET /2/instances/{name}/tags",
        "POST /2/instances/{name}/reboot",
        "PUT /2/instances/{name}/startup",
        "PUT /2/instances/{name}/shutdown",
        "PUT /2/instances/{name}/activate-disks",
        "PUT /2/instances/{name}/deactivate-disks",
        "PUT /2/instances/{name}/migrate",
        "PUT /2/instances/{name}/failover",
    },
    Scope.OWN_JOB: {"GET /2/jobs/{job}", "DELETE /2/jobs/{job}", "GET /2/jobs/{job}/wait"},
}


def test_what_a_token_with_tags_reaches() -> None:
    found: dict[Scope, set[str]] = {}
    for r, verb, method in Methods():
        if method.scope is not Scope.CLOSED:
            found.setdefault(method.scope, set()).add(f"{verb} {r.path}")
            assert method.role.name.lower() in constants.RAPI_ROLES_WITH_TAGS, "no such token can have this role"
        if method.scope is Scope.LIST:
            assert isinstance(method.action, Listed), f"{r.path}: only Listed leaves out other instances"
    assert found == REACHED
    # With any other role a token could give itself more instances: by a tag, a new name, or a new instance.
    assert constants.RAPI_ROLES_WITH_TAGS == ("read", "operate")


def test_every_addition_is_described_and_has_tests_of_its_own() -> None:
    """``test_every_method`` leaves them out."""
    folders = (Path(TOP, "test", level, "rapi") for level in ("unit", "integration"))
    texts = [path.read_text("utf-8") for folder in folders for path in folder.glob("test_*.py")]
    page = Path(TOP, "doc", "extensions.rst").read_text("utf-8")
    for resource, verb, method in Methods():
        if not method.addition:
            continue
        asked = re.compile(rf'"{verb}", f?"{re.escape(resource.path)}["?{{]')
        assert f"``{resource.path}``" in page, f"describe {resource.path} in doc/extensions.rst"
        assert any(map(asked.search, texts)), f"{verb} {resource.path} needs a test that asks for it"


@pytest.mark.req("D20-FLAG-28")
def test_flags_of_a_node_have_the_names_that_the_page_describes() -> None:
    flags = {"offline": True, "drained": False, "master_candidate": True, "role": "O"}
    values = {**flags, "uuid": "u", "serial_no": 3}
    master = NotingMaster(Query=lambda kind, fields, qfilter: {"data": [[[0, values.get(field)] for field in fields]]})
    shown = Act("/2/nodes/{name}", "GET", master=master)[0].value
    assert {name: shown[name] for name in flags} == flags
    page = Path(TOP, "doc", "rapi.rst").read_text("utf-8").partition("``/2/nodes/{name}``\n")[2].partition("\n``/2/")[0]
    assert [name for name in flags if f"{name}: " not in page] == []


def test_every_answer_has_a_type_and_every_body_an_example() -> None:
    for resource, verb, method in Methods():
        where = f"{verb} {resource.path}"
        assert method.answer is not ht.TAny, where
        if method.body in (BodyUse.REQUIRED, BodyUse.ANY):
            assert method.example is not None, where
        if method.body_type is not None:
            assert method.body_type(method.example), where


def test_first_steps_of_the_page_can_be_taken() -> None:
    """Their bodies are accepted, the disks can be migrated, and no password is in a command line."""
    with open(os.path.join(TOP, "doc", "rapi-intro.rst.inc"), encoding="utf-8") as stream:
        steps = stream.read().partition("First steps\n")[2].partition("Rules for all resources\n")[0]
    creation, migration = (json.loads(text) for text in re.findall(r"-d '(.*?)'", steps, re.DOTALL))
    [created] = Act("/2/instances", "POST", creation)[1].ops
    assert created["disk_template"] in disk.Mirrored()
    [migrated] = Act("/2/instances/{name}/migrate", "PUT", migration)[1].ops
    assert (migrated["target_node"] is not None) == (created["disk_template"] in disk.With(mirror="external"))
    commands = [line for line in steps.splitlines() if "curl" in line or "$R" in line]
    assert commands and not [line for line in commands if "secret" in line or "--user" in line]


def test_page_for_people_is_current_and_well_formed() -> None:
    loader = importlib.machinery.SourceFileLoader("write_rapi", os.path.join(TOP, "tools", "write-rapi"))
    spec = importlib.util.spec_from_loader("write_rapi", loader)
    assert spec is not None
    writer = importlib.util.module_from_spec(spec)
    loader.exec_module(writer)
    page = writer.Page()
    assert Path(writer.PAGE).read_text("utf-8") == page, "run .venv/bin/python tools/write-rapi"
    docutils.core.publish_string(page, writer="null", settings_overrides={"report_level": 2, "halt_level": 2})


def test_every_feature_says_what_it_means() -> None:
    page = Path(TOP, "doc", "rapi.rst").read_text("utf-8")
    [resource] = [r for r in RESOURCES if r.path == "/2/features"]
    described = resource.methods["GET"].answer.Schema()["items"]["description"]
    for word, text in FEATURES.items():
        assert re.fullmatch(r"[a-z0-9-]+", word) and text.endswith(".")
        assert f"\n``{word}``\n   " in page and f"* `{word}`: {text}" in described


# Values that 3.1 has in a table of page 7, by the section's heading.
SHOWN = {
    "### 7.1": ("/2/info", "GET"),
    "### 7.2": ("/2/nodes/{name}", "GET"),
    "### 7.3": ("/2/instances/{name}", "GET"),
    "### 7.4": ("/2/groups/{name}", "GET"),
    "### 7.5": ("/2/networks/{name}", "GET"),
    "### 7.7": ("/2/jobs/{job}", "GET"),
    "### 7.9": ("/2/filters/{uuid}", "GET"),
}


@pytest.mark.parametrize("section", SHOWN)
def test_objects_have_the_keys_of_the_page(section: str) -> None:
    with open(os.path.join(TOP, "doc", "reference", "rapi.md"), encoding="utf-8") as stream:
        text = stream.read().partition(f"\n{section} ")[2].partition("\n### ")[0]
    table = re.search(r"^\| (?:key|field)s? \|.*\n(?:\|.*\n)+", text, re.MULTILINE)
    assert table is not None
    cells = [re.sub(r"\(.*?\)", "", row.split("|")[1]) for row in table[0].splitlines()[2:]]
    keys = {name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)}
    path, verb = SHOWN[section]
    [resource] = [r for r in RESOURCES if r.path == path]
    declared = set(resource.methods[verb].answer.Schema()["required"])
    repeated = {"vg_name", "drbd_helper", "secondary_ip"}
    assert declared - repeated == keys
    assert (declared & repeated) == {"### 7.1": {"vg_name", "drbd_helper"}, "### 7.2": {"secondary_ip"}}.get(
        section, set()
    )


@pytest.mark.req("D20-RAPI-08")
def test_every_path_has_the_version_in_front(tmp_path: Path) -> None:
    """Only the two that say which versions there are do without it, as in 3.1, and the metrics, which have their own."""
    site = Site(str(tmp_path / "users"), master=NotingMaster())
    paths = [r.path for r in RESOURCES]
    assert [path for path in paths if not re.fullmatch(r"/2(/.+)?", path)] == ["/", "/version", "/metrics"]
    for path in paths:
        bare = path.format(**NAMES).removeprefix("/2")
        for wrong in (bare, f"/1{bare}", f"/3{bare}", f"/v2{bare}", f"/2.0{bare}"):
            if wrong and wrong not in paths:
                for verb in ("GET", "PUT", "POST", "DELETE"):
                    assert site.Ask(verb, wrong, headers=WRITER).status == 404, wrong
