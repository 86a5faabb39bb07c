"""Many futures of one world: each runs in a copy of this process, made when it begins."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn, TypeVar

T = TypeVar("T")


def branches(seeds: range, future: Callable[[int], Sequence[T]]) -> Iterator[T]:
    """What `future` returns for each seed, one after the other. Raises RuntimeError where one failed."""
    for seed in seeds:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            _run(writer, future, seed)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            answer = pipe.read()
        os.waitpid(child, 0)
        if not answer:
            raise RuntimeError(f"the draw with seed {seed} failed; see above")
        yield from pickle.loads(answer)


def _run(writer: int, future: Callable[[int], object], seed: int) -> NoReturn:
    """In the child; what fails there says so on standard error, and answers nothing."""
    try:
        data = pickle.dumps(future(seed))
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(data)
    except BaseException:  # noqa: BLE001 - whatever it was, this copy must not go on as if it were the parent
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
