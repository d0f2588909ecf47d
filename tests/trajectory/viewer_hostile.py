"""A run in which every text tries to act: to run, to load, to break out of its place, or to hide what it says."""

from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

from tests.trajectory.viewer_data import realistic_run
from tinyagent.core.events import MessageAdded, Notice, Record, Unknown
from tinyagent.core.types import UserMessage

# Fields whose values decide where a record stands; everything else that is text may hold anything.
_FIXED = frozenset(
    {"reason", "purpose", "stages", "stage", "trigger", "status", "source", "call_id", "stop", "id", "kind"}
)


def payloads(address: str) -> list[str]:
    """Texts that do something if they are ever taken for markup, script, style or a template."""
    return [
        "</script><script>window.pwned=1</script>",
        f'<img src="{address}/img" onerror="window.pwned=1">',
        f"<svg onload=window.pwned=1><image href={address}/svg></svg>",
        f"<style>@import url({address}/css);*{{display:none}}</style>",
        f'<link rel=stylesheet href="{address}/link"><base href="{address}/">',
        f'<meta http-equiv=refresh content="0;url={address}/meta">',
        f'<iframe src="{address}/frame" srcdoc="<script>parent.pwned=1</script>"></iframe>',
        f'<form action="{address}/form"><input autofocus onfocus=window.pwned=1></form>',
        "<!--<script>",
        "--><script>window.pwned=1</script><!--",
        "]]>",
        "{{SECTIONS}}",
        "{{SCRIPT}}",
        "${window.pwned=1}",
        '"><script>window.pwned=1</script>',
        "'-window.pwned=1-'",
        "javascript:window.pwned=1",
        "&lt;script&gt;",
        f"[link]({address}/md) ![image]({address}/md2) `<b>` \n```html\n<script>window.pwned=1</script>\n```\n",
        "\u202eltr\u202c \u2066x\u2069 \u200b zero width \x1b[2J \x07 \x00 \u2028 \u2029 \ufeff \U000e0041\U000e0042",
        "lone \ud800 surrogates \udfff",
        "__proto__",
        "constructor",
        "toString",
    ]


def hostile_run(address: str) -> list[Record]:
    """The realistic run with a payload in front of every text, and in names and keys too."""
    attack = _Attack(payloads(address))
    records = [replace(record, event=attack.on(record.event)) for record in realistic_run(steps=60)]
    last = records[-1]
    notices = [Notice(text, detail=text) for text in attack.payloads]
    unknown = Unknown("<b>kind</b>", {"</script>": attack.payloads})
    odd = [MessageAdded(UserMessage("x", cast(Any, kind)), 1) for kind in ("__proto__", "a.b c", "<b>")]
    more = [Record(last.seq + n, last.time, event) for n, event in enumerate((*notices, *odd, unknown), 1)]
    return [*records[:-1], *more, replace(last, seq=last.seq + len(more) + 1)]


class _Attack:
    """Puts payloads into a value, the next one each time."""

    def __init__(self, found: list[str]) -> None:
        self.payloads = found
        self._at = 0

    def on(self, value: Any) -> Any:
        if isinstance(value, str):
            return f"{self.next()} {value}" if value else value
        if is_dataclass(value) and not isinstance(value, type):
            changed = {f.name: self.on(getattr(value, f.name)) for f in fields(value) if f.name not in _FIXED}
            return replace(cast(Any, value), **changed)
        if isinstance(value, dict):
            return self._on_dict(cast("dict[Any, Any]", value))
        if isinstance(value, tuple):
            return tuple(self.on(item) for item in cast("tuple[Any, ...]", value))
        if isinstance(value, list):
            return [self.on(item) for item in cast("list[Any]", value)]
        return value

    def next(self) -> str:
        self._at += 1
        return self.payloads[self._at % len(self.payloads)]

    def _on_dict(self, value: dict[Any, Any]) -> dict[Any, Any]:
        attacked = {name: self.on(item) if name not in _FIXED else item for name, item in value.items()}
        if all(isinstance(name, str) for name in value):
            attacked[self.next()] = self.next()
        return attacked
