"""What every daemon of ours has: options, pid file, user, log, signals.

::

    start script --> Main() of server/X --> daemon.GenericMain(name, title, options, check, prepare, execute)
                                                |
      terminal's process   parse, check, fork --+--> wait for the word of the daemon, print it, exit
      daemon's process     pid file -> user's rights -> log -> prepare -> "started" -> execute -> remove pid file

Glossary

* check -- looks at options and the node, in the terminal's process; may say "not now" with an exit code
* prepare -- opens what can fail (ports, files) in the daemon's process; its failure reaches the terminal
* execute -- the daemon's life; ends when ``stop`` is set
* program log -- one file per daemon, for all levels (``daemon.logs``); ``/dev/console`` takes what it cannot
"""

from ganeti.daemon.main import (
    CheckClients,
    ClientsOption,
    ForkedChild,
    GenericMain,
    NetworkOptions,
    Option,
    SslOptions,
)
from ganeti.daemon.signals import StopSignal

__all__ = [
    "CheckClients",
    "ClientsOption",
    "ForkedChild",
    "GenericMain",
    "NetworkOptions",
    "Option",
    "SslOptions",
    "StopSignal",
]
