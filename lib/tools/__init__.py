"""Programs for administrators, cron and other programs of ours, one module each; ``Main()`` is the program.

::

    autotools/programs --> start script --> tools.X.Main() -> exit code

The tools share their look: ``common`` has the option parser and the log on stderr (doc/reference/tools.md, head).
"""
