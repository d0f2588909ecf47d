"""Words and codes by which errors other than an overflow are known, in plain form (see `error_body.plain`).

Each table is a list of alternatives, patterns of one kind of complaint. Those of rates, money, keys, reasoning and
history are tried before an overflow is looked for, because they share words with one ("too many tokens", "reduce the
prompt length", "limit"); the rest after it, because an overflow may be wrapped in a class or status of theirs.
"""

import re
from collections.abc import Collection

from tinyagent.core.errors import ErrorKind

_CODES: tuple[tuple[ErrorKind, str], ...] = (
    (
        "quota",
        "insufficient_quota exceeded_current_quota_error billing_error billing_hard_limit_reached payment_required "
        "insufficient_balance insufficient_credits usage_limit_reached usage_not_included budget_exceeded "
        "budget_exceeded_error spend_limit_exceeded 1113",
    ),
    (
        "rate",
        "rate_limit_exceeded rate_limit_error rate_limit_reached rate_limit_reached_error rate_limited throttled "
        "throttling throttling_exception too_many_requests requests_limit 1302 1303",
    ),
    (
        "auth",
        "authentication_error invalid_api_key permission_error permission_denied unauthorized unauthenticated "
        "access_denied access_denied_exception invalid_authentication_error unrecognized_client_exception "
        "expired_token_exception token_expired account_deactivated 1000 1001",
    ),
    (
        "overloaded",
        "overloaded overloaded_error engine_overloaded_error server_overloaded unavailable unavailable_error "
        "service_unavailable service_unavailable_exception model_not_ready_exception 1305",
    ),
    (
        "not_found",
        "model_not_found not_found_error deployment_not_found resource_not_found_exception invalid_model "
        "model_not_exist model_not_supported unknown_model",
    ),
)

_RATE_TIER = (
    r"extra usage is required",
    r"long context.{0,60}(?:requires|not (?:yet )?(?:available|enabled))",
    r"input or output tokens must be reduced",
    r"request too large.{0,200}(?:per[- ]min|tpm|rate limit)",
)
_RATE = (
    r"rate.?limit",
    r"(?:/|\bper)[- ]?(?:min|minute|sec|second|hour|day|month)\b",
    r"\b[tr]p[mdhs]\b|\b[io]tpm\b",
    r"too many (?:concurrent |api |parallel )?requests",
    r"too many tokens,? please wait",
    r"requests? (?:limit|quota)|concurren\w+ (?:request|limit)|quota exceeded",
    r"throttl|slow down",
    r"请求(?:过于)?频繁|频率|限流|每分钟|速率|并发",
)
_QUOTA = (
    r"credit balance|insufficient (?:\w+ )?(?:credits?|balance|funds|quota)",
    r"(?:more|out of|no|not enough|purchase|buy|add|low on) credits?|can only afford",
    r"exceeded (?:your |the |its )?(?:current |monthly |daily |token )*quota|quota.{0,40}\bexceeded|quota exhausted",
    r"(?:key|account|project|user|organization|team|subscription) (?:has |have )?exceeded",
    r"payment required|billing (?:hard )?limit|billing plan|spend(?:ing)? limit|usage limit",
    r"budget (?:has been )?exceeded|exceeded (?:your )?(?:token )?budget|trial (?:has )?(?:ended|expired)",
    r"(?:monthly|weekly|daily) (?:token |usage |spend |request )*(?:limit|quota|cap)",
    r"(?:tokens?|limit)[^.]{0,40}(?:your|current|the|this) (?:\w+ )?"
    r"(?:plan|subscription|account|tier|key|organization|workspace|project)\b",
    r"prompt tokens limit exceeded",  # OpenRouter: what the credit buys
    r"per day.{0,40}tomorrow|tokens? (?:consumed|used) (?:this|in the) (?:\w+ )?(?:period|month|week|day)",
    r"余额不足|欠费|额度|配额",
)
_USED_UP = (r"current quota|credit balance|usage limit|billing plan|spend(?:ing)? limit|budget",)
MISSING_REASONING, MISSING_SIGNATURE = "missing reasoning_content", "missing thought_signature"
# What an answer demands with calls of earlier turns, in words that the quirks know.
_DEMANDED = (
    (
        MISSING_REASONING,
        r"reasoning content.{0,60}(?:must be passed back|missing|required)|missing.{0,30}reasoning content",
    ),
    (MISSING_SIGNATURE, r"missing (?:a )?thought ?signature"),
)
_EARLY_PARAMETER = (
    r"budget tokens|thinking budget",
    r"\bnum ctx\b.{0,40}(?:must|invalid|cannot)",
    r"property reasoning \w+ is unsupported",
    *(words for _, words in _DEMANDED),
)
_REASONING = (
    r"signature.{0,20} in .{0,12}thinking|bound to a different conversation",
    r"thinking.{0,20} block.{0,120}(?:modif|bound|invalid|missing|must|expected|remain|unaltered)",
    r"thinking blocks? (?:cannot|must)|expected thinking or redacted",
    r"(?:reasoning content|\.thinking|reasoning).{0,60}must be passed back",
    r"thought ?signature",
    r"encrypted content.{0,60}(?:invalid|verif|decrypt|pars)|invalid.{0,6}encrypted content",
    r"required (?:reasoning|following) item",
    r"reasoning (?:item|content).{0,40}(?:missing|without|is unsupported|not found|required)",
)
_HISTORY = (
    r"tool use.{0,60}(?:without|ids? (?:were|was) found|must be|corresponding)|unexpected tool use id",
    r"tool result.{0,80}(?:tool use|corresponding|unexpected|previous)",
    r"tool call ids? (?:did not|without|must|not found)|must be followed by tool messages",
    r"preceding message with tool calls|role tool must|no tool (?:output|call) found|invalid tool call",
    r"function call (?:turn|response)|number of function response",
    r"text content blocks must|cache control cannot be set for empty|all messages must have non-empty",
    r"messages? (?:must|should) (?:be|have|not be) (?:non-empty|empty|at least one|alternat)",
    r"(?:roles|messages) must alternate|first message must|conversation roles|expected last role|unexpected role",
    r"content.{0,30}(?:must|cannot|should) (?:not )?be (?:non-)?empty|trailing whitespace",
    r"final assistant (?:content|message)|assistant message prefill|must end with a user message",
    r"failed to parse tool call arguments|duplicate (?:tool|item|id)|system message must be at the beginning",
    r"(?:call id|tool use\.id|tool call id).{0,60}(?:too long|length|pattern|match)",
)
_FIELD_LENGTH = (
    r"string (?:is )?too long|string above max|string should have at most|too long\. expected",
    r"array (?:is )?too long|array above max|should have at most \d+ (?:items|characters)|member must have length",
)
_BODY = (
    r"(?:request|payload|entity|body|http|content)(?: \w+){0,3} (?:is )?too large",
    r"(?:request|payload|body|message|content)(?: \w+){0,3} (?:size|bytes?).{0,20}exceed",
    r"exceeds? (?:the )?maximum (?:allowed )?(?:request |payload |body )?size|larger than max\b",
    r"exceed\w*.{0,40}\d+ ?(?:bytes|[kmg]i?b)\b",
)
_PARAMETER = (
    r"(?:unsupported|unknown|unrecognized|unexpected|invalid|extra|additional) (?:\w+ )?"
    r"(?:parameter|argument|key|field|name|propert|request argument|value)",
    r"extra inputs are not permitted|extra forbidden|extra fields|additional properties are not allowed",
    r"(?:is |are )not supported (?:with|by|for|when|on|in) this|is deprecated for this model",
    r"does ?(?:not|nt) support (?:the )?(?:parameter|tool|function|thinking|stream|system|developer|temperature"
    r"|reasoning|parallel|images?)",
    r"cannot find field|property .{1,40} is unsupported|unsupported value|not permitted",
    r"role.{0,20}(?:not supported|invalid)|system role (?:is )?not supported|unsupported.{0,20}role",
    r"only the default .{0,20} value is supported",
)
_AUTH = (
    r"(?:invalid|incorrect|missing|no|bad|wrong|expired|revoked) (?:x-)?(?:api|auth|access)?[ -]?"
    r"(?:key|token|credentials?)\b",
    r"api key (?:is |was )?(?:not valid|not found|invalid|missing|expired|required)",
    r"unauthorized|not authorized|authentication (?:failed|required|error)|missing bearer|auth credentials",
    r"permission denied|access denied|organization has been disabled|login fail|could not resolve authentication",
    r"(?:token|key|signature|session) (?:has |is |was )?expired|令牌|密钥",
)
_NOT_FOUND = (
    r"model.{0,80}(?:not found|not exist|doesnt exist|not available|is not supported|not supported when|no longer"
    r"|deprecated|was removed)",
    r"(?:unknown|no such|invalid) model|not a valid model|try pulling it|no endpoints found|模型不存在",
    r"deployment.{0,40}not (?:found|exist)|page not found|404 not found",
)
_OVERLOADED = (
    r"overloaded|(?:over|at|no) capacity|capacity constraints|high demand|server is busy|temporarily unavailable",
    r"queue is full|queue (?:length|size).{0,20}(?:exceed|full)|service unavailable|try again later",
    r"loading model|model is (?:currently )?loading|服务繁忙|系统繁忙",
)
_NETWORK = (
    r"context (?:deadline|cancel|was cancel)|operation was cancel|deadline exceeded",  # Go's words, not the model's
    r"timed? ?out\b|timeout|econn\w+|etimedout|socket hang up|broken pipe|unexpected eof|remote end closed",
    r"connection (?:error|refused|reset|closed|aborted|termination)|network (?:is unreachable|error)",
    r"name or service not known|no route to host|\bdns\b",
)

_BEFORE_OVERFLOW: tuple[tuple[ErrorKind, tuple[str, ...]], ...] = (
    ("rate_tier", _RATE_TIER),
    ("rate", _RATE),
    ("quota", _QUOTA),
    ("parameter", _EARLY_PARAMETER),
    ("reasoning", _REASONING),
    ("history", _HISTORY),
)
_AFTER_OVERFLOW: tuple[tuple[ErrorKind, tuple[str, ...]], ...] = (
    ("parameter", _PARAMETER),
    ("auth", _AUTH),
    ("not_found", _NOT_FOUND),
    ("overloaded", _OVERLOADED),
    ("network", _NETWORK),
)


def kind_by_code(codes: Collection[str]) -> ErrorKind | None:
    """The kind that a code-like field names, the first of the table's order."""
    return next((kind for kind, names in _CODES if any(code in names.split() for code in codes)), None)


def kind_before_overflow(text: str) -> ErrorKind | None:
    """A kind that shares words with an overflow and must be told from it first."""
    return next((kind for kind, words in _BEFORE_OVERFLOW if says(words, text)), None)


def kind_after_overflow(text: str) -> ErrorKind | None:
    """A kind whose words an overflow may carry by chance."""
    return next((kind for kind, words in _AFTER_OVERFLOW if says(words, text)), None)


def demanded_field(text: str) -> str:
    """The field of earlier turns that an answer misses, as "missing NAME"; "" if it misses none."""
    return next((name for name, words in _DEMANDED if says((words,), text)), "")


def says_used_up(text: str) -> bool:
    """Whether a rate text is about an allowance that does not come back by waiting a little."""
    return says(_USED_UP, text)


def says_field_length(text: str) -> bool:
    """Whether one field of the request is too long, in characters or items."""
    return says(_FIELD_LENGTH, text)


def says_body_too_large(text: str) -> bool:
    """Whether the request has too many bytes."""
    return says(_BODY, text)


def says(alternatives: tuple[str, ...], text: str) -> bool:
    """Whether one of the alternatives occurs. Patterns are compiled at first need: most runs never see an error."""
    return re.search("|".join(alternatives), text) is not None
