"""LUXI: how the programs of a node talk to the master daemon, over UNIX sockets (doc/reference/luxi.md).

::

    client.Client --{"method", "args", "version"} 0x03--> server.Server --> request thread --> handle(method, args)
                  <--{"success", "result", "version"} 0x03--   I/O thread <---- value, or a Pending completed later

``methods`` is the table of what can be asked, ``protocol`` the bytes, ``pending`` an answer that comes later,
``pieces`` keeps large messages from stopping the world.  ``client`` is light to import: programs start with it;
``asyncclient`` is for ganeti-rapi, which has an event loop.  ``peer`` tells who listens at the other end, ``events`` has the
words of ``WaitForEvents``.

Glossary

* envelope -- the JSON object around a method call or its result
* I/O thread -- the one thread that moves bytes of all clients; it neither parses nor writes JSON
* piece -- a part of a large message, small enough to be read or written in one call of the JSON library
"""
