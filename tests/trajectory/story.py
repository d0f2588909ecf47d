"""A run that a test makes by hand, event by event."""

import hashlib
from typing import Any

from tests.trajectory.files import seeded_run
from tests.trajectory.generators import plain_body
from tinyagent.core.events import Event, MessageAdded, ModelCalled, Record, RunStarted
from tinyagent.core.state import advance, fold
from tinyagent.core.tokens import message_tokens
from tinyagent.core.types import Json, Message, Request


class Story:
    """A run in the making. `state` is the live one."""

    def __init__(self) -> None:
        start = seeded_run()[0].event
        assert isinstance(start, RunStarted)
        self.start = start
        self.records: list[Record] = []
        self.state = fold([])
        self.note(start)

    def note(self, event: Event) -> None:
        self.records.append(Record(len(self.records) + 1, 100.0 + len(self.records), event))
        self.state = advance(self.state, event)

    def say(self, *messages: Message) -> None:
        for message in messages:
            self.note(MessageAdded(message, message_tokens(message), self.state.spend.steps))

    def ask(
        self, *, options: Json | None = None, max_output_tokens: int | None = None, error: str = "", **more: Any
    ) -> None:
        """One request of the view as it stands, with the digest that a live run would have had."""
        request = Request(self.state.system, self.state.view.messages, self.state.tools, max_output_tokens)
        digest = hashlib.sha256(plain_body(request, options or self.state.setup.options)).hexdigest()
        self.note(
            ModelCalled("step", self.state.step, digest, 9, max_output_tokens, error=error, options=options, **more)
        )
