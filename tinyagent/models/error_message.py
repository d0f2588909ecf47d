"""One sentence about a provider's error for people: what it means, what the provider said, no credentials."""

import re

from tinyagent.core.errors import ErrorKind
from tinyagent.models.error_body import ErrorBody

MAX_CHARS = 500

_WORDS: dict[ErrorKind, str] = {
    "overflow": "the prompt is larger than the model's context window",
    "overflow_total": "prompt and requested output together are larger than the model's context window",
    "body_too_large": "the request has more bytes than the server accepts",
    "output_cap": "the requested output is larger than the model allows",
    "rate_tier": "this single request is larger than the account's rate limit allows",
    "rate": "the provider's rate limit is reached",
    "overloaded": "the provider is overloaded or failed",
    "network": "the provider could not be reached or did not answer in time",
    "stream_cut": "the answer was cut off",
    "malformed": "the server's answer is no valid answer",
    "quota": "the account's credit or quota is used up",
    "auth": "the provider did not accept the key, or the key may not use this model",
    "not_found": "the model or the address does not exist there",
    "parameter": "the server does not accept a request parameter",
    "reasoning": "the provider refused reasoning blocks of earlier turns",
    "history": "the provider refused the form of the conversation",
    "bad_request": "the provider refused the request",
}
_GENERIC = r"(?i)provider returned error|bad request|error|internal server error|unknown error|invalid request"
_SECRETS = (
    (r"(\w+://)[^/\s:@]+:[^/\s@]+@", r"\1***@"),
    (r"(?i)\b(bearer|basic)\s+[\w.~+/=\-]{6,}", r"\1 ***"),
    (r"\b(?:sk|pk|rk|gsk|xai|hf|ghp|gho|ghs|github_pat|glpat|nvapi|pplx|tgp|fw|csk|r8|xox[abps])[-_][\w\-]{8,}", "***"),
    (r"\b(?:AIza[\w\-]{20,}|(?:AKIA|ASIA)[A-Z0-9]{12,}|eyJ[\w\-]{10,}\.[\w\-.]{10,})", "***"),
    (r"(?i)([?&](?:api[-_]?key|key|token|access_token|sig|signature)=)[^&\s\"']+", r"\1***"),
    (
        r"(?i)\b((?:x-)?(?:api[-_ ]?key|secret|password|authorization|access[-_ ]?token)\b[\"']?(?: provided)?"
        r"\s*[:=]\s*[\"']?)[^\s\"',;]{6,}",
        r"\1***",
    ),
    (r"\b[0-9a-fA-F]{32,}\b", "***"),
)


def describe(kind: ErrorKind, body: ErrorBody, status: int | None) -> str:
    """A sentence of at most about 500 characters, on one line."""
    where = f" (HTTP {status})" if status is not None and status >= 400 else ""
    said = mask_secrets(" ".join(_best_text(body)[: 2 * MAX_CHARS].split()))
    sentence = f"{_WORDS[kind]}{where}: {said}" if said else f"{_WORDS[kind]}{where}"
    return sentence if len(sentence) <= MAX_CHARS else sentence[: MAX_CHARS - 1].rstrip() + "…"


def mask_secrets(text: str) -> str:
    """The text with user information in URLs, bearer tokens and strings of known key shapes replaced."""
    for pattern, replacement in _SECRETS:
        text = re.sub(pattern, replacement, text)
    return text


def _best_text(body: ErrorBody) -> str:
    """The innermost text that says something; the codes where there is none."""
    telling = [text for text in body.texts if not re.fullmatch(_GENERIC, text.strip(" .:"))]
    if telling:
        return max(telling, key=lambda text: min(len(text), 120) + telling.index(text))
    return next(iter(body.texts), "") or ", ".join(sorted(body.codes - {"error"}))
