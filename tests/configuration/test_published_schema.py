from __future__ import annotations

from pathlib import Path

import jsonschema
import orjson
import pytest
import yaml

from shared.settings.config import ConfigError, json_schema, parse_config
from shared.sku_catalogue import KNOWN_SKUS

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "docs" / "pools.schema.json"
EXAMPLES = sorted((ROOT / "examples" / "pools").glob("*.yaml"))
REGENERATE = (
    "docs/pools.schema.json is stale; write it anew with: .venv/bin/python -c 'import sys, orjson; "
    "from shared.settings.config import json_schema; sys.stdout.buffer.write(orjson.dumps(json_schema(), "
    "option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))' > docs/pools.schema.json"
)


def valid(document):
    return jsonschema.Draft202012Validator(json_schema()).is_valid(document)


def accepted(document):
    try:
        parse_config(yaml.safe_dump(document))
    except ConfigError:
        return False
    return True


def document(**fields):
    return {"cluster": "c", "pools": [{"name": "p", "max": 1, "shape": {"cpu": 1, "memory": "1Gi"}, **fields}]}


def test_the_published_schema_is_the_parsers_own():
    assert orjson.loads(PUBLISHED.read_bytes()) == json_schema(), REGENERATE


def test_the_schema_is_a_valid_schema():
    jsonschema.Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_valid_by_schema_and_parser_and_can_act(example):
    assert valid(yaml.safe_load(example.read_text()))
    config = parse_config(example.read_bytes(), to_act=True)
    assert config.cluster == example.stem


@pytest.mark.parametrize(
    ("fields", "good"),
    [
        ({}, True),
        ({"price": 0.5, "zones": ["1"], "labels": {"a": "b"}, "taints": ["a=b:NoSchedule", "a:NoExecute"]}, True),
        ({"reserved": {"cpu": "100m"}, "mode": "paused", "kind": "aks", "priority": "Spot"}, True),
        ({"extra": 1}, False),
        ({"min": -1}, False),
        ({"min": True}, False),
        ({"max": 1.5}, False),
        ({"price": -1}, False),
        ({"price": "1"}, False),
        ({"zones": [1]}, False),
        ({"labels": {"a": True}}, False),
        ({"labels": {"a b": "x"}}, False),
        ({"taints": ["a=b"]}, False),
        ({"shape": {"cpu": "1x", "memory": "1Gi"}}, False),
        ({"shape": {"cpu": -1, "memory": "1Gi"}}, False),
        ({"shape": []}, False),
        ({"kind": "vms"}, False),
        ({"azure": {"subscription": "x"}}, False),
        ({"name": "A"}, False),
    ],
)
def test_schema_and_parser_agree(fields, good):
    assert valid(document(**fields)) is good
    assert accepted(document(**fields)) is good


def test_a_pool_without_shape_or_size_is_invalid_by_both():
    poor = {"cluster": "c", "pools": [{"name": "p", "max": 1}]}
    assert not valid(poor)
    assert not accepted(poor)


@pytest.mark.parametrize("sku", KNOWN_SKUS)
def test_every_size_of_the_catalogue_makes_a_pool_that_keeps_room_for_pods(sku):
    (pool,) = parse_config(f"{{cluster: c, pools: [{{name: p, max: 1, sku: {sku}}}]}}").pools
    assert pool.allocatable["cpu"] >= pool.shape["cpu"] * 0.9
    assert pool.allocatable["memory"] >= pool.shape["memory"] // 2
