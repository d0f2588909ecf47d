"""How many tasks may run while the provider is in trouble. Pure: the time comes in.

Each run waits and repeats by itself. What it cannot know is that all others do the same; so the batch starts nothing
new for a while, halves the number of running tasks, and lets it grow again with every good answer.
"""

from dataclasses import dataclass, replace

LONGEST_PAUSE_S = 60.0
PATIENCE_S = 900.0  # without one good answer, and the batch gives up


@dataclass(frozen=True, slots=True)
class Throttle:
    """`allowed` tasks of `most` may run; none is started before `paused_until`. Times are seconds of one clock.

    `since` is when the trouble began; None: there is none.
    """

    most: int
    allowed: int
    paused_until: float = 0.0
    episodes: int = 0
    since: float | None = None
    first_pause_s: float = 2.0

    @classmethod
    def of(cls, most: int, *, first_pause_s: float = 2.0) -> "Throttle":
        return cls(most, most, first_pause_s=first_pause_s)

    def may_start(self, running: int, now: float) -> bool:
        return now >= self.paused_until and running < self.allowed

    def is_hopeless(self, now: float) -> bool:
        """Whether there was trouble, and nothing but trouble, for longer than is worth waiting for."""
        return self.since is not None and now - self.since > PATIENCE_S

    def trouble(self, now: float, *, running: int) -> "Throttle":
        """A round failed because of the provider. Within a pause it tells nothing new."""
        since = now if self.since is None else self.since
        if now < self.paused_until:
            return replace(self, since=since)
        pause = min(LONGEST_PAUSE_S, self.first_pause_s * 2**self.episodes)
        return replace(
            self,
            allowed=max(1, min(self.allowed, max(running, 1)) // 2),
            paused_until=now + pause,
            episodes=self.episodes + 1,
            since=since,
        )

    def good_answers(self, now: float, count: int) -> "Throttle":
        """Replies came in. The number of running tasks grows by one for each task's worth of them."""
        if self.since is None and self.allowed == self.most:
            return self
        grown = min(self.most, self.allowed + max(1, count // max(1, self.allowed)))
        if now < self.paused_until:  # one of the runs got through; the others still wait
            return replace(self, since=None)
        return replace(self, allowed=grown, episodes=max(0, self.episodes - 1), since=None)
