"""How functions are run: at once in this thread (virtual clock), or as the Functions worker does (wall clock)."""

from __future__ import annotations

import asyncio
import atexit
import functools
import inspect
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Protocol

from azure.durable_functions.models.utils import http_utils

Function = Callable[..., Any]
Done = Callable[[Any, BaseException | None], None]
WORKER_THREADS = 16
GRACE_SECONDS = 10.0


class Runner(Protocol):
    """Runs the app's functions, synchronous and asynchronous ones."""

    def call(self, function: Function, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401 - whatever it returns
        """Run to the end and return the result; raises what the function raises."""
        ...

    def call_all(self, function: Function, many: Sequence[Mapping[str, Any]]) -> list[BaseException | None]:
        """Run once for each set of arguments, side by side where that is possible; how each call failed, or None."""
        ...

    def submit(self, function: Function, arguments: Mapping[str, Any], done: Done) -> None:
        """Run, and call `done(result, None)` or `done(None, error)` from whichever thread it ended in."""
        ...

    def close(self) -> None:
        """Let running functions end, and free threads and loops."""
        ...


class InlineRunner:
    """Everything at once, in the calling thread, one after the other: what the simulator needs."""

    def __init__(self, session: Any) -> None:  # noqa: ANN401 - stands in for an aiohttp.ClientSession
        self._session = session

    def call(self, function: Function, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401 - see Runner
        """See `Runner.call`."""
        result = function(**arguments)
        return self._drive(result) if inspect.iscoroutine(result) else result

    def call_all(self, function: Function, many: Sequence[Mapping[str, Any]]) -> list[BaseException | None]:
        """See `Runner.call_all`."""
        errors: list[BaseException | None] = []
        for arguments in many:
            self.submit(function, arguments, lambda _, error: errors.append(error))
        return errors

    def submit(self, function: Function, arguments: Mapping[str, Any], done: Done) -> None:
        """See `Runner.submit`."""
        try:
            result = self.call(function, arguments)
        except Exception as error:  # noqa: BLE001 - the function's failure is its result
            done(None, error)
            return
        done(result, None)

    def close(self) -> None:
        """Nothing to free."""

    def _drive(self, coroutine: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - see Runner
        before = http_utils._client_session
        http_utils._client_session = self._session
        try:
            return _shared_loop().run_until_complete(coroutine)
        finally:
            http_utils._client_session = before


@functools.cache
def _shared_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    atexit.register(loop.close)
    return loop


class ThreadedRunner:
    """Synchronous functions on a pool of threads, asynchronous ones on one event loop."""

    def __init__(self, session: Any = None) -> None:  # noqa: ANN401 - stands in for an aiohttp.ClientSession
        self._pool = ThreadPoolExecutor(WORKER_THREADS, thread_name_prefix="function")
        self._loop = asyncio.new_event_loop()
        self._running: set[Future[Any]] = set()
        # The SDK keeps one session and one lock for the process, bound to the loop that used them first.
        http_utils._client_session = session
        http_utils._session_lock = asyncio.Lock()
        self._thread = threading.Thread(target=self._loop.run_forever, name="functions-loop", daemon=True)
        self._thread.start()

    def call(self, function: Function, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401 - see Runner
        """See `Runner.call`."""
        return self._future(function, arguments).result()

    def call_all(self, function: Function, many: Sequence[Mapping[str, Any]]) -> list[BaseException | None]:
        """See `Runner.call_all`."""
        futures = [self._future(function, arguments) for arguments in many]
        return [future.exception() for future in futures]

    def submit(self, function: Function, arguments: Mapping[str, Any], done: Done) -> None:
        """See `Runner.submit`."""
        self._future(function, arguments).add_done_callback(functools.partial(_hand_over, done))

    def close(self) -> None:
        """See `Runner.close`."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        wait(list(self._running), timeout=GRACE_SECONDS)
        asyncio.run_coroutine_threadsafe(http_utils._close_session(), self._loop).result(timeout=5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
        self._loop.close()

    def _future(self, function: Function, arguments: Mapping[str, Any]) -> Future[Any]:
        if inspect.iscoroutinefunction(function):
            future = asyncio.run_coroutine_threadsafe(function(**arguments), self._loop)
            self._running.add(future)
            future.add_done_callback(self._running.discard)
            return future
        return self._pool.submit(function, **arguments)


def _hand_over(done: Done, future: Future[Any]) -> None:
    if not future.cancelled():
        error = future.exception()
        done(None if error else future.result(), error)
