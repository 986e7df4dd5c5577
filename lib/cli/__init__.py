"""The framework of the ``gnt-*`` programs: what a command declares here, everything else follows from.

::

    scripts/gnt-X -> main.Main -> program table -> client/gnt_X/CMD.py: COMMAND = Command(Run, args, options, ...)
                                                      |
             parser (options, help) ------------------+----> Run(options, args) -> jobs.Submit..., queries -> LUXI
             manual, completion (at build time) ------+            |
                                                                   +-> output: lines, tables, info trees, JSON

Importing a command takes little time: nothing heavy is imported before it is needed (``test/unit/cli/test_light.py``).

Glossary

* command -- one word after the program's name, one module under ``lib/client/gnt_X/``
* option catalogue -- ``options.py``: every option once, commands pick from it
* executor -- submits several jobs and waits for all of them
"""
