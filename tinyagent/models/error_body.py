"""Read a provider's error answer, whatever it is wrapped in.

Errors arrive as JSON, JSON in a JSON string, a quoted Python bytes literal inside a message, a list, server-sent event
lines, HTML, plain text or nothing; gateways nest them one to three levels deep.
"""

import html
import json
import re
from dataclasses import dataclass, field
from typing import cast

_MAX_TEXT_CHARS = 60_000
_NAMED_WITHIN = 2_500  # characters: where an answer names what it refuses
_MAX_DEPTH = 40
_MAX_NODES = 600
_MAX_DECODE_ATTEMPTS = 60

# Values of these keys name a kind of error; everything else that is a string is text for people.
_CODE_KEYS = frozenset(
    {
        "code",
        "type",
        "status",
        "reason",
        "error_type",
        "error_code",
        "errorcode",
        "error_name",
        "name",
        "__type",
        "err_code",
    }
    | {"finish_reason", "stop_reason", "finishreason", "native_finish_reason", "innererror", "error", "limit_source"}
)
_GENERIC_CODES = frozenset(
    {"error", "invalid_argument", "invalid_request_error", "bad_request", "bad_request_error", "invalid_parameter"}
    | {
        "invalid_parameter_error",
        "invalid_value",
        "invalid_request",
        "invalid_input",
        "validation_exception",
        "value_error",
    }
)
_STATUS_KEYS = frozenset({"code", "status", "status_code", "statuscode", "http_status", "raw_status_code"})
_PARAMETER_KEYS = frozenset({"param", "parameter"})
# A validation error may echo the whole prompt; a prompt that talks about errors must not decide anything.
_ECHO_KEYS = frozenset(
    {"input", "messages", "prompt", "request", "url", "doc_url", "stack", "stacktrace", "traceback", "request_id", "id"}
    | {"user_id", "usage", "headers", "user", "available_models"}
)

_PARAMETER_NAMES = (
    r"(?:[Pp]arameter|[Aa]rgument|[Ff]ield|[Kk]ey|[Pp]roperty|[Nn]ame)(?:\(s\))?(?: in object)?(?: supplied)?:? *"
    r"[`'\"\\]*([A-Za-z_][\w.]*)",
    r"[Uu]nsupported value: *[`'\"]?([\w.]+)",
    r"([A-Za-z_][\w.]*): *[Ee]xtra inputs are not permitted",
    r"[`'\"]([A-Za-z_][\w.]*)[`'\"] (?:is|are|was|does|must|cannot|parameter)",
    r"does not support (?:the )?(?:parameter )?[`'\"]?([\w.]+)",
    r"\b(\w+_\w+|temperature|thinking|tools|stream) (?:is|are) (?:not supported|deprecated|unsupported)",
)
_KEY_VALUE = r"""["'](\w{2,20})["']\s*:\s*["']([^"'\s]{2,80})["']"""
_EXCEPTION_NAME = r"\b([A-Z][A-Za-z]{3,50}(?:Error|Exception))\b"
_IDENTIFIER = r"[A-Za-z_][\w.\-]{3,60}"
_HTML = r"(?i)<\s*(?:!doctype html|html|head|body|center|h1|title)\b"
_TAG = r"(?is)<(script|style)\b.*?(?:</\1>|\Z)|<!--.*?(?:-->|\Z)|<[^<>]{1,400}>"
_FRAME = r"(?m)^[ \t]*(?:event:\s*\w*|data:|id:\s*\d*)"  # of server-sent events
_UNICODE_ESCAPE = r"\\+u([0-9a-fA-F]{4})"


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """What an error answer says.

    `texts` are sentences for people, outermost first. `codes` are the values of code-like fields and names of exception
    classes, in lower case with underscores. `status` is an HTTP status found inside the body. `figures` are integers by
    the name of their field.
    """

    texts: tuple[str, ...] = ()
    codes: frozenset[str] = frozenset()
    status: int | None = None
    parameter: str = ""
    figures: dict[str, int] = field(default_factory=dict[str, int])
    is_html: bool = False

    @property
    def text(self) -> str:
        return "\n".join(self.texts)

    @property
    def telling_codes(self) -> list[str]:
        """Codes that say more than that something was wrong with the request."""
        return sorted(code for code in self.codes - _GENERIC_CODES if not code.isdigit())


def read_error_body(text: str) -> ErrorBody:
    """Decode an error answer as far as it can be decoded. Never raises."""
    text = text[:_MAX_TEXT_CHARS].strip()
    if re.search(_HTML, text[:2_000]) and not text.startswith(("{", "[", '"')):
        words = " ".join(html.unescape(re.sub(_TAG, " ", text)).split())
        return ErrorBody(texts=(words,) if words else (), is_html=True)
    reader = _Reader()
    reader.string(text, key="", depth=0)
    return ErrorBody(
        texts=tuple(dict.fromkeys(reader.texts)),
        codes=frozenset(reader.codes),
        status=reader.status,
        parameter=reader.parameter,
        figures=reader.figures,
    )


def rejected_parameter(body: ErrorBody) -> str:
    """The name of the rejected parameter as the request spells it; "" if the answer does not name it."""
    text = body.text[:_NAMED_WITHIN]
    for pattern in _PARAMETER_NAMES:
        found = re.search(pattern, text)
        if found and found[1].lower() not in ("is", "in", "for", "not", "value", "name"):
            return found[1].rstrip(".")
    return body.parameter


def plain(text: str) -> str:
    """The text in the one form that rules match: lower case, no quotes, `_` as a space, digits without separators."""
    text = re.sub(_UNICODE_ESCAPE, lambda found: chr(int(found[1], 16)), text)
    text = html.unescape(text).lower()
    text = re.sub(r"https?://\S+|\binvalid_argument\b", " ", text)
    text = re.sub(r"(?<=\d)[,_\u00a0\u202f](?=\d{3}(?!\d))", "", text)
    text = re.sub(r"(?<![\w.\-])(\d{1,4}(?:\.\d+)?) ?([km])\b(?! ?b\b)", _expand_suffix, text)
    text = re.sub(r"[`'\"*\u2018\u2019\u201c\u201d\\]", "", text).replace("_", " ")
    return re.sub(r"\s+", " ", text)


def sentences(text: str) -> list[str]:
    """The sentences of a text in plain form. Decimal points do not end one."""
    return [part for part in re.split(r"(?<=[.!?;])\s+|(?<=[。！？；])\s*|\n+", text) if part.strip()]


def _expand_suffix(found: re.Match[str]) -> str:
    # "128k" may mean 131,072; the smaller reading is the safe one.
    return str(int(float(found[1]) * (1_000 if found[2] == "k" else 1_000_000)))


class _Reader:
    """Walks decoded JSON and the JSON inside its strings; bounded in depth, nodes and decoding attempts."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.codes: set[str] = set()
        self.figures: dict[str, int] = {}
        self.status: int | None = None
        self.parameter = ""
        self._nodes = 0
        self._attempts = 0

    def value(self, value: object, *, key: str, depth: int) -> None:
        self._nodes += 1
        if depth > _MAX_DEPTH or self._nodes > _MAX_NODES:
            return
        match value:
            case dict():
                for name, inner in cast("dict[str, object]", value).items():
                    if (lower := str(name).lower()) not in _ECHO_KEYS:
                        self.value(inner, key=lower, depth=depth + 1)
            case list():
                for inner in cast("list[object]", value)[:30]:
                    self.value(inner, key=key, depth=depth + 1)
            case bool() | None:
                pass
            case int():
                self._integer(value, key)
            case str():
                self.string(value, key=key, depth=depth + 1)
            case _:
                pass

    def string(self, text: str, *, key: str, depth: int) -> None:
        text = text.strip()
        if not text:
            return
        if key in _PARAMETER_KEYS:
            self.parameter = self.parameter or text
            return
        if key == "loc":
            self.parameter = text  # the last part of a pydantic location is the field itself
            return
        if key in _CODE_KEYS and re.fullmatch(_IDENTIFIER, text):
            self._code(text)
            return
        if text.isdecimal() and len(text) < 12:
            self._integer(int(text), key)
            return
        values, rest = self._embedded(text) if depth <= _MAX_DEPTH else ([], text)
        if rest:
            self._prose(rest)
        for value in values:
            self.value(value, key=key, depth=depth + 1)

    def _integer(self, value: int, key: str) -> None:
        self.figures.setdefault(key, value)
        if key in _STATUS_KEYS and 400 <= value <= 599 and self.status is None:
            self.status = value
        elif key in _STATUS_KEYS:
            self._code(str(value))

    def _code(self, text: str) -> None:
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text.strip())
        self.codes.add(re.sub(r"[\s\-]+", "_", words).lower())

    def _prose(self, text: str) -> None:
        self.texts.append(text)
        if re.fullmatch(_IDENTIFIER, text):
            self._code(text)
        for name in re.findall(_EXCEPTION_NAME, text[:2_000]):
            self._code(name)
        for key, value in re.findall(_KEY_VALUE, text[:8_000]):  # JSON cut short, or a Python dict
            if key.lower() in _CODE_KEYS:
                self._code(value)
            elif key.lower() in _PARAMETER_KEYS and not self.parameter:
                self.parameter = value

    def _embedded(self, text: str) -> tuple[list[object], str]:
        """JSON values inside a text, and the text without them. Escaped quotes are undone up to three times."""
        for _ in range(4):
            values, rest = self._scan(text)
            if values or "{" not in text or '\\"' not in text:
                return values, rest
            text = text.replace('\\"', '"').replace("\\n", " ").replace("\\\\", "\\")
        return [], text

    def _scan(self, text: str) -> tuple[list[object], str]:
        decoder = json.JSONDecoder(strict=False)
        values: list[object] = []
        rest: list[str] = []
        position = 0
        for found in re.finditer(r'[{\[]|^"', text):
            start = found.start()
            if start < position or self._attempts >= _MAX_DECODE_ATTEMPTS:
                continue
            self._attempts += 1
            try:
                decoded = decoder.raw_decode(text, start)
            except (ValueError, RecursionError):  # not JSON from here on, or nested without end
                continue
            value, end = cast("tuple[object, int]", decoded)
            if not _says_something(value):
                continue  # "[1, 8192]" or "input[0]" in a sentence belongs to the sentence
            values.append(value)
            rest.append(text[position:start])
            position = end
        rest.append(text[position:])
        return values, re.sub(_FRAME, " ", "".join(rest)).strip(" \t\n'\"|,")


def _says_something(value: object) -> bool:
    """Whether a decoded value is more than a list of numbers, which a sentence may hold."""
    return not isinstance(value, list) or any(
        isinstance(item, (dict, str, list)) for item in cast("list[object]", value)
    )
