"""A run of all tests finds every one of them."""

from __future__ import annotations

import fnmatch

import pytest


def test_no_directory_of_tests_is_passed_over(pytestconfig: pytest.Config) -> None:
    patterns = pytestconfig.getini("norecursedirs")
    top = pytestconfig.rootpath
    folders = {folder for path in (top / "test").rglob("test_*.py") for folder in path.relative_to(top).parts[:-1]}
    assert {"unit", "build"} <= folders
    assert [folder for folder in sorted(folders) for pattern in patterns if fnmatch.fnmatch(folder, pattern)] == []
