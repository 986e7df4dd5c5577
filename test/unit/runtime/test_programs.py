"""Running programs, on both sides."""

from __future__ import annotations

import pytest
from support.sides import Everywhere, Place

from ganeti import errors, runtime


@Everywhere
def test_a_program_gets_its_arguments_and_gives_its_output(place: Place) -> None:
    result = runtime.RunCmd([place.Program("echo"), "a b", "$HOME;'`"])
    assert (result.failed, result.exit_code, result.signal) == (False, 0, None)
    assert result.stdout == "a b $HOME;'`\n"
    assert result.stderr == ""
    assert result.output == result.stdout
    assert result.fail_reason == ""
    assert runtime.RunCmd([place.Program("cat")], stdin="from us ä").stdout == "from us ä"
    assert runtime.RunCmd([place.Program("cat")]).stdout == ""


@Everywhere
def test_a_failure_says_which_command_and_why(place: Place) -> None:
    result = runtime.RunCmd([place.Program("fail"), "3"])
    assert result.failed
    assert result.exit_code == 3
    assert result.stdout == "some output\n"
    assert result.stderr.endswith("no such volume\n")
    assert result.fail_reason == f"command '{place.Program('fail')} 3': exit code 3 (no such volume)"
    missing = runtime.RunCmd([place.Path("none at all"), "x"])
    assert missing.failed
    assert missing.exit_code == 127
    assert f"'{place.Path('none at all')}' x" in missing.fail_reason
    assert "not found" in missing.fail_reason
    elsewhere = runtime.RunCmd([place.Program("echo")], cwd=place.Path("nowhere"))
    assert elsewhere.failed
    assert "nowhere" in elsewhere.fail_reason


@Everywhere
def test_the_environment_is_ours_or_just_the_one_given(place: Place) -> None:
    show = place.Program("show")
    assert runtime.RunCmd([show, "LC_ALL"]).stdout == "C\n"
    assert runtime.RunCmd([show, "PATH"]).stdout == runtime.Environment()["PATH"] + "\n"
    env = {"PATH": "/usr/bin:/bin", "OURS": "1"}
    assert runtime.RunCmd([show, "OURS"], env=env).stdout == "1\n"
    assert runtime.RunCmd([show, "HOME"], env=env).stdout == "(unset)\n"
    with pytest.raises(TypeError):
        runtime.Environment()["X"] = "1"  # type: ignore[index]


@Everywhere
def test_a_program_that_takes_too_long_is_ended(place: Place) -> None:
    began = runtime.Monotonic()
    result = runtime.RunCmd([place.Program("wait"), "300"], timeout=0.1)
    assert result.failed
    assert result.signal == 15
    assert result.exit_code is None
    assert "0.1 seconds" in result.fail_reason
    assert 0.1 <= runtime.Monotonic() - began < 30
    assert not runtime.RunCmd([place.Program("wait"), "0.01"], timeout=30).failed


@Everywhere
def test_output_goes_to_a_file_if_asked(place: Place) -> None:
    path = place.Path("log")
    runtime.WriteFile(path, b"before\n")
    result = runtime.RunCmd([place.Program("echo"), "one"], output_path=path)
    assert (result.stdout, result.stderr) == ("", "")
    runtime.RunCmd([place.Program("fail"), "1"], output_path=path)
    assert runtime.ReadText(path) == "before\none\nsome output\nfirst line\nno such volume\n"


@Everywhere
def test_a_started_process_lives_by_itself(place: Place) -> None:
    done = place.Path("done")
    pid = runtime.StartProcess([place.Program("touch"), done])
    assert runtime.WaitProcess(pid, 30)
    assert runtime.ReadText(done) == "touched\n"
    assert not runtime.ProcessAlive(pid)
    assert not runtime.KillProcess(pid, 15)
    pid = runtime.StartProcess([place.Program("wait"), "300"])
    assert runtime.ProcessAlive(pid)
    assert not runtime.WaitProcess(pid, 0.05)
    assert runtime.KillProcess(pid, 0)
    assert runtime.KillProcess(pid, 15, group=True)
    assert runtime.WaitProcess(pid, 30)
    assert runtime.WaitProcess(pid, 0)
    log = place.Path("log")
    assert runtime.WaitProcess(runtime.StartProcess([place.Program("fail"), "1"], log_path=log), 30)
    assert runtime.ReadText(log) == "some output\nfirst line\nno such volume\n"
    with pytest.raises(errors.RunCmdError, match="not found"):
        runtime.StartProcess([place.Path("none")])
    assert runtime.ProcessAlive(runtime.ProcessId())


@Everywhere
def test_a_call_that_makes_no_sense_is_a_bug(place: Place) -> None:
    for argv in ([], [""], "ls -l", ["ls", "a\0b"], ["ls", 1]):
        with pytest.raises(errors.ProgrammerError):
            runtime.RunCmd(argv)  # type: ignore[arg-type]
        with pytest.raises(errors.ProgrammerError):
            runtime.StartProcess(argv)  # type: ignore[arg-type]
    for pid in (1, 0, -1):
        with pytest.raises(errors.ProgrammerError):
            runtime.KillProcess(pid, 9)


@Everywhere
def test_programs_run_side_by_side(place: Place) -> None:
    results = runtime.Queue()

    def run(number: int) -> None:
        results.put((number, runtime.RunCmd([place.Program("echo"), str(number)]).stdout))

    for number in range(8):
        runtime.Thread(run, f"runner {number}", (number,)).start()
    assert sorted(results.get(30) for _ in range(8)) == [(number, f"{number}\n") for number in range(8)]


@Everywhere
def test_programs_of_all_threads_are_killed_at_once(place: Place) -> None:
    """So that nothing stays behind when the user interrupts."""
    results = runtime.Queue()
    for number in range(4):
        runtime.Thread(lambda: results.put(runtime.RunCmd([place.Program("wait"), "3000"])), f"runner {number}").start()
    ended = []
    # A program that had not begun yet is hit by a later shot.
    while len(ended) < 4:
        runtime.KillPrograms()
        try:
            ended.append(results.get(0.05))
        except runtime.QueueEmpty:
            pass
    assert [(result.failed, result.signal, result.timeout) for result in ended] == [(True, 9, None)] * 4
