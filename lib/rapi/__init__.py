"""The REST face of the cluster: HTTPS in, LUXI out (doc/design-rapi.rst, doc/reference/rapi.md).

::

    uvicorn (transport) --ASGI--> requests.dispatch --finds--> Resource, Method (resources/*, declared)
                                   |
                                   +-- callers.access: caller, permission         users file, tokens
                                   +-- Call: names, arguments, body       requests.call
                                   +-- Method.action(call) --Master--> LUXI of the master daemon
                                   +-- Answer -> JSON, ETag; errors -> {code, message, explain}

The room lives in one thread and one event loop: nothing in it blocks, and what waits is awaited.  The loop's clock and
sockets are its own; the rest of the machine is reached through ``runtime``.

Glossary

* resource -- one path with its methods, declared once; documents, checks and tests derive from it
* argument -- a value of the query string
* body -- the JSON value of a request; for a job: parameters of its opcode
* option -- what the users file grants: ``read``, ``write``
* role -- what a token grants: read, operate, admin
* static parameter -- one that path, arguments or RAPI itself set, and a body may not
"""
