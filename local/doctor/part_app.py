"""What the app says of itself, and what it makes of Event Grid's handshake."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from datetime import datetime
from typing import Any

import orjson

from local.cli_app import how_to_enter
from local.doctor import judging_app, judging_handshake, judging_versions
from local.doctor.clocks import Clocks
from local.doctor.entering import Wallet, entered
from local.doctor.findings import Cause, Check, Finding
from local.doctor.probing_azure import Arm, webhook_key
from local.doctor.probing_web import Answer, Unanswered, shake_hands
from local.doctor.target import Target
from shared.adapters.errors import OutsideError
from shared.version import VERSION

Json = dict[str, Any]
INGEST = "ingest"
_HOW = how_to_enter("doctor")


def ask_app(target: Target, clocks: Clocks, wallet: Wallet | None) -> Generator[Finding, None, Json | None]:
    """Returns what the app says of each cluster; nothing when it says something else, None when nobody answers."""
    if not target.app_url:
        remedy = "give --installation, or --url, once the stage base was applied"
        yield Check("app").skipped("no app is named: what it can reach and may do is not known", remedy)
        return None
    check = Check("app", target.app_url)
    query = f"?cluster={target.cluster}" if target.cluster else ""
    url = f"{target.app_url}/api/doctor{query}"
    try:
        answer = entered(url, wallet)
    except Unanswered as error:
        remedy = "check the app's address, and that it is started (az functionapp start)"
        yield check.failed(f"nothing answers ({error})", remedy, Cause.UNREACHABLE)
        return None
    except OutsideError as error:
        yield check.failed(f"takes Entra tokens, and you get none: {error.message}", _HOW, Cause.RIGHTS)
        return {}
    document = _document(answer)
    if document is None:
        yield _refused(check, answer)
        return {}
    clocks.heard("the app", datetime.fromisoformat(document["now"]))
    yield check.ok("answers")
    yield from judging_versions.judge_app(VERSION, document["version"], document["python"])
    if not document["clusters"]:
        remedy = "put each cluster's pools file into the app's storage, as config/CLUSTER.yaml"
        yield Check("pools-file", target.cluster).failed("the app has no such pools file", remedy)
    clusters: Json = document["clusters"]
    return clusters


def judge_clusters(said: Json) -> Iterator[Finding]:
    """The pools files in the app's storage."""
    for cluster, word in said.items():
        yield judging_app.judge_pools_file(cluster, word["problems"])


def shaken(target: Target, arm: Arm | None, key: str) -> Finding:
    """The handshake with `key`, or with the one that Azure gives to who may see it."""
    if not key and arm is not None and target.installation is not None:
        key = webhook_key(arm, target.installation.app_id)
    try:
        answer = shake_hands(target.app_url, INGEST, key)
    except Unanswered as error:
        return judging_handshake.unanswered(INGEST, target.app_url, str(error))
    return judging_handshake.judge(INGEST, answer.status, answer.headers)


def _said(answer: Answer) -> str:
    """The app's own line about what was wrong."""
    try:
        found = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        return ""
    return str(found.get("error", "")) if isinstance(found, dict) else ""


def _document(answer: Answer) -> Json | None:
    try:
        found = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        return None
    return found if answer.status == 200 and isinstance(found, dict) and "clusters" in found else None


def _refused(check: Check, answer: Answer) -> Finding:
    if answer.status in (401, 403):
        return check.failed(f"does not let this in ({answer.status})", _said(answer) or _HOW, Cause.RIGHTS)
    if answer.status == 502:
        said = answer.body.decode(errors="replace")[:300]
        remedy = "give the app's identity its roles on its storage account: apply the stage base again"
        return check.failed(f"does not reach its own storage: {said}", remedy)
    remedy = "publish the package (func azure functionapp publish APP), then: sluice doctor --wait-for ingest"
    return check.failed(f"has no function doctor (it answered {answer.status})", remedy)
