"""The pages of doc/reference say what the code declares, and every citation leads somewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.virtualnode import TOP

from ganeti import opcodes, query, ssconf
from ganeti.luxi import methods
from ganeti.params import be, disk, hv, nd
from ganeti.rpc import procedures

PAGES = Path(TOP) / "doc" / "reference"
TREES = ("lib", "test", "tools", "os", "daemons", "autotools", "man", "doc")
CITATION = re.compile(r"doc/reference/([a-z]+)\.md((?: |,? and | to |, )\(?(?:[a-h]\.)?\d[\d.]*\)?)*")


def Text(page: str) -> str:
    return (PAGES / f"{page}.md").read_text(encoding="utf-8")


def Section(page: str, heading: str) -> str:
    """The text below a heading, up to the next one of the same or a higher rank."""
    text = Text(page)
    start = re.search(rf"^(#+) {re.escape(heading)}(?!\w).*\n", text, re.MULTILINE)
    assert start, f"{page}.md has no section {heading}"
    end = re.compile(rf"^#{{1,{len(start[1])}}} ", re.MULTILINE).search(text, start.end())
    return text[start.end() : end.start() if end else None]


def Rows(text: str) -> Iterator[list[str]]:
    """Rows of all tables in a text, without their heads."""
    head = True
    for line in text.splitlines():
        if not line.startswith("|"):
            head = True
            continue
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])]
        if set("".join(cells)) <= set("-: "):
            head = False
        elif not head:
            yield cells


def Value(text: str) -> object:
    """A default as the pages write it."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def test_tables_are_read() -> None:
    assert list(Rows("| a | b |\n|---|---|\n| 1 | x\\|y |\n\nno table\n| c |\n|-|\n| 2 |")) == [["1", "x|y"], ["2"]]


def test_opcodes() -> None:
    found: dict[str, dict[str, str]] = {}
    for block in re.split(r"^(?=\*\*OP_)", Section("opcodes", "2. The opcodes"), flags=re.MULTILINE)[1:]:
        name = block[2 : block.index("**", 2)]
        found[name] = {row[0].rstrip("+"): row[2] for row in Rows(block)}
    assert found.keys() == opcodes.OP_MAPPING.keys()
    common = {row[0] for row in Rows(Section("opcodes", "1.3 Common parameters"))}
    for name, parameters in found.items():
        declared = opcodes.OP_MAPPING[name].OP_PARAMS
        assert parameters.keys() | common == declared.keys(), name


@pytest.mark.parametrize(
    ("heading", "declared"),
    [
        ("1.3 kvm", hv.DEFAULTS["kvm"]),
        ("1.4 xen-pvm", hv.DEFAULTS["xen-pvm"]),
        ("1.5 xen-hvm", hv.DEFAULTS["xen-hvm"]),
        ("1.6 lxc", hv.DEFAULTS["lxc"]),
        ("2. Backend parameters", be.DEFAULTS),
        ("4. Node parameters", nd.DEFAULTS),
    ],
)
def test_parameters(heading: str, declared: dict[str, object]) -> None:
    rows = list(Rows(Section("parameters", heading)))
    table = [row for row in rows if len(row) == len(rows[0])]
    found = {row[0]: Value(row[2]) for row in table}
    # Accepted as input only.
    found.pop("memory", None)
    assert found.keys() == declared.keys()
    different = {
        name: (value, declared[name])
        for name, value in found.items()
        if str(value) != str(declared[name]) and not str(value).startswith("<")
    }
    assert different == {}


def test_disk_parameters() -> None:
    found: dict[str, dict[str, object]] = {}
    for row in Rows(Section("parameters", "5. Disk parameters")):
        if row[1] != "-":
            found.setdefault(row[0], {})[row[1]] = Value(row[3])
    declared = {template: dict(values) for template, values in disk.AllDefaults().items() if values}
    assert found == declared


def test_procedures() -> None:
    """Every procedure of 3.1 has a row, and its arguments have the names that the page gives them."""
    found = {row[0]: row[1] for row in Rows(Section("noderpc", "6.")) if len(row) == 5}
    declared = {name: row for name, row in procedures.PROCEDURES.items() if not name.startswith("store_")}
    assert found.keys() - declared.keys() == set()
    for name, arguments in found.items():
        names = re.findall(r"(?:^|; )(\w+)(?=:)", arguments)
        assert len(declared[name].args) >= len(names), name


def test_luxi_methods() -> None:
    rows = list(Rows(Text("luxi")[Text("luxi").index("\n## 4. Methods") : Text("luxi").index("\n### 4.1 ")]))
    assert {row[0] for row in rows} == set(methods.METHODS)


def test_ssconf_keys() -> None:
    found: set[str] = set()
    for row in Rows(Section("files", "7. ssconf")):
        found |= set(row[0].split(", "))
    hypervisors = [f"hvparams_{name}" for name in hv.TABLES]
    assert (found - {"hvparams_HV"}) | set(hypervisors) == set(ssconf.KEYS)


def test_query_kinds() -> None:
    text = Text("queries")
    missing = [name for name in query.KIND_NAMES if not re.search(rf"(?m)^(\|{name}\||### .*\b{name}\b)", text)]
    assert missing == []


# --- citations ------------------------------------------------------------------------------------------------------------


def Citations() -> Iterator[tuple[str, str, list[str]]]:
    """(file, page, sections) of every citation in the tree."""
    for tree in TREES:
        for path in sorted((Path(TOP) / tree).rglob("*")):
            if not path.is_file() or PAGES in path.parents or path.suffix in (".pyc", ".json", ".gz"):
                continue
            if path == Path(__file__):
                continue
            try:
                text = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
            for match in CITATION.finditer(text):
                cited = match[0].partition(".md")[2]
                yield (
                    str(path.relative_to(TOP)),
                    match[1],
                    [number.rstrip(".") for number in re.findall(r"(?:[a-h]\.)?\d[\d.]*", cited)],
                )


def Headings(page: str) -> set[str]:
    """Numbers of a page's sections: "3.1", and "d.4" where the parts have letters."""
    found = set()
    for match in re.finditer(r"^#+ (?:\(?([a-h])\)?[. ])?(\d[\d.]*)?", Text(page), re.MULTILINE):
        letter, number = match[1], (match[2] or "").rstrip(".")
        if letter or number:
            found.add(".".join(part for part in (letter, number) if part))
    # Rows and paragraphs that bear a number, as "**8.1**" or "| 12.4 |", are cited as well.
    found |= {
        m[1].rstrip(".") for m in re.finditer(r"^(?:\*\*|\| ?)((?:[a-h]\.)?\d[\d.]*)\b", Text(page), re.MULTILINE)
    }
    return found


def test_citations_lead_somewhere() -> None:
    wrong = []
    found = list(Citations())
    assert len(found) > 100, "the citations were not found"
    for file, page, sections in found:
        if not (PAGES / f"{page}.md").exists():
            wrong.append(f"{file}: doc/reference/{page}.md does not exist")
            continue
        known = Headings(page)
        wrong += [
            f"{file}: doc/reference/{page}.md has no section {number}" for number in sections if number not in known
        ]
    assert wrong == []
