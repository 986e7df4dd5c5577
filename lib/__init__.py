"""Cluster manager for virtual machines.

The floors, drawn (a room uses the floors below it; ``doc/architecture.rst`` has the rules)::

    8  programs    cli client rapi watcher tools server
    7  master      bootstrap > jqueue > mcpu > cmdlib > master
    6  state       config locking        |  node  backend > storage hypervisor impexpd
    5  wires       store > rpc luxi confd > daemon
    4  brain       htools
    3  questions   query
    2  vocabulary  ssconf > opcodes > objects > params; upgrade > params; network uidpool x509 ssh transferkeys
    1  ground      constants errors ht serializer runtime utils pathutils

Glossary

* acknowledged -- stored on a quorum of the voters; only then anybody sees it
* candidate -- a node that keeps the configuration and may become master
* epoch -- (number, run) of one master's life; calls of an older one are refused
* job, opcode, logical unit -- what a client asks for, one step of it, the code that does the step
* node daemon -- the process that acts on one machine; it decides nothing
* ssconf -- small read-only files on every node with the facts it needs without a master
* voter -- a candidate whose copy of the store counts towards the quorum
"""
