"""The commands: one program one package, one command one module, each with its ``COMMAND``.

::

    gnt_X/__init__.py   PROGRAM: names, aliases       cli.main looks a command up there
    gnt_X/CMD.py        COMMAND = Command(Run, summary, args, options)
    shared/             what commands of several programs have in common

They reach the cluster by LUXI only; ``gnt_cluster`` and ``gnt_node`` set nodes up by ``bootstrap`` too.
"""
