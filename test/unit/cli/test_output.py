"""Tables, info trees, errors, prompts: the parts that stories do not reach."""

import os
import subprocess
import sys

import pytest

from ganeti import errors
from ganeti.cli import failures, info, output, tables
from ganeti.luxi import protocol


def test_units():
    assert [tables.FormatUnit(n) for n in (0, 1023, 1024, 1536, 1024 * 1024)] == ["0M", "1023M", "1.0G", "1.5G", "1.0T"]
    assert [tables.FormatUnit(1536, unit) for unit in "mgt"] == ["1536", "1.5", "0.0"]


def test_times():
    assert tables.FormatTimestamp(None) == "N/A"
    assert tables.FormatTimestamp("x") == "N/A"
    assert tables.FormatTimestamp(1e30) == "N/A"
    assert tables.FormatJobTimestamp([1, 5]).endswith(".000005")
    assert tables.FormatJobTimestamp(None) == "?"
    assert tables.FormatJobTimestamp([1]) == "?"


def test_layout():
    columns = [tables.Column("Name"), tables.Column("Size", True), tables.Column("Last")]
    rows = [["a", "1", "x"], ["long", "22", ""]]
    assert tables.Layout(columns, rows, True, None) == ["Name Size Last", "a       1 x", "long   22 "]
    assert tables.Layout(columns, rows, True, None, pad_last=True) == [
        "Name Size Last",
        "a       1 x   ",
        "long   22     ",
    ]
    assert tables.Layout(columns, rows, False, "") == ["a1x", "long22"]
    assert tables.Layout(columns, [], True, None) == ["Name Size Last"]


def test_cells_cannot_steer_the_terminal():
    assert tables.Layout([tables.Column("N")], [["a\x1b[2J\nb\u009b"]], False, ":") == ["a\\x1b[2J\\nb\\x9b"]
    assert tables.Layout([tables.Column("N")], [["caf\u00e9"]], False, None) == ["caf\u00e9"]


def test_words_of_a_node_cannot_steer_the_terminal(capsys):
    output.ToStdout("OS: \x1b]0;x\x07 caf\u00e9 \u202egnp.exe\n\tnext \udc80\r\u009b2J")
    output.ToStderr(failures.FormatError(errors.OpExecError("Node says \x1b[2J"))[1])
    said = capsys.readouterr()
    assert said.out == "OS: \\x1b]0;x\\x07 caf\u00e9 \\u202egnp.exe\n\tnext \\udc80\\r\\x9b2J\n"
    assert said.err.endswith("Node says \\x1b[2J\n")
    # A separator that the user asked for is not a node's.
    output.ToStdout("a\x1fb", keep="\x1f")
    assert capsys.readouterr().out == "a\x1fb\n"


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_file_for_secrets_is_its_owners_before_they_are_written(umask, tmp_path):
    script = (
        "import os, sys; from ganeti.cli import output; output.KeepToOwner()\n"
        "print(oct(os.fstat(1).st_mode & 0o777), file=sys.stderr); output.ToStdout('key')"
    )
    with open(os.open(tmp_path / "join-data", os.O_WRONLY | os.O_CREAT, 0o666 & ~umask), "w") as stream:
        done = subprocess.run([sys.executable, "-c", script], stdout=stream, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "0o600\n")
    assert (tmp_path / "join-data").read_text() == "key\n" and (tmp_path / "join-data").stat().st_mode & 0o777 == 0o600
    # Pipes and terminals are nobody else's; a device stays as it is.
    before = os.stat("/dev/null").st_mode
    with open("/dev/null", "w") as null:
        assert subprocess.run([sys.executable, "-c", script], stdout=null, stderr=subprocess.PIPE).returncode == 0
    assert os.stat("/dev/null").st_mode == before
    piped = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (piped.returncode, piped.stdout) == (0, "key\n")


def test_roman():
    assert [tables.ToRoman(n) for n in (1, 4, 1994, 3999)] == ["I", "IV", "MCMXCIV", "MMMCMXCIX"]
    assert [tables.ToRoman(n) for n in (0, -1, 4000, True, "x", None)] == [0, -1, 4000, True, "x", None]


def test_info_is_yaml():
    tree = info.Pairs(
        [
            ("z", 1),
            ("a", {"y": None, "x": 1.0}),
            ("list", ["one", info.Pairs([("k", "v"), ("l", ["deep"])]), ["n1", "n2"]]),
            ("tuple", ("a", 2)),
            ("empty", []),
        ]
    )
    assert info.FormatInfo(tree) == (
        "z: 1\na: \n  x: 1\n  y: None\nlist: \n  - one\n  - k: v\n    l: \n      - deep\n  - - n1\n    - n2\n"
        "tuple: [a, 2]\nempty: "
    )
    assert info.ToPlain(tree)["list"][1] == {"k": "v", "l": ["deep"]}


def test_inherited_parameters_are_marked():
    shown = info.WithDefaults({"a": 1, "n": {"x": 2}}, {"a": 1, "b": 2, "n": {"x": 2, "y": 3}})
    assert shown == {"a": 1, "b": "default (2)", "n": {"x": 2, "y": "default (3)"}}


@pytest.mark.parametrize(
    ("err", "code", "text"),
    [
        (errors.OpPrereqError("only text"), 1, "Failure: prerequisites not met for this operation:\nonly text"),
        (errors.OpExecError("x"), 1, "Failure: command execution error:\nx"),
        (errors.HooksFailure("x"), 1, "Failure: hooks general failure: x"),
        (errors.TagError("x"), 1, "Failure: invalid tag(s) given:\nx"),
        (errors.ConfigurationError("x"), 2, "Corrupt configuration file: x\nAborting."),
        (errors.TypeEnforcementError("x"), 1, "Parameter Error: x"),
        (errors.ParameterError("x"), 1, "Failure: unknown/wrong parameter name 'x'"),
        (errors.JobLost("x"), 1, "Error checking job status: x"),
        (errors.JobCanceled("Job was canceled"), 1, "Failure: Job was canceled"),
        (errors.JobQueueError("x", hint="do y"), 1, "Failure: x\ndo y"),
        (errors.ResolverError("host9", -2, "no"), 1, "Failure: can't resolve hostname 'host9'"),
        (protocol.RequestError("bad"), 1, "The master daemon rejected the request:\nbad"),
        (protocol.ProtocolError("odd"), 1, "Unhandled protocol error while talking to the master daemon:\nodd"),
        (protocol.NoMasterError("/x"), 1, "Cannot communicate with socket '/x'."),
        (protocol.TimeoutError("x"), 1, "Timeout while talking to the master daemon."),
        (protocol.PermissionError("/x"), 1, "It seems you don't have permissions to connect to socket '/x'."),
    ],
)
def test_errors(err, code, text):
    found_code, found = failures.FormatError(err)
    assert found_code == code
    assert found.startswith(text)


def test_every_error_class_has_words():
    for name, cls in errors.WIRE_ERRORS.items():
        arguments = ("message", []) if cls is errors.DeviceCreationError else ("message",)
        code, text = failures.FormatError(cls(*arguments) if cls is not errors.HooksAbort else cls([["n", "s", "o"]]))
        assert code in (1, 2), name
        assert text, name


def test_hint_follows_the_text():
    assert failures.FormatError(errors.OpExecError("x", hint="do y"))[1].endswith("x\ndo y")


def test_log_texts_are_safe():
    assert output.SafeEncode("a\tb\nc\rd\x1b\x7f\u00e9\u20ac\U0001f600") == (
        "a\\tb\\nc\\rd\\x1b\\x7f\\xe9\\u20ac\\U0001f600"
    )
