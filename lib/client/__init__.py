"""The commands: one package for each program, one module for each command, with its ``COMMAND``.

::

    gnt_X/__init__.py   PROGRAM: names, aliases       cli.main looks a command up there
    gnt_X/CMD.py        COMMAND = Command(Run, summary, args, options)
    gnt_X/options.py    options of several commands of the program
    shared/             what commands of several programs have in common

They reach the cluster by LUXI only; ``gnt_cluster`` and ``gnt_node`` also set nodes up by ``bootstrap``.
"""
