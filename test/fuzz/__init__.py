"""Seeded fuzzers: damaged input for every door, with the same result for the same seed.

* damage -- how bytes and JSON values are damaged
* targets -- the doors: files (``files``), node RPC (``calls``), answers of nodes (``replies``), LUXI and TLS (``doors``), ``confd``
* ``test_fuzz.py`` runs each target for a moment; ``PYTHONPATH=.:test .venv/bin/python -m fuzz TARGET ROUNDS SEED`` for as
  long as you like

A target promises: input of outsiders leads to an answer or an error of ours, never to a traceback, a hang, growing memory
or a lost file.
"""
