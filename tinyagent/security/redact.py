"""Takes keys out of texts before they are shown, stored or sent.

Deterministic, idempotent and linear in the text. It knows the exact keys in use and the shapes of common ones; it
leaves hashes, ids and code alone, because a model that edits a file must see the file's own text.
"""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO
from urllib.parse import quote

_SHORTEST_KEY = 8  # characters; shorter values would be found by chance
_OVERLAP = 16 * 1024  # characters of a stream that stay behind: longer than any key that is recognised
_PLACEHOLDERS = frozenset({"password", "pass", "passwd", "pw", "pwd", "secret", "token", "xxx"})
_BLOCK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Span:
    """A key from `start` to `end`. `context` is where the text begins that it was recognised by."""

    context: int
    start: int
    end: int
    marker: str


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
        for find in (self._known_spans, _shape_spans):
            text = _replaced(text, find(text), len(text))
        return text

    def stream(self, source: BinaryIO, target: BinaryIO, *, block: int = _BLOCK, overlap: int = _OVERLAP) -> None:
        """Copy a file without keys, in bounded memory. Bytes that are not UTF-8 stay as they are.

        A key that is longer than `overlap` characters may lose only its beginning.
        """
        texts = _decoded(source, block)
        for find in (self._known_spans, _shape_spans):
            texts = _redacted(texts, find, overlap)
        for text in texts:
            target.write(text.encode("utf-8", "surrogateescape"))

    def _known_spans(self, text: str) -> list[_Span]:
        spans: list[_Span] = []
        for value in self._known:
            start = text.find(value)
            while start >= 0:
                spans.append(_Span(start, start, start + len(value), _marker("key")))
                start = text.find(value, start + len(value))
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

    def spans(self, text: str) -> list[_Span]:
        found: list[_Span] = []
        for match in re.finditer(self.pattern, text):
            group = match.lastindex or 0
            if self.accepts(match[group]):
                found.append(_Span(match.start(), match.start(group), match.end(group), _marker(self.kind)))
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
            r"[A-Za-z0-9+/=\s\\]{32,}(?:-----END [A-Z0-9 ]{0,30}PRIVATE KEY-----(?![A-Za-z0-9_-]))?"
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
    _Shape("google", ("AIza",), r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{35,}"),
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
    _Shape(
        "password",
        ("://",),
        r"://((?:[^\s/:@'\"<>\[\]]|\[redacted:[a-z-]{1,20}\]){0,200}):(?!\1@)([^\s/@'\"<>]{1,200})@",
        _is_password,
    ),
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


def _shape_spans(text: str) -> list[_Span]:
    spans: list[_Span] = []
    for shape in _SHAPES:
        if any(anchor in text for anchor in shape.anchors):
            spans += shape.spans(text)
    return _merged(spans)


def _merged(spans: list[_Span]) -> list[_Span]:
    """Spans in order; one that overlaps an earlier one is joined to it."""
    merged: list[_Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if merged and span.start < merged[-1].end:
            before = merged.pop()
            span = replace(before, context=min(before.context, span.context), end=max(before.end, span.end))
        merged.append(span)
    return merged


def _replaced(text: str, spans: list[_Span], end: int) -> str:
    """The text up to `end`, which parts no span."""
    parts: list[str] = []
    at = 0
    for span in spans:
        if span.end > end:
            break
        parts += [text[at : span.start], span.marker]
        at = span.end
    return "".join([*parts, text[at:end]])


def _decoded(source: BinaryIO, block: int) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    while data := source.read(block):
        yield decoder.decode(data)
    yield decoder.decode(b"", final=True)


def _redacted(texts: Iterator[str], find: Callable[[str], list[_Span]], overlap: int) -> Iterator[str]:
    """The texts, joined and parted anew, without the keys that `find` finds; the last `overlap` characters wait."""
    held = ""
    for text in texts:
        held += text
        if len(held) <= overlap:
            continue
        spans = find(held)
        cut = _safe_cut(held, spans, len(held) - overlap)
        yield _replaced(held, spans, cut)
        held = held[cut:]
    yield _replaced(held, find(held), len(held))


def _safe_cut(text: str, spans: list[_Span], cut: int) -> int:
    """The cut at the end of a line if there is one before it, and moved out of what it would part.

    What would be parted waits for the next round; if it starts the text, it is longer than the overlap and is let go.
    """
    cut = text.rfind("\n", 0, cut) + 1 or cut
    for span in reversed(spans):
        if span.context < cut < span.end:
            cut = span.context or span.end
    return cut
