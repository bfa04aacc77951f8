"""Background work that starts late, at random."""

import random
import time
from collections.abc import Sequence

from tierkv.cache import TieredCache
from tierkv.interfaces import Installer
from tierkv.schedules.executor_schedule import ExecutorSchedule
from tierkv.schedules.worker_schedule import WorkerSchedule
from tierkv.types import Placement, Plan, Selection


class Delayed(Installer):
    """Wraps an installer: its worker is held up before a job, the caller between two.

    ``tierkv`` knows how to hold up its own schedules; of another's only the caller is.
    """

    def __init__(self, cache: TieredCache, seed: int) -> None:
        self._inner, self._random = cache.installer, random.Random(seed)
        self._schedule = getattr(cache.installer, "_schedule", None)
        self.background = cache.installer.background
        cache.installer = self

    def _delay(self) -> None:
        microseconds = self._random.choice([0, 0, 100, 1_000])
        if isinstance(self._schedule, WorkerSchedule):
            from tierkv import _native

            _native.delay_worker(microseconds)
        elif isinstance(self._schedule, ExecutorSchedule):
            self._schedule._thread.submit(time.sleep, microseconds / 1e6)

    def fence(self, layer: int) -> None:
        self._inner.fence(layer)

    def commit(self, plan: Plan) -> Placement:
        self._delay()
        return self._inner.commit(plan)

    def install(self, placement: Placement, layer: int, selection: Selection) -> None:
        self._delay()
        self._inner.install(placement, layer, selection)
        time.sleep(self._random.choice([0, 0, 2e-4]))

    def drain(self, lanes: Sequence[int] | None = None) -> None:
        self._inner.drain(lanes)
