"""Where the key comes from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support import configs
from support.nodes import MakeNodes

from ganeti import confd, pathutils, x509
from ganeti.bootstrap import keys


@pytest.mark.req("D21-CONFD-04")
def test_a_new_cluster_has_one_key_beside_its_certificates(tmp_path: Path) -> None:
    first, second = MakeNodes(tmp_path, "a", "b")
    root = configs.Example()
    found = []
    for node in (first, second):
        with node:
            keys.WriteClusterFiles(root, root.master_name)
            assert os.path.dirname(pathutils.CONFD_HMAC_KEY) == os.path.dirname(pathutils.NODED_CERT_FILE)
            assert os.stat(pathutils.CONFD_HMAC_KEY).st_mode & 0o777 == 0o440
            found.append(confd.ReadKey())
            # Whoever has put a key there beforehand keeps it.
            keys.WriteClusterFiles(root, root.master_name)
            assert confd.ReadKey() == found[-1]
    assert found[0] != found[1]
    for key in found:
        assert len(key) == 41 and key.endswith(b"\n") and int(key, 16) > 0
    assert len(x509.NewSecret()) == 40
