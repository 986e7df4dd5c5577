"""Reading Python sources."""

from __future__ import annotations

import ast
import gc


def Parse(text: str, path: str = "<unknown>") -> ast.Module:
    """Return the tree of a source.

    A finalizer that runs in the middle may parse, too, as whoever prints a traceback does; Python 3.11 then fails with a
    SystemError.  So no garbage is collected meanwhile.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text, path)
    finally:
        if collects:
            gc.enable()
