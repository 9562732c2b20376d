"""`make demo` on a cluster that is there already, as it is when somebody runs it again."""

from __future__ import annotations

import re

import pytest

from hack.demo.__main__ import main
from hack.demo.claims import CLAIMS
from hack.demo.scenario import NAMESPACE
from tests.e2e.conftest import CLUSTER, Laneway
from tests.e2e.node_view import wait_until_offered


@pytest.mark.long
def test_every_claim_of_the_demo_holds(laneway: Laneway, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status = main(["--name", CLUSTER])
    finally:
        laneway.kubectl.run("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=false")
        # The demo ends with one GPU a node, which jobs share.
        laneway.installation.upgrade()
        wait_until_offered(laneway, 4, "off")
    shown = capsys.readouterr().out
    assert status == 0, shown
    assert len(re.findall(r"^\d+\. .*: holds$", shown, re.MULTILINE)) == len(CLAIMS), shown
