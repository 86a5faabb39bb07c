"""Whatever is done to a ledger in whatever order, nothing is bought twice and nobody leads twice."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import orjson
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from shared.state.ledger import (
    DELETING,
    GONE,
    RECALLED,
    SEEN_LIMIT,
    SPENT_LIMIT,
    moment,
    planning_ledger,
    stamp,
)
from shared.state.operations import apply
from tests.entities.test_ledger import NOW

HOLDERS = st.sampled_from(["a", "b", "c"])
POOLS = st.sampled_from(["p", "q"])
LIMIT = 3


class Ledgers(RuleBasedStateMachine):
    growths = Bundle("growths")

    def __init__(self) -> None:
        super().__init__()
        self.state: dict[str, Any] | None = None
        self.now = NOW
        self.count = 0
        self.instances: dict[str, list[str]] = {"p": [], "q": []}
        self.claimed: dict[str, list[str]] = {}
        self.drained: set[str] = set()
        self.taken: dict[str, str] = {}
        self.removals: list[str] = []
        self.called_back: set[str] = set()

    def do(self, operation: str, **order: Any) -> dict[str, Any]:
        before = orjson.dumps(self.state)
        given = {"now": stamp(self.now), **order}
        state, answer = apply(self.state, operation, given)
        assert orjson.dumps(self.state) == before, "the old state was changed"
        self.state = orjson.loads(orjson.dumps(state))
        return answer

    @rule(seconds=st.integers(0, 200))
    def wait(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(holder=HOLDERS, sequence=st.integers(1, 30))
    def record(self, holder: str, sequence: int) -> None:
        self.count += 1
        event = f"e{self.count}"
        lead = (self.state or {}).get("lead")
        answer = self.do(
            "record", event=event, holder=holder, lease=60, epoch=1, sequence=sequence, snapshot=f"s{sequence}"
        )
        if answer["role"] == "lead" and lead is not None and lead["holder"] != holder:
            assert moment(lead["deadline"]) <= self.now

    @rule(target=growths, holder=HOLDERS, pool=POOLS, add=st.integers(1, 4))
    def begin_growth(self, holder: str, pool: str, add: int) -> tuple[str, str]:
        self.count += 1
        op = f"g{self.count}"
        order = {"retirements": [], "limit": LIMIT, "spare": {}, "join_timeout": 150}
        answer = self.do("begin", holder=holder, growths=[{"op": op, "pool": pool, "add": add}], **order)
        assert bool(answer["growths"]) == ((self.state or {})["lead"] is not None and self.leads(holder))
        return op, pool

    def leads(self, holder: str) -> bool:
        lead = (self.state or {})["lead"]
        return lead is not None and lead["holder"] == holder

    @rule(growth=growths, delivered=st.integers(0, 5))
    def conclude(self, growth: tuple[str, str], delivered: int) -> None:
        op, pool = growth
        for _ in range(delivered):
            self.count += 1
            self.instances[pool].append(str(self.count))
        candidates = self.instances[pool][::-1]
        answer = self.do("conclude_growth", op=op, candidates=candidates, failures=[], join_timeout=150)
        self.claimed[op] = [f"{pool}/{name}" for name in answer["claimed"]] or self.claimed.get(op, [])

    @rule(growth=consumes(growths))
    def appear(self, growth: tuple[str, str]) -> None:
        op, _ = growth
        entry = (self.state or {}).get("growths", {}).get(op)
        if entry is not None and entry["claimed"]:
            self.do("settle", settled={op: entry["claimed"]})
            assert op not in (self.state or {})["growths"]

    @rule(holder=HOLDERS, number=st.integers(0, 8))
    def begin_retirement(self, holder: str, number: int) -> None:
        wish = {"op": f"r{number}", "node": f"n{number}", "pool": "p"}
        order = {"growths": [], "limit": LIMIT, "spare": {"p": 5}, "join_timeout": 150}
        self.do("begin", holder=holder, retirements=[wish], **order)

    @rule(holder=HOLDERS, number=st.integers(0, 8))
    def call_back(self, holder: str, number: int) -> None:
        order = {"growths": [], "limit": LIMIT, "spare": {}, "join_timeout": 150}
        answer = self.do("begin", holder=holder, recalls=[f"n{number}"], **order)
        assert not (answer["recalls"] and f"n{number}" in self.taken), "called back though its VM may be going"
        self.called_back |= {each["node"] for each in answer["recalls"]}

    @rule(number=st.integers(0, 8), ready=st.booleans())
    def depart(self, number: int, ready: bool) -> None:
        again = f"n{number}" not in self.taken  # a saga queues anew only when it was told that its node was kept
        answer = self.do("depart", node=f"n{number}", op=f"r{number}", ready=ready and again)
        if answer["state"] == "lead":
            self.removals.append(answer["removal"])
        if answer["state"] in ("kept", "gone"):
            self.taken.pop(f"n{number}", None)

    @rule(index=st.integers(0, 5), most=st.integers(1, 3))
    def take_departing(self, index: int, most: int) -> None:
        if index < len(self.removals):
            removal = self.removals[index]
            for each in self.do("take_departing", pool="p", op=removal, most=most)["nodes"]:
                node = each["node"]
                assert self.taken.get(node, removal) == removal, "two removals have one node"
                assert node not in self.called_back, "its VM may go though it was called back"
                self.taken[node] = removal

    @rule(
        index=st.integers(0, 5), number=st.integers(0, 8), what=st.sampled_from(["deleting", "gone", "ready", "kept"])
    )
    def note_departure(self, index: int, number: int, what: str) -> None:
        if index < len(self.removals):
            node, removal = f"n{number}", self.removals[index]
            before = (self.state or {})["retirements"].get(node, {}).get("stage")
            noted = {node: ["busy", "busy again"]} if what == "kept" else [node]
            self.do("note_departures", op=removal, **{what: noted})
            after = (self.state or {})["retirements"].get(node, {}).get("stage")
            assert before == after or self.taken.get(node) == removal, "somebody else's node"
            if after == "ready":
                self.taken.pop(node, None)

    @rule(number=st.integers(0, 8), kept=st.booleans())
    def end_retirement(self, number: int, kept: bool) -> None:
        why = "busy" if kept else ""
        self.do("end_retirement", node=f"n{number}", op=f"r{number}", kept=why, cooldown=60, gone="" if kept else "u")
        self.taken.pop(f"n{number}", None)
        self.called_back.discard(f"n{number}")

    @rule(holder=HOLDERS)
    def release(self, holder: str) -> None:
        generation = (self.state or {}).get("generation", 0)
        self.do("release", holder=holder, generation=generation, lease=60)

    @rule()
    def tidy(self) -> None:
        self.do("tidy")

    @invariant()
    def no_instance_is_claimed_twice(self) -> None:
        everything = [name for names in self.claimed.values() for name in names]
        assert len(everything) == len(set(everything))

    @invariant()
    def no_more_nodes_go_than_may(self) -> None:
        going = (self.state or {}).get("retirements", {}).values()
        assert sum(each["stage"] not in (DELETING, GONE, RECALLED) for each in going) <= LIMIT

    @invariant()
    def supply_is_never_more_than_was_asked_for(self) -> None:
        growths = (self.state or {}).get("growths", {})
        upcoming = sum(each.count for each in planning_ledger(self.state or {}).upcoming)
        assert upcoming <= sum(growth["add"] for growth in growths.values())

    @invariant()
    def its_memory_is_bounded(self) -> None:
        state = self.state or {"seen": [], "spent": []}
        assert len(state["seen"]) <= SEEN_LIMIT
        assert len(state["spent"]) <= SPENT_LIMIT


TestLedgers = Ledgers.TestCase
TestLedgers.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
