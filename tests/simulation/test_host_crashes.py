"""What the simulation knows of a Functions host that dies."""

from __future__ import annotations

from local.durable.journal import Changes
from local.simulation.journal import MemoryJournal
from local.system.lifetime import HostCrash
from tests.simulation.worlds import HOUR, submit, task, world


class Deadly(MemoryJournal):
    """The host dies right after the transaction that ends its first admission, before it can say so."""

    def __init__(self) -> None:
        super().__init__(lambda: None, lambda: None)
        self.ended: list[str] = []

    def commit(self, changes: Changes) -> None:
        super().commit(changes)
        ended = [each.id for each in changes.instances.values() if each.name == "admit" and each.finished]
        if ended and not self.ended:
            self.ended = ended
            raise HostCrash("after journal", 5.0)


def test_an_end_that_is_in_the_journal_counts_though_the_host_died_before_it_said_so():
    journal = Deadly()
    system = world(journal=journal)
    submit(system, task("only"))
    assert system.run_until(system.settled, HOUR)
    assert journal.ended
    assert system.crashes == ["after journal"]
    assert system.unhandled() == ()
    assert system.record().violations == ()
