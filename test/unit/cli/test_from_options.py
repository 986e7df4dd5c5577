"""Opcodes made from options, and programs that have no command words."""

import pytest

from ganeti.cli import completion, jobs, main, manual, parser
from ganeti.cli.command import PROGRAMS, Command, LoadProgram, One, Program
from ganeti.opcodes import OpInstanceCreate, OpInstanceShutdown, OpTestDelay


def _Options(program, command, *words):
    loaded = LoadProgram(program)
    return main.MakeParser(loaded, command, loaded.Load(command)).parse_args([*words])[0]


def test_options_become_the_parameters_of_the_same_names():
    options = _Options("gnt-instance", "shutdown", "--timeout=5", "--no-remember", "--priority=high", "--dry-run")
    op = jobs.FromOptions(OpInstanceShutdown, options, instance_name="web")
    assert (op.instance_name, op.timeout, op.no_remember, op.force) == ("web", 5, True, False)
    # What all opcodes have is set at submission: the option's word is not the opcode's number.
    assert not {"priority", "dry_run", "reason", "debug_level"} & vars(op).keys()
    assert jobs.Changes(op, "instance_name") == ["timeout", "no_remember"]


def test_what_is_given_wins_over_options():
    options = _Options("gnt-debug", "delay", "--repeat=3", "-n", "node1")
    assert jobs.FromOptions(OpTestDelay, options, duration=1.0, repeat=7).repeat == 7


def test_what_was_not_given_stays_unset():
    op = jobs.FromOptions(OpInstanceCreate, _Options("gnt-instance", "add"), instance_name="x", pnode=None, hvparams={})
    assert not {"pnode", "hvparams", "beparams", "osparams", "disk_template", "tags"} & vars(op).keys()


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_two_options_share_a_destination(name):
    """But for those of which the last one given counts."""
    for command_name, command in LoadProgram(name).Forms():
        dests = [option.settings["dest"] for option in command.options]
        alone = [dest for dest in dests if dest not in ("multi_mode", "status_filter")]
        assert sorted(alone) == sorted(set(alone)), command_name


# --- programs without command words --------------------------------------------------------------------------------------

_SEEN: list[object] = []


def _Balance(options, arguments):
    _SEEN.append((options.limit, arguments))
    return 4


BALANCE = Program(
    "hbalance",
    "balances a cluster",
    command=Command(
        _Balance,
        "Balance a cluster",
        (One("node"),),
        (parser.Value("--limit", dest="limit", type="int", default=3, metavar="NUMBER", text="Most steps"),),
        details="It looks at every node.",
    ),
)


def test_a_program_may_be_its_only_command(capsys):
    _SEEN.clear()
    assert main.RunProgram(BALANCE, ["--limit=5", "node1"]) == 4
    assert _SEEN == [(5, ["node1"])]
    with pytest.raises(SystemExit) as done:
        main.RunProgram(BALANCE, ["--help"])
    assert done.value.code == 0
    assert capsys.readouterr().out.startswith(
        "Usage\n=====\n  hbalance [options...] <node>\n\nBalance a cluster\n\nIt looks at every node.\n\nOptions\n"
    )
    assert main.RunProgram(BALANCE, ["--version"]) == 0
    assert capsys.readouterr().out.startswith("hbalance (ganeti ")
    with pytest.raises(SystemExit) as done:
        main.RunProgram(BALANCE, ["--limit=x", "node1"])
    assert done.value.code == 2
    assert "hbalance: error: option --limit: invalid integer value: 'x'" in capsys.readouterr().err
    from ganeti.cli.command import UsageError

    with pytest.raises(UsageError, match="hbalance expects 1 argument"):
        main.RunProgram(BALANCE, [])


def test_its_manual_and_completion():
    page = manual.CommandsRst(BALANCE)
    assert page.startswith("Options\n-------\n\n``hbalance [options...] <node>``\n\nBalance a cluster.\n")
    assert "``--limit=NUMBER``\n    Most steps (default: 3).\n" in page
    script = completion.BashScript([BALANCE], "/data", [], [])
    assert "_hbalance() {" in script
    assert "arguments='node'" in script
    assert "case ${COMP_WORDS[1]} in" not in script
