"""Every command line that a message, a manual or a document names is one that works."""

import os

import pytest
from support import advice
from support.virtualnode import TOP

from ganeti import pathutils

# What describes other releases, or what is to come.
OTHER_RELEASES = ("doc/reference", "doc/roadmap.rst", "doc/design-")
WAY_OUT = """
Each of these command lines is printed to somebody or stands in a document, and does not work as it stands.
Name a command that exists, with options before its arguments, and (in messages) with all its arguments;
what comes with a later release is not mentioned until then.
"""


def _Lines():
    for folder, _, names in os.walk(os.path.join(TOP, "lib")):
        for name in sorted(names):
            if name.endswith(".py"):
                yield from advice.FromPython(os.path.join(folder, name))
    documents = [os.path.join(TOP, "README"), os.path.join(TOP, "NEWS"), os.path.join(TOP, "CONTRIBUTING.rst")]
    for top in ("man", "doc"):
        for folder, _, names in os.walk(os.path.join(TOP, top)):
            documents += [
                os.path.join(folder, name)
                for name in sorted(names)
                if name.endswith((".rst", ".md")) and name != "status.rst"
            ]
    for path in documents:
        where = os.path.relpath(path, TOP)
        if not where.startswith(OTHER_RELEASES):
            with open(path, encoding="utf-8") as stream:
                yield from advice.FromText(where, stream.read())


@pytest.mark.slow
def test_every_command_line_works():
    found = []
    count = 0
    for line in _Lines():
        count += 1
        problem = advice.Problem(line)
        if problem:
            found.append(f"{line.where}: {line.text}\n    {problem}")
    assert count > 100  # it looks where they are
    if found:
        pytest.fail(WAY_OUT + "\n".join(dict.fromkeys(found)), pytrace=False)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("run 'gnt-node modify -O yes node3' first", None),
        ("'gnt-instance grow-disk web1 0 10g' makes it larger", None),
        ("'gnt-node add --no-node-setup PLACEHOLDER'", None),
        ("``gnt-instance list -o +tags 'web*'``", None),
        ("'/usr/lib/ganeti/daemon-util start ganeti-masterd'", None),
        ("'daemon-util start ganeti-masterd'", "not on anybody's PATH"),
        ("'node-cleanup --yes-do-it' on it", "not on anybody's PATH"),
        ("if it has left that one, run node-cleanup here first", "not on anybody's PATH"),
        ("the disk has both 'size' and 'adopt'", None),
        ("'ganeti-masterd --take-over'", None),
        ("'gnt-node empty node3' moves them", "no command 'empty'"),
        ("call burnin on all nodes first", "no program 'burnin'"),
        ("see 'gnt-node strength on node3'", "no command 'strength'"),
        ("'gnt-cluster renew-keys' makes them new", "no command 'renew-keys'"),
        ("'gnt-instance migrate --clean web1'", "no option '--clean'"),
        ("'gnt-instance migrate -J hail web1'", "no option '-J'"),
        ("'gnt-node modify --drained=perhaps node1'", "Invalid boolean value 'perhaps'"),
        ("'gnt-node modify --force=yes node1'", "takes no value"),
        ("'gnt-node modify node1 --force'", "stands behind an argument"),
        ("'gnt-instance replace-disks -n NODE'", "the command takes <instance>"),
        ("'gnt-node modify --drained'", "needs a value"),
        ("'gnt-instance rename web1'", "takes <instance> <host>"),
        ("'/usr/lib/ganeti/daemon-util launch ganeti-masterd'", "no action 'launch'"),
        ("'/usr/lib/ganeti/daemon-util start'", "takes: NAME"),
        ("'ganeti-masterd --take-under'", "no option '--take-under'"),
        ("Example::\n\n  gnt-node lst\n", "no command 'lst'"),
        ("Example::\n\n  gnt-node modify \\\n    --drained=yes node1\n", None),
        ("Example::\n\n  gnt-node modify \\\n    --drained=perhaps node1\n", "Invalid boolean value 'perhaps'"),
        ("gnt-job 'cancel", None),
        ("the program move-instance moves it", "no program 'move-instance'"),
    ],
)
def test_what_is_wrong_with_a_line(text, problem):
    found = [advice.Problem(line) for line in advice.FromText("x", text, whole=True)]
    assert len(found) == 1
    if problem is None:
        assert found == [None]
    else:
        assert problem in found[0]


def test_documents_may_name_a_command_without_its_arguments():
    lines = list(advice.FromText("x", "``gnt-instance rename`` and ``gnt-instance rename web1``"))
    assert [advice.Problem(line) is None for line in lines] == [True, False]


def test_strings_of_modules(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(
        '"""Docs: \'gnt-job info\'."""\n\n\ndef run(x):\n    """Docs."""\n    return f"use \'gnt-job info {x}\'" "x" + "gnt-job wait"\n'
        "\n\nHINT = f\"'{pathutils.NODE_CLEANUP} --yes-do-it' on it\"\n"
    )
    lines = sorted(advice.FromPython(str(path)), key=lambda line: line.text)
    assert [(line.text, line.whole) for line in lines] == [
        (f"{pathutils.NODE_CLEANUP} --yes-do-it", True), ("gnt-job info", False), ("gnt-job info PLACEHOLDER", True), ("gnt-job wait", False),
    ]  # fmt: skip
