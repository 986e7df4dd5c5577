"""The framework of the ``gnt-*`` programs: parser, help, manual and completion follow from what a command declares.

::

    scripts/gnt-X -> main.Main -> program table -> client/gnt_X/CMD.py: COMMAND = Command(Run, args, options, ...)
                                                      |
             parser (options, help) ------------------+----> Run(options, args) -> jobs.Submit..., queries -> LUXI
             manual, completion (at build time) ------+            |
                                                                   +-> output: lines, tables, info trees, JSON

Importing a command takes little time: nothing heavy is imported before it is needed (``test/unit/cli/test_programs.py``).

Glossary

* command -- the word after the program's name, one module under ``lib/client/gnt_X/``
* option -- declared once: in its command, in ``client/gnt_X/options.py``, or in ``options.py`` when programs share it
* topic -- the grammar of an option's value, made from the tables that check it (``grammar.py``)
* executor -- submits several jobs and waits for all of them
"""
