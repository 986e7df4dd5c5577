"""A planted bug breaks what it says and nothing else: what it replaces is there, and is called as before."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import FunctionType, ModuleType

import pytest
from simulation.harness import bugs as store_bugs
from simulation.harness import followers, jobbugs
from simulation.master import bugs as master_bugs
from simulation.migration import bugs as migration_bugs
from simulation.mirrors import bugs as mirror_bugs

from ganeti.jqueue.worker import Worker

MODULES = (store_bugs, jobbugs, followers, master_bugs, migration_bugs, mirror_bugs)


def _Overriding(module: ModuleType) -> Iterator[tuple[str, FunctionType, FunctionType]]:
    """Yield each method of the module that stands in the place of another one, with that one."""
    for kind in vars(module).values():
        if inspect.isclass(kind) and kind.__module__ == module.__name__:
            for name, method in vars(kind).items():
                found = next((vars(base)[name] for base in kind.__mro__[1:] if name in vars(base)), None)
                if isinstance(method, FunctionType) and isinstance(found, FunctionType) and name != "__init__":
                    yield f"{kind.__name__}.{name}", method, found


def _Takes(method: FunctionType, replaced: FunctionType) -> bool:
    """Whether every call of the one, with all arguments or with as few as may be, is one of the other."""
    wanted = [each for each in inspect.signature(replaced).parameters.values() if each.kind is not each.VAR_KEYWORD]
    for given in (wanted, [each for each in wanted if each.default is each.empty]):
        places = [each.name for each in given if each.kind is not each.KEYWORD_ONLY]
        words = {each.name: None for each in given if each.kind is each.KEYWORD_ONLY}
        try:
            inspect.signature(method).bind(*places, **words)
        except TypeError:
            return False
    return True


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_what_replaces_a_method_is_called_like_it(module: ModuleType) -> None:
    found = list(_Overriding(module))
    assert found
    assert [name for name, method, replaced in found if not _Takes(method, replaced)] == []


def test_a_method_with_an_old_signature_is_seen() -> None:
    class Hasty(Worker):
        def Commit(self, entry, transform):  # type: ignore[no-untyped-def,override]
            return super().Commit(entry, transform)

    assert not _Takes(Hasty.Commit, Worker.Commit)  # type: ignore[arg-type]
