"""What the doctor asks an API server for is what the chart grants to the functions, no more and no less."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from functions.cluster_rights import GANGS, NEEDED, POD_GROUPS, VOLUMES
from shared.version import VERSION

ROOT = Path(__file__).parents[2]
CHART = ROOT / "infra" / "helm" / "sluice-exporter"


def granted() -> set[tuple[str, str, str, str]]:
    """(verb, group, resource, the value that grants it), from the template's own text."""
    text = (CHART / "templates" / "rights.yaml").read_text()
    rules = text[text.index("-functions\n") :].partition("rules:\n")[2].partition("\n---")[0]
    found, part = set(), ""
    for block in re.split(r"(?=\n  - apiGroups)|(?=\n  \{\{)", f"\n{rules}"):
        if "{{- if $.Values.volumes" in block:
            part = VOLUMES
        elif "{{- with $.Values.gangs" in block:
            part = GANGS
        elif "{{- end" in block:
            part = ""
        lines = [line for line in block.splitlines() if not line.strip().startswith(("{{", "#"))]
        text = "\n".join(lines).replace("{{ toJson . }}", str(list(POD_GROUPS)).replace("'", '"'))
        for rule in yaml.safe_load(text) or ():
            found |= {
                (verb, group, resource, part)
                for verb in rule["verbs"]
                for group in rule["apiGroups"]
                for resource in rule["resources"]
            }
    return found


def test_the_chart_grants_what_the_doctor_asks_for() -> None:
    assert {(right.verb, right.group, right.resource, right.part) for right in NEEDED} == granted()


def test_the_gangs_of_the_chart_are_those_that_are_asked_for() -> None:
    assert yaml.safe_load((CHART / "values.yaml").read_text())["gangs"] == list(POD_GROUPS)


def test_the_version_is_the_projects() -> None:
    assert f'\nversion = "{VERSION}"\n' in (ROOT / "pyproject.toml").read_text()
