"""What the master does besides jobs: hooks, answers to queries, allocators, transfers.

Glossary

* query data -- the live parts of an answer, collected from nodes, job queue and lock monitor
* hook -- a script of the administrator, run on nodes before and after an opcode
"""
