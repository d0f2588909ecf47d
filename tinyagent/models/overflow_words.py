"""Recognise "the prompt does not fit the model" in words that no list can hold in full.

Every server words it differently, so a text is read by its concepts: what was sent, an excess or a bound, and the
model's window. Sentences are in plain form (see `error_body.plain`). Limits on other things (images, tools, names,
batches) and on the output alone are told apart first.
"""

import re
from collections.abc import Sequence

from tinyagent.models.error_kinds import says

OVERFLOW_CODES = frozenset(
    {"context_length_exceeded", "exceed_context_size_error", "model_context_window_exceeded", "context_window_exceeded"}
    | {"context_window_exceeded_error", "context_length_exceeded_error", "context_overflow_error", "context_too_long"}
    | {"model_max_prompt_tokens_exceeded", "context_size_exceeded", "prompt_too_long", "input_too_long", "1261"}
)

_SENT = (
    r"(?:prompts?|inputs?|conversation|dialog(?:ue)?|chat|history|contexts?|messages?|quer(?:y|ies)|transcript|texts?)"
)
_SENT_PART = r"(?: (?:tokens?|token counts?|length|text|size|content|sequence|history|messages?|counts?|ids))*"
_TOKENS = r"(?:tokens?|token counts?|token length)"
_BIG = r"too (?:long|large|big|lengthy|many tokens)"
_EXCESS = (
    r"(?:exceed\w*|overflow\w*|overr[au]n|surpass\w*|outgr\w+|violat\w*|out of range|>=?|≥"
    r"|(?:longer|larger|greater|bigger|more|higher) (?:tokens )?than|beyond|above|past the|over the"
    r"|(?:goes|is|are|was|went|gone) over|not fit\w*|(?:doesnt|dont|wont|cant) fit"
    r"|not enough|insufficient|no room|exhausted|r[au]ns? out|full\b|fill(?:s|ed)\b|reached|hit\b"
    r"|too (?:long|large|big|many))"
)
_BOUND = (
    r"(?:(?:must|should|has to|have to|needs? to|can|may)(?: not| only)? (?:be|have|contain|exceed)"
    r"|cannot (?:be|exceed|contain)|(?:less|lower|fewer|smaller|no more) than|at most|limited to|up to"
    r"|only (?:supports?|accepts?|handles?|allows?)|supports? (?:only|up to))"
)
_WINDOW = (
    r"(?:context ?(?:windows?|lengths?|size|limits?|budget|capacity|space)|max(?:imum)?(?: model)? context"
    r"|n ctx|num ctx|ctx len(?:gth)?|max(?:imum)? seq(?:uence)? len(?:gth)?|sequence length"
    r"|session (?:max )?len(?:gth)?"
    r"|max(?:imum)? model len(?:gth)?|model max len(?:gth)?|model length|max position embeddings|kv cache"
    r"|max(?:imum)? (?:allowed |supported )?(?:input|prompt)(?: tokens?)? ?(?:len(?:gth)?|size|tokens?|count|limit)?"
    r"|models? (?:maximum|max|limit|capacity|window)|models? (?:token |input |context )+(?:limit|maximum))"
)
_ANY_WINDOW = r"(?:\bcontext\b|\bn ctx\b|\bmax(?:imum)? (?:seq|model|position|sequence)\w*|\bkv cache\b)"
_ANY_LIMIT = r"\b(?:models?|limit\w*|max\w*|tokens?|windows?|capacity|permitted|allowed)\b"

_OVERFLOW = (
    # An excess in one sentence with the window, or with what was sent and any limit.
    rf"^(?=.*{_ANY_WINDOW})(?=.*{_EXCESS})",
    rf"^(?=.*\b(?:{_SENT}|token counts?)\b)(?=.*(?:{_EXCESS}|too high))(?=.*{_ANY_LIMIT})",
    rf"\b{_WINDOW}.{{0,60}}{_EXCESS}|{_EXCESS}.{{0,80}}\b{_WINDOW}",
    rf"\b{_SENT}{_SENT_PART}(?: \w+){{0,3}} {_BIG}\b|\b{_BIG} (?:a |an )?{_SENT}\b",
    r"\btoo many (?:input |prompt |context |total |request )*tokens\b",
    rf"{_EXCESS}.{{0,60}}\b(?:input|prompt|models?|max\w*|allowed)\b.{{0,30}}\b(?:token limit|tokens)\b",
    r"\brequested tokens?\b.{0,20}exceed|\bnot enough tokens to keep\b",
    r"\b(?:requires|needs) a (?:larger|longer|bigger) context",
    r"\btokens? limit (?:\w+ ){0,3}(?:exceeded|reached)|\bmax(?:imum)? tokens? of \d+ (?:was |has been )?exceeded",
    # A bound that is stated as a rule.
    rf"\b(?:{_SENT}|{_TOKENS}).{{0,60}}{_BOUND}.{{0,60}}\b(?:{_TOKENS}|{_WINDOW})\b",
    rf"\b{_SENT}\W{{0,3}}(?:\w+ ){{0,3}}{_TOKENS}\b.{{0,30}}{_BOUND}.{{0,15}}\d",
    rf"\b(?:{_SENT}|sequence|requests?) (?:token )?(?:len(?:gth)?|size|tokens?|counts?)\b"
    rf".{{0,60}}(?:{_EXCESS}|{_BOUND}).{{0,60}}\d",
    rf"\b{_WINDOW}.{{0,40}}{_BOUND} ?\d|\bmax(?:imum)? (?:context|prompt|input)(?: \w+)? (?:is|of|:) ?\d",
    # Two sizes side by side.
    r"\bcontext (?:length|window|size|limit) (?:is|of|:) (?:only )?\d.{0,80}\b(?:request|your?|prompt|input|but|got)",
    rf"\b{_SENT}.{{0,60}}\d.{{0,30}}\b(?:but|while|whereas|and)\b.{{0,30}}\b{_WINDOW}.{{0,20}}\d",
    # Advice that only makes sense for an overflow.
    r"\b(?:reduce|shorten|decrease|trim|truncate)\b.{0,12}\b(?:the )?(?:length|size|number of tokens)?.{0,14}"
    r"\b(?:messages?|prompts?|inputs?|conversation|context|history)\b",
    r"\b(?:provide|use|try|send)(?: using)? (?:a )?(?:shorter|smaller) (?:prompt|input|conversation|context|message)",
    # Single servers.
    r"range of input length should be",  # DashScope
    r"\bno user query found\b",  # Ollama cut the front of the prompt away (ollama#18107)
    r"\bmax (?:completion |new )?tokens must be at least 1,? (?:got|but got|received) -",  # vLLM: no room is left
    r"\bexpected maxlength: \d+, actual: \d+",  # Bedrock, in characters
)
_OVERFLOW_ELSEWHERE = (
    r"(?:上下文|输入|提示词?|消息|对话|请求|内容|文本|prompt|tokens?|长度|字数).{0,16}(?:过长|超长|太长|超出|超过|超限|大于|过大|溢出)",
    r"(?:超出|超过|大于).{0,16}(?:上下文|最大长度|长度限制|输入长度|最大输入|最大token|token上限|窗口)",
    r"(?:压缩|缩短|精简|减少).{0,6}(?:上下文|输入|提示|对话|消息)",
    r"(?:コンテキスト|トークン数|入力|プロンプト).{0,20}(?:超え|超過|長すぎ|上限|オーバー)",
    r"(?:컨텍스트|토큰|입력|프롬프트).{0,20}(?:초과|너무 길|넘)",
    r"контекст\w*.{0,40}(?:превы|слишком|больше)|(?:превыш|слишком).{0,40}контекст",
    r"(?:contexte|contexto|contesto|kontext\w*|eingabe|entrée|entrada|invite).{0,40}"
    r"(?:dépass\w*|exced\w*|super\w*|überschr\w*|trop long\w*|demasiado|zu lang|zu groß)",
)

_THINGS = r"(?:messages|tools|functions|images|turns|requests|items|inputs|documents|stop)"
_OTHER_THING = (
    r"\b(?:images?|pixels?|dimensions?|files?|filenames?|uploads?|attachments?|documents?|pages?|videos?|audio|frames)\b",
    rf"\b(?:number of|max(?:imum)? of \d+|too many(?: \w+)?) {_THINGS}\b|\bstop sequences?\b",
    r"\b(?:tools?|functions?) (?:count|calls?|names?|descriptions?)\b|\b(?:functions?|tools?)(?:\[|\.\d)",
    r"\btool argument",
    r"\b(?:descriptions?|titles?|labels?|identifiers?|fields?|cache key|signature|metadata)\b",
    r"\b(?:headers?|cookies?|ur[li]s?)\b",
    r"\b(?:items|elements|entries|schema|nesting|depth|enum|properties|logprobs|temperature|search query)\b",
    r"\b(?:batch|queue|concurren\w*|connections?|seconds|disk|memory|storage|embedding models?)\b",
    r"\b(?:access|api|auth|bearer|jwt|id|session|refresh|oauth|security|csrf)[ -]tokens?\b",
    r"\btoo small\b|\bmin(?:imum)? (?:total )?token|\bcached content\b",
)
# Said anywhere, these settle that the prompt is not meant: llama.cpp's limit for embeddings, vLLM's for images, gRPC's
# for bytes, a tool's own arguments, a server's start-up check, a reply cut because too little output was allowed.
_NEVER_OVERFLOW = (
    r"physical batch|encoder prompt|received message larger|user specified max model len|window too small",
    r"tool argument|tool (?:input|output|result)s? (?:is |was )?(?:exceed|too|longer|larger)",
    r"max tokens per request|(?<!position )embeddings? ?(?:input|batch|model|request|calculator)",
    r"(?:higher|larger|increase|raise) max (?:output |completion )?tokens",
)
_NOISE = (
    r"context (?:deadline|cancel\w*|was cancel\w*)|context window fallback\w*[^,.;]*|input should be"
    r"|input validation error|(?:available|received) model group.*"
)

_OUTPUT = (
    r"(?:max ?(?:imum )?(?:completion |output |new |response |gen )?tokens?(?: to (?:sample|generate))?|maxoutputtokens"
    r"|maxtokens|max gen len|output tokens?|completion tokens?|output (?:limit|length)|num predict"
    r"|max(?:imum)? (?:output|completion|response)|maximum tokens you requested)"
)
_OUTPUT_LIMIT = (
    rf"\b{_OUTPUT}\b.{{0,80}}(?:too (?:large|high|big|many)|exceed\w*|above|greater than|must (?:not )?be|should be"
    r"|less than|<=|>|≤|range|cannot|can not|at most|not valid|maximum|limit|out of|is \d)",
    r"(?:at most|up to|maximum(?: of)?|limit of|exceed\w*|maximum allowed number of)[^.]{0,40}"
    r"\b(?:output|completion) tokens?",
    r"(?:exceed\w*|reached|over|above).{0,40}\b(?:output|completion)(?: token)? (?:tokens|limit)",
)
_OUTPUT_TOO_LONG = (
    r"^\W*(?:the )?(?:models? )?(?:output|response|completion|generation)"
    r" (?:exceeded|exceeds|(?:is|was) (?:too long|longer than)|too long)",
)
_NOT_OUTPUT = (
    r"max tokens of \d+ (?:was |has been )?exceeded",  # Snowflake's words for the window
    r"max (?:\w+ )?tokens must be at least 1",  # vLLM's where the prompt leaves nothing
    r"(?:higher|increase|larger|raise) max|below (?:the )?minimum",
)
_PROMPT_NAMED = (
    r"\b(?:prompts?|inputs?|messages|conversation|contexts?|sequence|history|max model len|n ctx)\b",
    r"tokens in (?:the |your )?request|request (?:contains|has)",
)


def says_overflow(parts: Sequence[str]) -> bool:
    """Whether the plain sentences of an answer say that the prompt does not fit the model."""
    if any(says(_NEVER_OVERFLOW, part) for part in parts):
        return False
    whole = " ".join(parts)[:600]
    return any(_is_overflow_sentence(part) for part in (*parts, whole)) or _compares_sizes(whole)


def says_output_limit(text: str) -> bool:
    """Whether the asked output is above what the model allows, with the prompt not in question."""
    # Groq explains its output limit with "… is less than the context_window for this model".
    text = re.sub(r"(?:is )?less than the context window[\w ]*|input validation error", " ", text)
    if says(_OUTPUT_TOO_LONG, text):
        return True
    return says(_OUTPUT_LIMIT, text) and not says(_NOT_OUTPUT, text) and not says(_PROMPT_NAMED, text)


def blames_output_alone(text: str) -> bool:
    """Whether the asked output is the subject and no prompt is mentioned ("max_tokens would exceed the context")."""
    is_subject = re.search(r"(?:^|[:.] |parameter |value of |requested )max (?:\w+ )?tokens\b", text) is not None
    return is_subject and not says(_NOT_OUTPUT, text) and not re.search(r"prompt|input|message|conversation", text)


def is_about_other_things(text: str) -> bool:
    """Whether a limit is one on images, files, tools, names and the like."""
    return says(_OTHER_THING, text)


def _is_overflow_sentence(sentence: str) -> bool:
    sentence = re.sub(_NOISE, " ", sentence)
    if is_about_other_things(sentence):
        return False
    return any(
        re.search(pattern, sentence) for pattern in (*_OVERFLOW, *_OVERFLOW_ELSEWHERE)
    ) and not says_output_limit(sentence)


def _compares_sizes(text: str) -> bool:
    """Whether a text sets a size of what was sent against a limit in tokens, in whatever words."""
    sizes = {int(number) for number in re.findall(r"(?<![\w.\-/])\d{2,9}(?![\w.]*\w)", text) if int(number) >= 64}
    sent = (
        rf"\b{_SENT}\b|\bsen[dt]\b|\byou (?:passed|supplied|provided)|\brequests? (?:has|contains|of|is)|请求|输入|消息"
    )
    limit = (
        r"\b(?:limits?|max\w*|at most|only|up to|supports?|accepts?|allow\w*|available|capacity|exceed\w*)\b|最大|上限"
    )
    concepts = (sent, limit, rf"\btokens?\b|{_ANY_WINDOW}")
    if len(sizes) < 2 or not all(re.search(concept, text) for concept in concepts):
        return False
    return not is_about_other_things(text) and not says_output_limit(text)
