"""The rows of a report on a paper."""

import json
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from tinyagent.compaction.explain import pass_line
from tinyagent.console import Paper, legible
from tinyagent.console.lines import cost_words, window_words
from tinyagent.console.paper import Style
from tinyagent.core.limits import Spend
from tinyagent.core.types import ToolCall, ToolMessage, Usage
from tinyagent.trajectory.rows import (
    CallRow,
    EndRow,
    MessageRow,
    NoteRow,
    PassRow,
    RequestRow,
    Row,
    StartRow,
    StepRow,
    clipped,
)

_NARROWEST = 20  # columns; below that, lines are left to the terminal
_ONE_LINE = 80  # characters of several arguments
_WHO = {"task": "task", "user": "user", "notice": "told the model", "summary": "summary"}


class Rendering:
    """Shows rows one after the other. `full`: nothing is clipped, and reasoning is shown."""

    def __init__(self, paper: Paper, *, full: bool = False) -> None:
        self._paper = paper
        self._full = full
        self._is_first = True

    def row(self, row: Row) -> None:
        match row:
            case StartRow():
                self._start(row)
            case MessageRow():
                self._heading(f"{_WHO[row.kind]}", "bold", f"#{row.id}")
                self._text(row.text, indent=2, lines=20)
            case StepRow():
                self._step(row)
            case RequestRow():
                self._heading(f"request failed · {_used(row)}", "yellow")
                self._text(row.error, indent=2, lines=6, style="yellow")
            case PassRow():
                self._pass(row)
            case NoteRow():
                self._heading(
                    f"{'warning: ' if row.is_warning else ''}{row.text}", "yellow" if row.is_warning else "dim"
                )
                self._text(row.detail, indent=2, lines=6, style="dim")
            case EndRow():
                self._end(row)

    def _start(self, row: StartRow) -> None:
        what = "taken up again" if row.resumed else f"run {row.run_id}"
        origin = f" as a copy of {row.origin}" if row.origin else ""
        self._heading(f"{what}{origin} · {row.model} · {window_words(row.window)} · tinyagent {row.version}", "bold")
        self._text(f"{row.cwd} · {datetime.fromtimestamp(row.time, UTC):%Y-%m-%d %H:%M:%S} UTC", indent=0, style="dim")

    def _step(self, row: StepRow) -> None:
        number = "" if row.reply_id is None else f"#{row.reply_id}"
        self._heading(f"step {row.step} · {_used(row.request)}", "cyan", number)
        if row.reply is None:
            self._text("(no reply is on record)", indent=2, style="yellow")
            return
        if self._full:
            self._text(row.reply.reasoning, indent=2, style="dim")
        self._text(row.reply.text.strip(), indent=2, lines=30)
        if row.reply.stop in ("length", "refusal"):
            cut = "cut off at the output limit" if row.reply.stop == "length" else "refused"
            self._text(f"({cut})", indent=2, style="yellow")
        for call in row.calls:
            self._call(call)

    def _call(self, row: CallRow) -> None:
        first, *rest = arguments_text(row.call).split("\n")
        self._text(f"› {row.call.name}  {first}", indent=2, style="bold", lines=3)
        self._text("\n".join(rest), indent=4, style="bold", lines=8)
        if row.call.problem:
            self._text(f"the arguments cannot be read: {row.call.problem}", indent=4, style="red")
        for note in row.notes:
            self._text(note, indent=4, style="yellow")
        if row.result is None:
            self._text("(no result: the run was stopped first)", indent=4, style="yellow")
            return
        self._text(f"{_outcome(row.result)} · #{row.result_id}", indent=4, style=_result_style(row.result))
        self._text(row.result.text.rstrip("\n"), indent=4, style="dim", lines=10)

    def _pass(self, row: PassRow) -> None:
        event = row.event
        self._heading(f"» {pass_line(event)}", "green" if event.effective else "yellow")
        facts = [
            f"because of the {event.trigger}, before step {row.step}: {' → '.join(event.stages)}",
            *_listed("elided", event.elided),
            *_listed("clipped", event.clipped),
            *_listed("summarized", event.summarized),
            *_listed("pruned", event.pruned),
            *(f"{a.stage} was not enough: {a.rejected}" for a in event.attempts if a.rejected),
            *(f"summary request: {_used(s)}{' · ' + s.error if s.error else ''}" for s in row.summaries),
            *(["reasoning of the kept turns is no longer sent back"] if event.strip_reasoning else []),
            *([] if event.effective else ["it freed too little"]),
            f"the next request carries {_counted(row.messages, 'message')}",
        ]
        for fact in facts:
            self._text(fact, indent=2, style="dim", lines=4)
        if event.summary:
            self._text(event.summary, indent=4, lines=12)

    def _end(self, row: EndRow) -> None:
        good = row.ended is not None and row.ended.reason == "submitted"
        used = _tokens(row.spend.usage)
        words = [
            _counted(row.spend.steps, "step"),
            _counted(row.spend.requests, "request"),
            used,
            cost_words(row.spend),
        ]
        self._heading(f"{row.words}: {' · '.join(words)} · {_time_words(row.seconds)}", "green" if good else "red")
        if row.ended is not None and row.ended.error:
            self._text(row.ended.error, indent=2, style="red", lines=10)

    def _heading(self, text: str, style: Style, number: str = "") -> None:
        if not self._is_first:
            self._paper.line("")
        self._is_first = False
        self._text(f"{text} · {number}" if number else text, indent=0, style=style, lines=4)

    def _text(self, text: str, *, indent: int, style: Style = "plain", lines: int = 4) -> None:
        if not text:
            return
        text = text.replace("\r\n", "\n")
        if not self._full:
            text = clipped(text, lines=lines, chars=160 * lines)
        for line in legible(text).expandtabs(4).split("\n"):
            for part in self._wrapped(line, indent):
                self._paper.line(" " * indent + part if part else "", style)

    def _wrapped(self, line: str, indent: int) -> Iterator[str]:
        width = self._paper.columns() - indent - 1
        if not self._paper.is_live or width < _NARROWEST:
            return iter([line])
        return wrapped(line, width)


def arguments_text(call: ToolCall) -> str:
    """The arguments of a call for reading: the command as it is, else a line for all of them or for each."""
    if call.arguments is None:
        return call.raw
    values = {name: _value(value) for name, value in call.arguments.items()}
    command = values.pop("command", None)
    others = [f"{name}:{_before(value)}{value}" for name, value in values.items()]
    if command is None and len(others) == 1:
        return next(iter(values.values()))
    on_one_line = ", ".join(others)
    if len(on_one_line) <= _ONE_LINE and "\n" not in on_one_line:
        others = [on_one_line] if others else []
    return "\n".join([*([] if command is None else [command]), *others])


def wrapped(line: str, width: int) -> Iterator[str]:
    """The line in parts of at most `width` terminal cells, cut at blanks where that costs little."""
    start = 0
    while True:
        fits = _fitting(line[start : start + width], width)
        end = start + fits
        if end >= len(line):
            yield line[start:]
            return
        blank = line.rfind(" ", start + fits * 2 // 3, end + 1)
        cut = blank if blank > start else end
        yield line[start:cut]
        start = cut + 1 if blank > start else cut


def _fitting(text: str, width: int) -> int:
    """How many characters from its start fit; at least one."""
    if text.isascii():
        return len(text)
    used = 0
    for position, char in enumerate(text):
        used += 0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if used > width:
            return max(1, position)
    return len(text)


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _before(value: str) -> str:
    """A text of several lines starts on a line of its own."""
    return "\n" if "\n" in value else " "


def _used(row: RequestRow) -> str:
    """Tokens, cost, seconds and context share of a request."""
    if not row.time:
        return "nothing is known of the request"
    parts = [
        "usage unknown" if row.usage is None else _tokens(row.usage),
        cost_words(Spend(cost_usd=row.cost_usd)),
        f"{row.seconds:.1f} s",
        *([f"{row.attempts} attempts"] if row.attempts > 1 else []),
    ]
    if row.purpose == "step" and not row.error:
        window = row.window_tokens
        share = "" if not window else f" ({100 * row.context_tokens / window:.0f}% of {window:,})"
        parts.append(f"context {row.context_tokens:,}{share}")
    return " · ".join(parts)


def _tokens(usage: Usage) -> str:
    cached = f" ({100 * usage.cache_read_tokens / usage.input_tokens:.0f}% cached)" if usage.cache_read_tokens else ""
    return f"{usage.input_tokens:,} in{cached if usage.input_tokens else ''}, {usage.output_tokens:,} out"


def _outcome(message: ToolMessage) -> str:
    facts = message.facts
    parts: list[str] = []
    if "exit_code" in facts:
        code = facts["exit_code"]
        parts.append("stopped at its time limit" if code is None else f"exit {code}")
    elif message.is_error:
        parts.append("failed")
    parts.append(_counted(facts.get("output_chars", len(message.text)), "character"))
    if message.output_id:
        parts.append(f"whole output {message.output_id}")
    return " · ".join(parts)


def _result_style(message: ToolMessage) -> Style:
    return "red" if message.is_error or message.facts.get("exit_code", 0) != 0 else "green"


def _listed(verb: str, ids: Sequence[int]) -> list[str]:
    return [f"{verb}: {_ranges(ids)}"] if ids else []


def _ranges(ids: Sequence[int]) -> str:
    """Message numbers in few words: `#2-#5, #9`."""
    runs: list[list[int]] = []
    for number in sorted(ids):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"#{run[0]}" if len(run) == 1 else f"#{run[0]}-#{run[-1]}" for run in runs)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _time_words(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"
