"""What the driver makes of what an executor tells."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.batch.batches import Batch, on, rows
from tests.builders import usage
from tests.fake_provider import FakeProvider
from tinyagent.batch.local import Finished
from tinyagent.batch.order import Order
from tinyagent.batch.progress import Progress
from tinyagent.core.errors import EndReason
from tinyagent.core.events import RunEnded
from tinyagent.core.limits import Spend

BEGUN = Progress("run", "openai/x")
STEP = replace(BEGUN, spend=Spend(usage(1000, 100), 0.02, 1, 1), answers=1)


class Told:
    """An executor whose tries go as told: a look each, then the worker is lost. `told` has the looks in order."""

    goes_on = False

    def __init__(self, *told: Progress | None) -> None:
        self._told: Sequence[Progress | None] = told
        self._looks = 0
        self._order: Order | None = None
        self.stops: list[bool] = []

    def start(self, order: Order) -> None:
        self._order, self._looks = order, 0

    def finished(self, timeout_s: float) -> list[Finished]:
        order = self._order
        if order is None or self._looks < len(self._told):
            return []
        self._order = None
        return [Finished(order, None, "the worker is lost")]

    def progress(self) -> Mapping[str, Progress]:
        if self._order is None:
            return {}
        told = self._told[self._looks]
        self._looks += 1
        return {} if told is None else {self._order.mark: told}

    def stop(self, *, force: bool) -> None:
        self.stops.append(force)

    def close(self) -> None: ...


def batch_of(root: Path, *told: Progress | None) -> Batch:
    with FakeProvider() as server:  # its address is all that is needed
        options = {**on(server), "cost_limit": "0"}
    return Batch(root, rows(1), options=options, asked={"max_retries": 0}, executor=Told(*told))


def test_the_driver_shows_what_was_last_heard_of_a_try(tmp_path: Path) -> None:
    one = batch_of(tmp_path, None, BEGUN, STEP, None)
    one.run()
    assert one.seen_running("t1") == [Progress(), BEGUN, STEP, STEP]


def test_trouble_that_is_heard_of_while_a_try_runs_holds_the_others_back(tmp_path: Path) -> None:
    one = batch_of(tmp_path, BEGUN, replace(BEGUN, trouble=1))
    one.run()
    first, second = (board.paused_s for board in one.seen.boards if board.running)
    assert first <= 0 < second


@pytest.mark.parametrize("reason", [None, "submitted"])
def test_a_lost_worker_s_task_tells_how_far_it_was_seen_to_come(tmp_path: Path, reason: EndReason | None) -> None:
    """Also where the run had ended: its patch is lost with the worker."""
    one = batch_of(tmp_path, BEGUN, replace(STEP, ended=None if reason is None else RunEnded(reason)))
    one.run()
    status = one.status("t1")
    assert (status.state, status.reason, status.error) == ("infrastructure", "crashed", "the worker is lost")
    assert (status.steps, status.usage, status.run_id) == (1, usage(1000, 100), "run")
    assert status.cost_usd is None
