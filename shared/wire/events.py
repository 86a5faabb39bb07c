"""Our CloudEvents: made by the exporter, refused or understood by `ingest`.

`source` is `/sluice/<cluster>`, and the order of events is (epoch, sequence), never time. A snapshot that fits travels
inside the event; a larger one lies, compressed, in the cluster's own container, and the event carries a claim check:
address, size and SHA-256. A reader compares the address with the one place where it may point before it reads, size and
hash before it decompresses, and stops decompressing at a cap, so that a forged event costs next to nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import orjson

from shared.model import Snapshot
from shared.names import EVENT_SOURCE_PREFIX, EVENT_TYPES, NODE_EVICTING, snapshot_container
from shared.wire.json_reader import Node
from shared.wire.snapshot_codec import decode, from_json, to_json

Json = dict[str, Any]
T = TypeVar("T")

SCHEMA = 1
LARGEST_EVENT = 200_000
"""Bytes of an event as sent. Event Grid takes 1 MB and charges by 64 KB; a batch of five stays below its limit."""
LARGEST_BLOB = 32 * 1024**2
"""Bytes of a compressed snapshot; a hundred times what 15,000 pods need."""
LARGEST_SNAPSHOT = 64 * 1024**2
"""Bytes after decompression."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}", re.ASCII)
_BLOB_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]|/(?=[A-Za-z0-9])){0,200}", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_LARGEST = 2**63 - 1


class EventProblem(ValueError):
    """An event that must not be acted on: `reason` is one word for counting, `problems` all that is wrong with it."""

    def __init__(self, reason: str, problems: Sequence[str]) -> None:
        self.reason = reason
        self.problems = tuple(problems)
        super().__init__(f"{reason}: {'; '.join(self.problems)}")


@dataclass(frozen=True, slots=True)
class ClaimCheck:
    """Where a snapshot lies: `size` in bytes and `sha256` (hex) are those of the compressed blob."""

    address: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class EventData:
    """What an event says: `snapshot` inline or as a claim, `detail` what the detector saw.

    None stands for the snapshot only in a node agent's notice, which has none to give: whoever reads it looks afresh.
    """

    epoch: int
    sequence: int
    observed_at: datetime
    snapshot: Json | ClaimCheck | None
    detail: Json


@dataclass(frozen=True, slots=True)
class ParsedEvent:
    """An event that passed every check that needs no I/O. `blob` is the name of the claimed snapshot in
    `snapshot_container(cluster)`, or "" for an inline one."""

    id: str
    type: str
    cluster: str
    subject: str
    data: EventData
    blob: str


@dataclass(frozen=True, slots=True)
class Upload:
    """What must lie in storage before the event may be sent."""

    container: str
    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Outgoing:
    """An event ready to be sent, after `upload` where there is one."""

    event: Json
    upload: Upload | None


def event_id(cluster: str, event_type: str, content: str | bytes) -> str:
    """The same for the same cluster, kind and content, so that a redelivery is recognised.

    At most 95 characters, letters, digits, dots and hyphens: valid as the id of a durable instance.
    """
    raw = content.encode() if isinstance(content, str) else content
    kind = event_type.removeprefix("sluice.").replace(".", "-")
    return f"{cluster}-{kind}-{hashlib.sha256(raw).hexdigest()[:32]}"


def make_event(
    event_type: str, snapshot: Snapshot, *, subject: str, detail: Mapping[str, object], account_url: str = ""
) -> Outgoing:
    """An event of this kind with the snapshot inside, or with a claim check when it would be larger than LARGEST_EVENT.

    `account_url` is the storage account's blob endpoint; without one the address is the container and the name alone.
    """
    document = to_json(snapshot)
    encoded = orjson.dumps(document)
    order = (snapshot.epoch, snapshot.sequence)
    event = _envelope(event_type, snapshot.cluster, order, subject, detail, snapshot.observed_at, encoded)
    data = event["data"]
    if len(orjson.dumps(event)) + len(encoded) + len(',"snapshot":') <= LARGEST_EVENT:
        data["snapshot"] = document
        return Outgoing(event, None)
    upload, claim = _claim(snapshot, encoded, account_url)
    data["snapshot"] = {"address": claim.address, "size": claim.size, "sha256": claim.sha256}
    if (size := len(orjson.dumps(event))) > LARGEST_EVENT:
        raise ValueError(f"detail: makes the event {size} bytes, above {LARGEST_EVENT}; say less")
    return Outgoing(event, upload)


def make_notice(event_type: str, cluster: str, now: datetime, *, subject: str, detail: Mapping[str, object]) -> Json:
    """An event without a snapshot, for NODE_EVICTING alone: the node agent sees its own VM and nothing else.

    The id is made of what is seen, not of when: the same notice heard twice is one event.
    """
    event = _envelope(event_type, cluster, (0, 0), subject, detail, now, b"")
    event["data"]["snapshot"] = None
    return event


def parse_event(body: object, clusters: Collection[str], *, account_url: str = "") -> ParsedEvent:
    """Check everything about an event that needs no I/O. Raises EventProblem listing all that is wrong.

    Reasons: UnknownCluster (no configured cluster has this source), ClaimRefused (the address leaves the cluster's own
    container), BadEvent for the rest.
    """
    found = _Found()
    attributes = found.record(body, "event", ("specversion", "id", "source", "type", "data"), strict=False)
    found.read(lambda: _equal(attributes["specversion"], "1.0"))
    identifier = found.read(lambda: _matching(attributes["id"], _ID, "1 to 100 letters, digits, . _ : or -"))
    event_type = found.read(lambda: _one_of(attributes["type"], EVENT_TYPES))
    cluster = found.read(lambda: attributes["source"].text().removeprefix(EVENT_SOURCE_PREFIX)) or ""
    subject = found.read(attributes["subject"].text) if "subject" in attributes else ""
    data = _parse_data(found, attributes["data"].value) if "data" in attributes else None
    if data and data.snapshot is None and event_type != NODE_EVICTING and not found.problems:
        found.problems.append("event.data.snapshot: only a node.evicting event may come without one")
    if found.problems or data is None or identifier is None or event_type is None or subject is None:
        raise EventProblem("BadEvent", found.problems)
    if cluster not in clusters or attributes["source"].value != EVENT_SOURCE_PREFIX + cluster:
        raise EventProblem("UnknownCluster", [str(attributes["source"].wrong("/sluice/ and a configured cluster"))])
    blob = _claimed_blob(data.snapshot, cluster, account_url) if isinstance(data.snapshot, ClaimCheck) else ""
    return ParsedEvent(identifier, event_type, cluster, subject, data, blob)


def read_snapshot(event: ParsedEvent, blob: bytes | None = None) -> Snapshot | None:
    """The event's snapshot, None for a notice; `blob` is the claimed blob's content.

    Raises EventProblem (ClaimRefused, BadSnapshot).
    """
    claim = event.data.snapshot
    if claim is None:
        return None
    try:
        snapshot = decode(_opened(claim, blob or b"")) if isinstance(claim, ClaimCheck) else from_json(claim)
    except EventProblem:
        raise
    except ValueError as error:
        raise EventProblem("BadSnapshot", [str(error)]) from error
    said = (event.cluster, event.data.epoch, event.data.sequence)
    if (snapshot.cluster, snapshot.epoch, snapshot.sequence) != said:
        problem = f"snapshot: is of {snapshot.cluster} {snapshot.epoch}/{snapshot.sequence}, the event of {said}"
        raise EventProblem("BadSnapshot", [problem])
    return snapshot


def dead_letter_blob(
    event: object, problem: Exception | str, now: datetime, *, subscription: str = "sluice"
) -> tuple[str, bytes]:
    """Name and content of the blob that keeps a refused event, as Event Grid writes its own, plus our `reason`.

    The name is made from the event, so that refusing it again within the hour writes the same blob.
    """
    moment = now.astimezone(UTC)
    written = moment.isoformat().replace("+00:00", "Z")
    attributes = event if isinstance(event, dict) and _is_json(event) else {"data": _readable(event)}
    letter = {
        **attributes,
        "deadletterreason": "UndeliverableDueToHttpBadRequest",
        "deliveryattempts": 1,
        "lastdeliveryoutcome": "BadRequest",
        "publishtime": attributes.get("time", written),
        "lastdeliveryattempttime": written,
        "reason": str(problem),
    }
    digest = hashlib.sha256(json.dumps(attributes).encode()).hexdigest()
    guid = f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"
    folder = f"{subscription.upper()}/{moment.year}/{moment.month}/{moment.day}/{moment.hour}"
    return f"{folder}/{guid}.json", json.dumps([letter]).encode()


def _envelope(
    event_type: str,
    cluster: str,
    order: tuple[int, int],
    subject: str,
    detail: Mapping[str, object],
    now: datetime,
    encoded: bytes,
) -> Json:
    """The event but for `data.snapshot`."""
    said = orjson.dumps([order, subject, detail], option=orjson.OPT_SORT_KEYS)
    moment = now.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return {
        "specversion": "1.0",
        "id": event_id(cluster, event_type, said + encoded),
        "source": EVENT_SOURCE_PREFIX + cluster,
        "type": event_type,
        "subject": subject,
        "time": moment,
        "datacontenttype": "application/json",
        "data": {
            "schema": SCHEMA,
            "epoch": order[0],
            "sequence": order[1],
            "observed_at": moment,
            "detail": dict(detail),
        },
    }


def _claim(snapshot: Snapshot, encoded: bytes, account_url: str) -> tuple[Upload, ClaimCheck]:
    packed = zlib.compress(encoded, 6)
    digest = hashlib.sha256(packed).hexdigest()
    container = snapshot_container(snapshot.cluster)
    name = f"claims/{snapshot.epoch:010}-{snapshot.sequence:012}-{digest[:16]}.json.zlib"
    address = _place(account_url, snapshot.cluster) + name
    return Upload(container, name, packed), ClaimCheck(address, len(packed), digest)


def _place(account_url: str, cluster: str) -> str:
    account = account_url.rstrip("/") + "/" if account_url else ""
    return f"{account}{snapshot_container(cluster)}/"


def _claimed_blob(claim: ClaimCheck, cluster: str, account_url: str) -> str:
    """The blob's name. Only letters, digits and a few marks: no dots that climb, no query, no escapes."""
    place = _place(account_url, cluster)
    name = claim.address.removeprefix(place)
    if not claim.address.startswith(place) or not _BLOB_NAME.fullmatch(name) or ".." in name:
        node = Node(claim.address, "event.data.snapshot.address")
        raise EventProblem("ClaimRefused", [str(node.wrong(f"a blob below {place}"))])
    return name


def _opened(claim: ClaimCheck, blob: bytes) -> bytes:
    """The decompressed blob, after its size and hash were found to be the claimed ones."""
    if len(blob) != claim.size:
        raise EventProblem("ClaimRefused", [f"{claim.address}: has {len(blob)} bytes, not the claimed {claim.size}"])
    if hashlib.sha256(blob).hexdigest() != claim.sha256:
        raise EventProblem("ClaimRefused", [f"{claim.address}: has another SHA-256 than the claimed {claim.sha256}"])
    unpacker = zlib.decompressobj()
    try:
        unpacked = unpacker.decompress(blob, LARGEST_SNAPSHOT)
    except zlib.error as error:
        raise EventProblem("BadSnapshot", [f"{claim.address}: cannot be decompressed: {error}"]) from error
    if not unpacker.eof or unpacker.unused_data:
        problem = f"{claim.address}: is cut off, or larger than {LARGEST_SNAPSHOT} bytes when decompressed"
        raise EventProblem("BadSnapshot", [problem])
    return unpacked


class _Found:
    """Problems collected on the way, so that one look at an event finds all of them."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def read(self, read: Callable[[], T]) -> T | None:
        """What `read` gives; None after a refusal, or when the key is missing, which was told already."""
        try:
            return read()
        except KeyError:
            return None
        except ValueError as error:
            self.problems.append(str(error))
            return None

    def record(self, value: object, path: str, names: Sequence[str], *, strict: bool) -> dict[str, Node]:
        """The keys of a mapping; missing ones are told, unknown ones only where nothing else may stand."""
        if not isinstance(value, dict):
            self.problems.append(str(Node(value, path).wrong("a mapping")))
            return {}
        self.problems += [f"{path}.{name}: is missing" for name in names if name not in value]
        if strict:
            self.problems += [f"{path}.{name!s:.60}: is not known" for name in value if name not in names]
        return {str(name): Node(item, f"{path}.{name}") for name, item in value.items()}


def _parse_data(found: _Found, value: object) -> EventData | None:
    names = ("schema", "epoch", "sequence", "observed_at", "snapshot", "detail")
    fields = found.record(value, "event.data", names, strict=True)
    found.read(lambda: _equal(fields["schema"], SCHEMA))
    epoch = found.read(lambda: fields["epoch"].whole(0, _LARGEST))
    sequence = found.read(lambda: fields["sequence"].whole(0, _LARGEST))
    observed_at = found.read(lambda: _time(fields["observed_at"]))
    detail = found.read(lambda: _mapping(fields["detail"]))
    snapshot = found.read(lambda: _snapshot_or_claim(fields["snapshot"]))
    if epoch is None or sequence is None or observed_at is None or detail is None:
        return None
    return EventData(epoch, sequence, observed_at, snapshot, detail)


def _snapshot_or_claim(node: Node) -> Json | ClaimCheck | None:
    if node.value is None:
        return None
    value = _mapping(node)
    if "address" not in value:
        return value
    fields = node.record("address", "size", "sha256")
    size = fields["size"].whole(1, LARGEST_BLOB)
    return ClaimCheck(fields["address"].text(), size, _matching(fields["sha256"], _SHA256, "64 hexadecimal digits"))


def _time(node: Node) -> datetime:
    return node.time()


def _mapping(node: Node) -> Json:
    if not isinstance(node.value, dict):
        raise node.wrong("a mapping")
    return node.value


def _equal(node: Node, wanted: object) -> None:
    if node.value != wanted or isinstance(node.value, bool):
        raise node.wrong(repr(wanted))


def _matching(node: Node, pattern: re.Pattern[str], form: str) -> str:
    if not pattern.fullmatch(node.text()):
        raise node.wrong(form)
    return node.text()


def _one_of(node: Node, options: Sequence[str]) -> str:
    if node.text() not in options:
        raise node.wrong(f"one of {', '.join(options)}")
    return node.text()


def _readable(value: object) -> object:
    """The value where JSON can hold it, else what a person may make of it (NaN, endless depth)."""
    return value if _is_json(value) else str(Node(value, "event").wrong("JSON"))


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        return False
    return True
