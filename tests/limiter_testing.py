"""Time under a test's control, for the tests of the limiter."""

import asyncio
from collections.abc import Iterator


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop whose time stands still until a test advances it."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__()

    def time(self) -> float:
        return self.now

    def settle(self) -> None:
        """Let every task run as far as it gets."""
        self.run_until_complete(settle_loop())

    def steps(self, seconds: float) -> Iterator[None]:
        """Advance, with a step at each moment for which somebody waits."""
        end = self.now + seconds
        while dues := [
            timer.when()
            for timer in self._scheduled
            if not timer.cancelled() and timer.when() <= end
        ]:  # type: ignore[attr-defined]
            self.now = max(self.now, min(dues))
            self.settle()
            yield
        self.now = end
        self.settle()

    def advance(self, seconds: float) -> None:
        for _ in self.steps(seconds):
            pass


async def settle_loop() -> None:
    """Let every task of this loop run as far as it gets."""
    for _ in range(10):
        await asyncio.sleep(0)
