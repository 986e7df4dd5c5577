"""The transfer program ``import-export``: bytes from a program on one node to a program on another, by TLS.

::

    export   shell: PREFIX cat SUFFIX --> [compressor] --> TLS
    import   TLS --> [decompressor] --> shell: PREFIX cat SUFFIX

    tools.import_export --> transfer.Export, transfer.Import     what flows where, and when it is complete
                              |-- connecting, listening          how the two sides find each other
                              |-- flow, channel                  moving bytes; TLS
                              |-- programs                       the shell and the (de)compressor, and what they print
                              |-- status, progress               what others are told
                              '-- loop                           the only place where anything waits

One thread moves all data; connecting has one of its own.  On the wire all is as in 3.1 (doc/reference/interfaces.md
f.1, doc/design-transfers.rst): within TLS, as far as it is not compressed, the magic, then the data, and at the end the
announcement of the end.  A receiver announces its own end when all was written, and a sender waits for that.

The node daemon starts the program in a directory of the transfer's own and finds there what it says (``settings``: the
names of the files).  Nothing here knows of instances or disks.

Glossary

* sink, source -- where a flow ends and begins: a pipe of a program, or the channel
* channel -- the TLS connection to the other side
* magic -- ``M=`` and a text that both ends were given; it stands before the data, and a receiver that finds anything
  else there writes nothing
"""

from __future__ import annotations

from ganeti import errors


class TransferError(errors.GenericError):
    """Why a transfer failed, for people."""
