"""Named random streams from one seed: a new draw in one place does not shift the draws of another."""

from __future__ import annotations

import hashlib
import random


def stream(seed: int, *names: str) -> random.Random:
    """A generator of its own for (seed, names), equal in every process."""
    digest = hashlib.sha256("/".join([str(seed), *names]).encode()).digest()
    return random.Random(int.from_bytes(digest[:8]))  # noqa: S311 - reproducible on purpose, not for secrets
