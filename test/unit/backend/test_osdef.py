"""Which directories are operating system definitions, and what they offer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.nodes import Node

from ganeti.backend.guestos import osdef
from ganeti.utils import definitions


class Shelf:
    """A search path with two directories, and definitions on them."""

    def __init__(self, base: Path):
        self.first, self.second = base / "first", base / "second"
        self.first.mkdir()
        self.second.mkdir()

    def Put(self, name: str, where: Path | None = None, **files: str) -> Path:
        """A valid definition of API 20; keyword arguments replace files, an empty one removes it."""
        path = (where or self.first) / name
        path.mkdir()
        wanted = {
            "ganeti_api_version": "20\n15\n5\n",
            "create": "#!/bin/sh\n",
            "import": "#!/bin/sh\n",
            "export": "#!/bin/sh\n",
            "rename": "#!/bin/sh\n",
            "verify": "#!/bin/sh\n",
            "parameters.list": "size   how large it is\nplain\n",
            "variants.list": "# comment\nsmall\n\nlarge\n",
            **{key.replace("__", "."): value for key, value in files.items()},
        }
        for file, text in wanted.items():
            if text:
                (path / file).write_text(text)
                if "." not in file and file not in ("ganeti_api_version", "hypervisors", "os_version"):
                    (path / file).chmod(0o755)
        return path


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    made = Shelf(tmp_path)
    with Node(tmp_path, "node1", [made.first, made.second, tmp_path / "absent"]):
        yield made


@pytest.mark.req("D20-OS-18", "D21-OS-01", "D21-OS-07", "D22-OSP-01", "D22-OSP-06")
def test_valid_definition_tells_all(shelf: Shelf) -> None:
    path = shelf.Put("tiny")
    found = osdef.Load("tiny+large")
    assert found.api_versions == (20, 15, 5) and found.api_version == 20
    assert found.variants == ("small", "large")
    assert found.parameters == (("size", "how large it is"), ("plain",))
    assert found.Script("rename") == f"{path}/rename"
    assert found.trusted and found.hypervisors is None and found.version is None
    assert osdef.Diagnose() == [
        ["tiny", str(path), True, "", ["small", "large"], [["size", "how large it is"], ["plain"]], [5, 15, 20], True]
    ]


def test_first_directory_wins_and_all_are_listed(shelf: Shelf) -> None:
    shelf.Put("tiny", shelf.second)
    first = shelf.Put("tiny", shelf.first)
    (shelf.first / ".hidden").mkdir()
    assert osdef.Load("tiny").path == str(first)
    assert [row[1] for row in osdef.Diagnose()] == [str(shelf.first / "tiny"), str(shelf.second / "tiny")]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"ganeti_api_version": ""}, "Required file 'ganeti_api_version' not found under path DIR: "),
        ({"ganeti_api_version": "20\nx\n"}, "API version.s. can't be converted to integer: "),
        ({"ganeti_api_version": "5\n"}, r"API version mismatch for path 'DIR': found \[5\], want \[10, 15, 20\]\."),
        ({"create": ""}, r"A create script \(trusted or untrusted\) under path 'DIR' must exist"),
        ({"import": ""}, "File 'import' under path 'DIR' is missing"),
        ({"export": ""}, "File 'export' under path 'DIR' is missing"),
        ({"parameters__list": ""}, "File 'parameters.list' under path 'DIR' is missing"),
        ({"parameters__list": "Size a\nsize b\n"}, "same variable OSP_SIZE"),
        ({"parameters__list": "a.b c\n"}, "cannot become part of a variable"),
    ],
)
@pytest.mark.req("D20-OS-04", "D22-OSP-07", "D22-OSP-09")
def test_invalid_definitions_say_why(shelf: Shelf, files: dict[str, str], words: str) -> None:
    path = shelf.Put("odd", **files)
    with pytest.raises(osdef.OsError, match=words.replace("DIR", str(path))):
        osdef.Load("odd")
    [row] = osdef.Diagnose()
    assert row[2] is False and row[3] and row[4:] == [[], [], [], True]


def test_scripts_must_be_runnable_files(shelf: Shelf) -> None:
    path = shelf.Put("odd")
    (path / "rename").chmod(0o644)
    with pytest.raises(osdef.OsError, match=f"File 'rename' under path '{path}' is not executable"):
        osdef.Load("odd")
    (path / "rename").unlink()
    (path / "rename").mkdir()
    with pytest.raises(osdef.OsError, match=f"File 'rename' under path '{path}' is not a regular file"):
        osdef.Load("odd")


@pytest.mark.req("D20-OS-02", "D20-OS-03")
def test_only_create_is_mandatory_and_what_is_missing_is_refused(shelf: Shelf) -> None:
    gone = dict.fromkeys(("import", "export", "rename", "verify"), "")
    shelf.Put("bare", **gone)
    found = osdef.Load("bare")
    for script in gone:
        with pytest.raises(osdef.OsError, match=f"OS bare has no {script} script .*which this operation needs"):
            found.Script(script)


@pytest.mark.req("D20-OS-19")
def test_list_of_hypervisors_limits_use(shelf: Shelf) -> None:
    shelf.Put("limited", hypervisors="# only\nkvm\n")
    found = osdef.Load("limited")
    found.CheckHypervisor("kvm")
    with pytest.raises(osdef.OsError, match=r"does not support hypervisor fake.*lists kvm"):
        found.CheckHypervisor("fake")


@pytest.mark.req("D22-OSP-02")
def test_version_is_the_first_line(shelf: Shelf) -> None:
    shelf.Put("versioned", os_version="1.2-3\nchanged: all\n", hypervisors="kvm\n")
    shelf.Put("plain")
    shelf.Put("broken", create="")
    assert osdef.ExtraInfo() == {
        "versioned": {"version": "1.2-3", "hypervisors": ["kvm"]},
        "plain": {"version": None, "hypervisors": None},
    }


@pytest.mark.req("D21-OS-09")
def test_variants_must_fit(shelf: Shelf) -> None:
    shelf.Put("many")
    shelf.Put("none", variants__list="")
    osdef.Load("many").CheckVariant("small")
    for name, variant, words in [
        ("many", "", "must include a variant"),
        ("many", "huge", "Unsupported OS variant 'huge'"),
        ("none", "small", "doesn't support variants"),
    ]:
        with pytest.raises(osdef.OsError, match=words):
            osdef.Load(name).CheckVariant(variant)


@pytest.mark.parametrize("name", ["../first/tiny", "a/b", "", ".", "..", "x" * 300, "+small"])
def test_names_stay_in_the_search_path(shelf: Shelf, name: str) -> None:
    shelf.Put("tiny")
    with pytest.raises(osdef.OsError, match="not found in search path"):
        osdef.Load(name)


def test_untrusted_script_makes_it_untrusted(shelf: Shelf) -> None:
    shelf.Put("guest", create="", create_untrusted="#!/bin/sh\n")
    assert osdef.Load("guest").trusted is False
    assert osdef.Diagnose()[0][-1] is False


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    for row in definitions.ParseParameters(text):
        assert 1 <= len(row) <= 2 and all(row)
    assert all(line and not line.startswith("#") for line in osdef.ParseVariants(text))
    try:
        osdef.ParseApiVersions(text)
    except ValueError:
        pass


def test_list_that_cannot_be_read_is_an_error_not_a_crash(shelf: Shelf) -> None:
    path = shelf.Put("odd")
    (path / "parameters.list").write_bytes(b"\xff\xfe")
    with pytest.raises(osdef.OsError, match="Error while reading the OS parameters file"):
        osdef.Load("odd")
    os.unlink(path / "parameters.list")
    os.mkfifo(path / "parameters.list")
    with pytest.raises(osdef.OsError, match="not a regular file"):
        osdef.Load("odd")
