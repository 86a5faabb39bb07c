"""How machines are named where several pools' are kept together."""

from __future__ import annotations


def key_of(pool: str, instance: str) -> str:
    """An instance, told from those of other pools; Azure's names are compared without regard to case."""
    return f"{pool}/{instance}".casefold()
