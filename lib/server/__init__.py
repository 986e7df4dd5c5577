"""The daemons of the master and of every node: what they consist of, and their threads.

* masterd, master -- ganeti-masterd; handlers answers LUXI, eventring has the events, opening takes the store up
* noded, nodepolicy, ownnode, longcalls -- ganeti-noded: who may call, the copy of the store, what takes long
* confd, confdload -- ganeti-confd
* exporting, ssconfpush, mirrorkeeper, metering, hanging, standstill, woken -- threads of theirs, and what they watch
"""
