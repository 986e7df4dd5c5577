"""The lists that tools write into pages are those of the declarations."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
from pathlib import Path

import docutils.core
from support.virtualnode import TOP

from ganeti import constants
from ganeti.params import disk, units


def test_lists_in_pages_are_current_and_well_formed() -> None:
    loader = importlib.machinery.SourceFileLoader("write_tables", os.path.join(TOP, "tools", "write-tables"))
    spec = importlib.util.spec_from_loader("write_tables", loader)
    assert spec is not None
    writer = importlib.util.module_from_spec(spec)
    loader.exec_module(writer)
    for path, page in writer.Pages().items():
        assert Path(path).read_text("utf-8") == page, "run .venv/bin/python tools/write-tables"
        docutils.core.publish_string(page, writer="null", settings_overrides={"report_level": 2, "halt_level": 2})


def test_requests_may_name_the_storage_types_that_are_known() -> None:
    assert sorted(constants.STORAGE_TYPES) == sorted(units.TYPES)
    assert {template.storage_type for template in disk.TEMPLATES.values()} | set(disk.UnitTypes()) == set(units.TYPES)
