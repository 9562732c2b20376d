"""The table "Objects" of the chart's README, beside what helm renders."""

from __future__ import annotations

import re

from hack.chart.generated import CHART
from hack.verify.chart import rendered_objects

OF_PRIVILEGES = {
    "ServiceAccount",
    "RoleBinding",
    "ClusterRoleBinding",
    "ValidatingAdmissionPolicyBinding",
}
"""Not in the table: the section Privileges lists accounts and rights, and a policy's binding comes with it."""


def test_the_readme_lists_each_kind_of_object() -> None:
    text = (CHART / "README.md").read_text(encoding="utf-8")
    section = text.partition("\n## Objects\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    listed = {kind for row in rows for kind in re.findall(r"`([A-Z]\w+)`", row.split("|")[1])}
    variants = (CHART / "ci" / f"{name}-values.yaml" for name in ("all-options", "groups"))
    kinds = {each["kind"] for values in variants for each in rendered_objects(values)}
    assert kinds - OF_PRIVILEGES == listed
