"""Takes keys out of texts before they are shown, stored or sent.

Deterministic, idempotent and linear in the text. It knows the exact keys in use and the shapes of common ones; it
leaves hashes, ids and code alone, because a model that edits a file must see the file's own text.
"""

import codecs
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import BinaryIO
from urllib.parse import quote

_SHORTEST_KEY = 8  # characters; shorter values would be found by chance
_OVERLAP = 16 * 1024  # characters of a stream that stay behind: longer than any key that is recognised
_PLACEHOLDERS = frozenset({"password", "pass", "passwd", "pw", "pwd", "secret", "token", "xxx"})
_BLOCK = 1024 * 1024

Span = tuple[int, int, str]  # start, end, what stands there instead


class Redactor:
    """Replaces keys by `[redacted:KIND]`. `known` are exact values: those of the provider keys in use."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        values = {value.strip() for value in known}
        values |= {quote(value, safe="") for value in values}
        markers = "".join(_marker(kind) for kind in ("key", *(shape.kind for shape in _SHAPES)))
        usable = [value for value in values if len(value) >= _SHORTEST_KEY and value not in markers]
        self._known = sorted(usable, key=lambda value: (-len(value), value))

    def text(self, text: str) -> str:
        """The text without keys."""
        return _replaced(text, self._spans(text), len(text))

    def stream(self, source: BinaryIO, target: BinaryIO, *, block: int = _BLOCK, overlap: int = _OVERLAP) -> None:
        """Copy a file without keys, in bounded memory. Bytes that are not UTF-8 stay as they are.

        A key that is longer than `overlap` characters may lose only its beginning.
        """
        decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        held = ""
        while data := source.read(block):
            held += decoder.decode(data)
            spans = self._spans(held)
            cut = _safe_cut(spans, max(0, len(held) - overlap))
            target.write(_replaced(held, spans, cut).encode("utf-8", "surrogateescape"))
            held = held[cut:]
        held += decoder.decode(b"", final=True)
        target.write(self.text(held).encode("utf-8", "surrogateescape"))

    def _spans(self, text: str) -> list[Span]:
        """Where keys are, in order, none overlapping another."""
        spans: list[Span] = []
        for value in self._known:
            start = text.find(value)
            while start >= 0:
                spans.append((start, start + len(value), _marker("key")))
                start = text.find(value, start + len(value))
        for shape in _SHAPES:
            if any(anchor in text for anchor in shape.anchors):
                spans += shape.spans(text)
        return _merged(spans)


@dataclass(frozen=True, slots=True)
class _Shape:
    """A kind of key: its pattern, whose last group is the key, and texts without which it cannot occur.

    Every pattern starts with a literal or where a run of its own characters starts, and has no nested repeats, so that
    no text makes it slow; `re` compiles it when it is first needed. `accepts` looks at the key itself.
    """

    kind: str
    anchors: tuple[str, ...]
    pattern: str
    accepts: Callable[[str], bool] = bool

    def spans(self, text: str) -> list[Span]:
        found: list[Span] = []
        for match in re.finditer(self.pattern, text):
            group = match.lastindex or 0
            if self.accepts(match[group]):
                found.append((match.start(group), match.end(group), _marker(self.kind)))
        return found


def _has_digit(key: str) -> bool:
    """Random text of twenty characters has a digit; `sk-folding-cube-wrapper` and YOUR_ACCESS_TOKEN have none."""
    return any(char.isdigit() for char in key)


def _is_base64(key: str) -> bool:
    return any(char.islower() for char in key) and any(char.isupper() for char in key)


def _is_password(key: str) -> bool:
    """Not a placeholder: `${PASSWORD}`, `***`, `%s`, `[redacted:...]`, or a word of documentation."""
    return key[0] not in "$<{[%*" and key.casefold() not in _PLACEHOLDERS


_SHAPES = (
    _Shape(
        "private-key",
        ("PRIVATE KEY-----",),
        (
            r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY-----(?:\s|\\[nr]){1,4}"
            r"(?:[A-Za-z-]{1,20}: [^\n\\]{1,80}(?:\s|\\[nr]){1,4}){0,4}"  # Proc-Type, DEK-Info
            r"[A-Za-z0-9+/=\s\\]{32,}(?:-----END [A-Z0-9 ]{0,30}PRIVATE KEY-----)?"
        ),
    ),
    _Shape("anthropic", ("sk-ant-",), r"(?<![A-Za-z0-9])sk-ant-[A-Za-z0-9_-]{16,}", _has_digit),
    _Shape("openai", ("sk-",), r"(?<![A-Za-z0-9])sk-(?!ant-)[A-Za-z0-9_-]{20,}", _has_digit),
    _Shape("github", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{30,}"),
    _Shape("github", ("github_pat_",), r"(?<![A-Za-z0-9])github_pat_[A-Za-z0-9_]{30,}"),
    _Shape("gitlab", ("glpat-",), r"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_-]{20,}"),
    _Shape("aws", ("AKIA", "ASIA"), r"(?<![A-Za-z0-9])(?:AKIA|ASIA)[A-Z0-9]{9}(?!EXAMPLE)[A-Z0-9]{7}(?![A-Za-z0-9])"),
    _Shape(
        "aws",
        ("ecret", "ECRET"),
        r"(?i:aws_?secret_?access_?key)[\"']?\s{0,4}[=:]\s{0,4}[\"']?([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])",
    ),
    _Shape("google", ("AIza",), r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    _Shape("slack", ("xox",), r"(?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{10,}", _has_digit),
    _Shape("huggingface", ("hf_",), r"(?<![A-Za-z0-9_])hf_[A-Za-z0-9]{30,}"),
    _Shape("npm", ("npm_",), r"(?<![A-Za-z0-9_])npm_[A-Za-z0-9]{36,}"),
    _Shape("pypi", ("pypi-",), r"(?<![A-Za-z0-9])pypi-[A-Za-z0-9_-]{40,}"),
    _Shape("stripe", ("_live_",), r"(?<![A-Za-z0-9])[rs]k_live_[A-Za-z0-9]{16,}"),
    _Shape("groq", ("gsk_",), r"(?<![A-Za-z0-9])gsk_[A-Za-z0-9]{30,}"),
    _Shape("xai", ("xai-",), r"(?<![A-Za-z0-9])xai-[A-Za-z0-9]{30,}"),
    _Shape(
        "jwt",
        ("eyJ",),
        r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
    ),
    _Shape("password", ("://",), r"://([^\s/:@'\"<>]{0,200}):(?!\1@)([^\s/@'\"<>]{1,200})@", _is_password),
    _Shape(
        "authorization",
        ("earer",),
        r"(?i:authorization)[\"']?\s{0,4}[:=]\s{0,4}[\"']?[Bb]earer\s{1,4}([A-Za-z0-9._~+/=-]{12,})",
        _has_digit,
    ),
    _Shape(
        "authorization",
        ("asic",),
        r"(?i:authorization)[\"']?\s{0,4}[:=]\s{0,4}[\"']?[Bb]asic\s{1,4}([A-Za-z0-9+/=]{8,})",
        _is_base64,
    ),
)


def _marker(kind: str) -> str:
    return f"[redacted:{kind}]"


def _merged(spans: list[Span]) -> list[Span]:
    """Spans in order; one that overlaps an earlier one is joined to it."""
    merged: list[Span] = []
    for start, end, marker in sorted(spans, key=lambda span: (span[0], -span[1])):
        if merged and start < merged[-1][1]:
            before = merged[-1]
            merged[-1] = (before[0], max(before[1], end), before[2])
        else:
            merged.append((start, end, marker))
    return merged


def _safe_cut(spans: list[Span], cut: int) -> int:
    """The cut moved out of a span that it would part: to its start, or behind one that starts the text."""
    for start, end, _ in spans:
        if start < cut < end or (cut == end and start < cut):
            return start or end
    return cut


def _replaced(text: str, spans: list[Span], end: int) -> str:
    """The text up to `end`, which parts no span."""
    parts: list[str] = []
    at = 0
    for start, stop, marker in spans:
        if stop > end:
            break
        parts += [text[at:start], marker]
        at = stop
    return "".join([*parts, text[at:end]])
