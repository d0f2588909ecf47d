"""How long it takes to plan a pass over a long log, and to see that none is due.

    python -m benchmarks.planning [--turns 1000]

Times are CPU time, medians; a turn is two messages. The summary stage is left out: rendering its request takes as long
again, and then a model is waited for.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

from tests.compaction.scripts import long_state
from tinyagent.compaction.compactor import Compactor
from tinyagent.compaction.ladder import Ladder, NoReply, Summarizer
from tinyagent.compaction.plan import ContextPolicy, StageName, figures
from tinyagent.core.state import Run, RunState
from tinyagent.core.types import Window

NOBODY = Summarizer(lambda request, seconds: NoReply("nobody"), lambda: None, "")
STAGES: tuple[tuple[StageName, ...], ...] = (("elide",), ("elide", "prune"), ("prune",))
CHARS = (300, 600, 2_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=1_000)
    args = parser.parse_args()
    print(f"planning a pass over {2 * args.turns + 1:,} messages")
    for chars in CHARS:
        state = long_state(args.turns, chars=chars)
        for stages in STAGES:
            print(f"  outputs of {chars:5,} characters  {'+'.join(stages):12}  {plan_ms(state, stages):6.1f} ms")
    print("seeing that nothing is due")
    for turns in (10, args.turns):
        print(f"  {2 * turns + 1:5,} messages  {1000 * check_ms(long_state(turns)):6.1f} us")


def plan_ms(state: RunState, stages: tuple[StageName, ...]) -> float:
    policy = ContextPolicy(stages=stages)
    sizes = figures(policy, round(state.estimate / 0.82), reserved_output=None)
    return cpu_ms(lambda: Ladder(policy, NOBODY).climb(state, sizes), times=9)


def check_ms(state: RunState) -> float:
    roomy = replace(state, window=Window(10 * state.estimate, "configured"))
    compactor = Compactor(Run(sink=lambda record: None, clock=time.time, state=roomy), ContextPolicy(), NOBODY)
    return cpu_ms(lambda: [compactor.before_request() for _ in range(1_000)], times=5) / 1_000


def cpu_ms(work: Callable[[], object], *, times: int) -> float:
    spent: list[float] = []
    for _ in range(times):
        begin = time.process_time()
        work()
        spent.append(1000 * (time.process_time() - begin))
    return statistics.median(spent)


if __name__ == "__main__":
    main()
