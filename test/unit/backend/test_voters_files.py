"""A node that has rows writes its ssconf files from them, and takes none from anybody."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.nodes import MakeNodes
from support.writers import Setup

from ganeti import errors, pathutils
from ganeti.server.noded import NodeHandlers


@pytest.mark.req("D20-JOB-16")
def test_what_comes_late_does_not_overwrite_what_a_voter_wrote_itself(tmp_path: Path) -> None:
    """Seed 506 of 2026-11: a call sent before the node became a candidate arrived after its exporter had written."""
    setup = Setup(str(tmp_path / "stores"), 2, candidates=1)
    (here,) = MakeNodes(tmp_path, "here")
    try:
        voter, other = (node.store for node in setup.cluster.nodes)
        with here:
            os.makedirs(pathutils.LOCK_DIR, exist_ok=True)
            path = Path(pathutils.SsconfFile("cluster_tags"))
            NodeHandlers(other)["write_ssconf_files"]({"cluster_tags": "old"})
            assert path.read_text() == "old\n"
            with pytest.raises(errors.RpcCallError, match="the store owns this file"):
                NodeHandlers(voter)["write_ssconf_files"]({"cluster_tags": "older"})
            assert path.read_text() == "old\n"
    finally:
        setup.Close()
