"""The manual pages of tools say what the tools parse."""

from __future__ import annotations

import importlib
import optparse
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.virtualnode import TOP

# Those whose pages are made around their own parsers.
TOOLS = {
    "adopt": "ganeti.tools.adopt.main",
    "ensure-dirs": "ganeti.tools.ensure_dirs",
    "ganeti-listrunner": "ganeti.tools.listrunner",
    "lvmstrap": "ganeti.tools.lvmstrap",
    "vcluster-setup": "ganeti.tools.vcluster_setup",
}


def Page(tmp_path: Path, name: str) -> str:
    argv = [f"{TOP}/autotools/write-manual", f"{TOP}/man/{name}.8.rst", str(tmp_path / name)]
    subprocess.run([sys.executable, "-B", *argv, f"{TOP}/lib/_autoconf.py", TOP], check=True, timeout=50)
    return re.sub(r"\\f[BIRP]|^\.B ", "", (tmp_path / name).read_text().replace("\\-", "-"), flags=re.MULTILINE)


@pytest.mark.parametrize("name", TOOLS)
def test_every_option_of_a_tool_is_in_its_page(tmp_path: Path, name: str) -> None:
    parser: optparse.OptionParser = importlib.import_module(TOOLS[name]).MakeParser()
    page = Page(tmp_path, name)
    for option in parser.option_list:
        heading = re.compile(
            rf"^{re.escape(option.get_opt_string())}\b.*\n(\S.*)\n|^.*, {option.get_opt_string()}\b", re.M
        )
        assert (heading.search(page) is None) == (option.help == optparse.SUPPRESS_HELP), option
        assert option.help == optparse.SUPPRESS_HELP or option.help, option
    assert "%default" not in page and "@" not in page


def test_values_and_defaults_are_shown(tmp_path: Path) -> None:
    page = Page(tmp_path, "vcluster-setup")
    assert "\n-p PREFIX\nFirst three numbers of all addresses [192.0.2].\n" in page
    assert "--wait=SECONDS\nHow long to wait for jobs [3600].\n" in Page(tmp_path, "adopt")


def test_the_page_of_a_program_in_shell_has_what_its_help_says(tmp_path: Path) -> None:
    program = os.path.join(TOP, "daemons", "tools", "users-setup")
    said = subprocess.run([program, "--help"], capture_output=True, text=True, check=True, timeout=30).stdout
    rows = re.findall(r"^  (-.*?)   +(.*)$", said, re.M)
    assert [names for names, _ in rows] == ["--yes-do-it", "-h, --help"]
    page = Page(tmp_path, "users-setup")
    assert all(f"\n{names}\n{text}.\n" in page for names, text in rows)
