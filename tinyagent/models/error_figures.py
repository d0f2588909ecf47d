"""The token figures that an error states: the limit, the prompt, the output asked for, the total.

Figures are learned only where the words around a number give it a role. An excess ("exceeded by 918 tokens"), a rate,
a credit, characters, and error codes have no role here. All text is in plain form (see `error_body.plain`).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

SMALLEST_WINDOW = 64  # below this a "limit" is a misreading
_LARGEST_WINDOW = 200_000_000
# Codes that providers print in parentheses after the text: MiniMax 2013, Z.AI 1210 and 1261, Mistral 3051,
# SiliconFlow 20015, Baidu 336007.
_CODES = frozenset({1210, 1213, 1214, 1261, 2013, 3051, 20012, 20015, 336003, 336007, 336103})

# A number that is not part of a name, a version or a date. In the tables # stands for it, ~ for "tokens" behind one.
_NUMBER = r"(?<![A-Za-z0-9_.\-/#])(\d{1,12})(?![A-Za-z0-9_]|-(?!token)|\.\d)"
_TOKENS = r" ?(?:tokens?)?"


@dataclass(frozen=True, slots=True)
class Figures:
    """Tokens, None where the answer does not state them. `total` is prompt plus output where only the sum is given."""

    window: int | None = None
    prompt: int | None = None
    output: int | None = None
    total: int | None = None

    @property
    def prompt_fits(self) -> bool:
        """Whether the prompt alone is inside the window by the answer's own figures."""
        if self.window is None:
            return False
        if self.prompt is not None:
            return self.prompt < self.window and self.output != 0
        return self.output is not None and self.output >= self.window


_SENT = r"(?: in| of| from| for)?(?: the| your)?(?: text)? ?(?:inputs?|prompt|messages?)"
_ASKED = r"(?: in| of| for| from)?(?: the| your)? ?(?:completion|output|max new tokens|response)"
# Both sides at once: each number's role in order, p(rompt), o(utput), w(indow); prompt parts add up.
_SPLITS = (
    (r"# ?\+ ?#~\)? ?(?:>|>=|exceeds?|(?:would )?overflows?|is (?:greater|larger|more) than)[^.\d]{0,40}#", "pow"),
    (r"\(#~ ?> ?#~ ?- ?#~\)", "owp"),
    (r"#~(?: tokens)? in the messages,? (?:and )?#~ in the functions,? (?:and )?#~ in the completion", "ppo"),
    (r"#~ of text input,? #~ of tool input,? #~ in the output", "ppo"),
    (rf"#~{_SENT}(?: messages?| tokens?)?[;,]?(?: and| plus)? #~{_ASKED}", "po"),
    (r"#~ output tokens?(?: and| plus)?[^.\d]{0,40}?(?:at least )?#~ ?input tokens?", "op"),
    (r"#~ input tokens?(?: and| plus)?[^.\d]{0,40}?(?:at least )?#~ ?output tokens?", "po"),
    (r"(?:prompt|input)(?: tokens?)?[ :=]*#[,;]? (?:and )?(?:completion|output)(?: tokens?)?[ :=]*#", "po"),
    (r"#~ ?(?:>=?|≥) ?#", "pw"),
    (r"prompt (?:has|contains|is|of) #~[^.\d]{0,40}(?:max (?:\w+ )?tokens|output)[^.\d]{0,20}#", "po"),
)

_LIMIT_NAME = (
    r"(?:context (?:windows?|length|size|limit|budget)|context|ctx len(?:gth)?|n ctx(?: (?:slot|seq))?"
    r"|max(?:imum)? seq(?:uence)? len(?:gth)?|sequence length|max(?:imum)? model len(?:gth)?|model length"
    r"|max(?:imum)? input len(?:gth)?"
    r"|max(?:imum)? (?:allowed )?(?:input|prompt)(?: token)? (?:length|size|tokens?|count|limit)"
    r"|max position embeddings|(?:model |input |prompt |model input )?token limit|max(?:imum)? (?:length|size)"
    r"|kv cache(?: capacity| size)?)"
)
_LINK = (
    r"[ :=(\[]*(?:(?:is|of|to|only|at|was|are|limit|allowed|supported|(?:by|for) this model|tokens?|currently|set|max"
    r"|maximum|just|about) ?|[:=(\[<>≤] ?)*"
)
# The window, most telling first.
_LIMITS = (
    r"range of input length should be \[ ?\d+ ?, ?#",
    rf"{_LIMIT_NAME}{_LINK}#",
    r"#~ ?(?:token )?(?:maximum|max)\b(?! (?:new|completion|output))",
    r"#[ -]?(?:token )?(?:context|token (?:limit|window|maximum))",
    r"max tokens? of #",
    r"(?:上限|最大|限制|窗口)[^\d]{0,8}#",
    r"(?:maximum|max) number of (?:input |prompt )?tokens(?: allowed| supported)?[ (:]*(?:is |of )?#",
    r"(?:must|should|can|has to|have to)(?: not)? (?:be|have|contain|exceed)(?: at most| up to| within| under| below"
    r"| (?:less|lower|fewer|smaller|shorter|no more) than(?: or equal to)?| <=?| ≤)? #",
    r"can ?not (?:be (?:longer|larger|more|greater) than|exceed) #",
    r"(?:exceed\w*|over|above|beyond|(?:greater|longer|larger|more) than|>=?)[a-z ]{0,60}?"
    r"(?:limit|maximum|max|window|length|capacity|allowed|allowance)\w*[ :=(]*(?:of |is )?#",
    r"(?:limit|maximum|max|limited to|supports(?: at most| up to| only)?|up to|at most|no more than)[ :=(]*"
    r"(?:is |of |to |at )?#",
    r"(?:exceed\w*|(?:greater|longer|larger|more) than|>=?) ?(?:the )?#",
    r"(?:max|limit)\w*[^\d.]{0,30}#",
)
_PROMPTS = (
    r"too (?:long|large|big|many tokens)[ :(]*#",
    r"prompt \((?:total )?length #",
    r"(?:messages?|prompt|input|conversation|request|history)s? (?:resulted in|result in|contains?|has|have|had|is|are"
    r"|was|uses?|of|size)(?: about| approximately| at least| around)? ?#~",
    r"resulted in #",
    r"(?:prompt|input|message|sequence|context)s?(?: token| ids)?(?: count| length| size| tokens?)?[ :=(]*"
    r"(?:of |is |was |with |length )?#~",
    rf"#~{_SENT}",
    r"(?:n keep|first|given|got|actual|passed|requested tokens)[ :=(]*(?:is |was )?#",
    r"number of (?:input |prompt )?tokens[ :=(]*(?:is |in the prompt )?#",
)
_TOTALS = (
    r"request(?:ed|s|ing)?(?: a total of| about| tokens?| total| token count)?[ :=(]*#",
    r"(?:will|would) (?:take|need|use|require) #",
    r"total(?: of| tokens?| number of tokens)?[ :=(]*(?:is |of |at least )?#",
    r"max total tokens[ :=(]*#",
    r"token count[ :=(]*(?:of |is )?#",
    r"(?:received|current(?: length)?)[ :=(]*(?:is |was )?#",
)
_OUTPUTS = (
    r"#~ ?(?:output|completion|new|generated) tokens?",
    r"#~ (?:in|for|of) the (?:completion|output|response)",
    r"max (?:completion |output |new )?tokens(?: is too large)?[ :=(]+#",
)
_OUTPUT_RANGES = (
    (r"valid range[^\[]{0,60}\[ ?\d+ ?, ?#", 0),
    (r"(?:to|and|,) ?# ?\(exclusive\)", -1),
    (r"range (?:is |of |from )*(?:\d+)? ?(?:\(inclusive\) )?(?:to|-|and) #", 0),
    (r"\[ ?\d+ ?[,;] ?# ?\]", 0),
    (r"between \d+ and #", 0),
)
_OUTPUT_LIMITS = (
    r"> ?#",
    r"(?:<=|≤|<) ?#",
    r"(?:at most|up to|no more than|(?:can ?|must )not exceed|lower than|limited to) #",
    r"(?:less|fewer) than(?: or equal to)? #|(?:under|below) #",
    r"(?:limit|maximum|max)(?: \w+){0,3}? (?:of|is|to)[ :]*#",
    r"(?:limit|maximum|max|cap)(?: value)?(?: output)?(?: tokens)?(?: allowed)?(?: for[\w .\-/]{0,40})?[ :=(]*"
    r"(?:is |of |to )?#",
    r"expected[^.\d]{0,30}#",
    r"#~ (?:output|completion) tokens?",
)


def read_figures(text: str, fields: Mapping[str, int]) -> Figures:
    """Figures of an overflow, from the plain text and from named fields of the body."""
    text = _without_noise(text)
    split = _split(text) or Figures()
    window = _field(fields, "n_ctx", "max_context_length", "context_length", "context_window", "max_model_len")
    window = window or split.window or _window(text, split)
    prompt = _field(fields, "n_prompt_tokens", "prompt_tokens", "input_tokens", "num_prompt_tokens") or split.prompt
    total = _first(_TOTALS, text, unlike=window)
    output = split.output if split.output is not None else _first(_OUTPUTS, text, unlike=None)
    if prompt is None and "character" not in text:
        prompt = _prompt(text, window, output, total)
    return _consistent(Figures(window=window, prompt=prompt, output=output, total=total))


def read_output_limit(text: str) -> int | None:
    """The largest output that the answer says is allowed, in tokens."""
    text = _without_noise(text)
    for pattern, correction in _OUTPUT_RANGES:
        if found := next(_numbers((pattern,), text), None):
            return found + correction
    numbers = sorted({int(number) for number in re.findall(_NUMBER, text)} - {0})
    if len(numbers) == 2:
        return numbers[0]  # what was asked for is above what is allowed
    return next(_numbers(_OUTPUT_LIMITS, text), None)


def _without_noise(text: str) -> str:
    text = re.sub(rf"\b(?:exceed\w*|over|excess)[^.\d]{{0,40}}\bby (?:\w+ )?{_NUMBER}{_TOKENS}", " exceeded ", text)
    text = re.sub(
        r"<\d{3}>|\b(?:status code|error code|error|status|http|code|errno)[ :=/(]*(?:\d\.\d )?\d{3,6}\b", " ", text
    )
    text = re.sub(r"expected maxlength: \d+, actual: \d+", " characters ", text)  # Bedrock's limits are in characters
    units = r"(?:characters?|chars|bytes|[kmg]i?b|words|images|messages|pages)"
    text = re.sub(rf"(?<!\d)\d{{1,12}}(?: input| at most)? {units}\b", " characters ", text)
    return re.sub(r"\((\d{4,6})\)", lambda found: " " if int(found[1]) in _CODES else found[0], text)


def _split(text: str) -> Figures | None:
    for pattern, roles in _SPLITS:
        if found := re.search(_regex(pattern), text):
            values = dict.fromkeys(roles, 0)
            for role, number in zip(roles, found.groups(), strict=True):
                values[role] += int(number)
            return Figures(window=values.get("w"), prompt=values.get("p"), output=values.get("o"))
    return None


def _window(text: str, split: Figures) -> int | None:
    """The stated limit; of just two sizes of which one is too large, the smaller."""
    stated = [value for value in _numbers(_LIMITS, text) if SMALLEST_WINDOW <= value <= _LARGEST_WINDOW]
    sizes = sorted({int(number) for number in re.findall(_NUMBER, text) if int(number) >= SMALLEST_WINDOW})
    if stated:
        value = next((value for value in stated if value != split.prompt), stated[0])
        others = [size for size in sizes if size != value]
        is_misread = len(others) == 1 and others[0] < value and others[0] not in _explained(text, split)
        return others[0] if is_misread else value
    compares = (
        r"exceed|too (?:long|large|many|big)|greater|longer|larger|more than|over|beyond|insufficient|out of|not enough"
    )
    is_comparison = re.search(rf"{compares}|only|>|limit|max|超|大于", text)
    is_about_tokens = re.search(r"token|slots|context|length|sequence|cache|上下文", text)
    return sizes[0] if len(sizes) == 2 and is_comparison and is_about_tokens and split.prompt is None else None


def _explained(text: str, split: Figures) -> set[int]:
    """Numbers that something other than a limit explains."""
    return set(_numbers((*_PROMPTS, *_OUTPUTS), text)) | ({split.prompt or 0, split.output or 0} - {0})


def _prompt(text: str, window: int | None, output: int | None, total: int | None) -> int | None:
    prompt = _first(_PROMPTS, text, unlike=window)
    if prompt is not None and (prompt == output or (output is None and total is not None and total != prompt)):
        prompt = None
    if prompt is None and total is not None and output is not None and total > output:
        return total - output
    return prompt


def _first(patterns: tuple[str, ...], text: str, *, unlike: int | None) -> int | None:
    return next((value for value in _numbers(patterns, text) if value and value != unlike), None)


def _numbers(patterns: tuple[str, ...], text: str) -> Iterator[int]:
    """Every number that one of the patterns finds, in the order of the patterns."""
    for pattern in patterns:
        for found in re.finditer(_regex(pattern), text):
            yield int(found[found.lastindex or 1])


def _regex(pattern: str) -> str:
    return pattern.replace("#", _NUMBER).replace("~", _TOKENS)


def _consistent(figures: Figures) -> Figures:
    """A limit that the request does not reach was misread: learning it would only do harm."""
    if figures.window is None:
        return figures
    largest = max((figures.prompt or 0) + (figures.output or 0), figures.total or 0)
    if 0 < largest < figures.window:
        return Figures(prompt=figures.prompt, output=figures.output, total=figures.total)
    return figures


def _field(fields: Mapping[str, int], *names: str) -> int | None:
    return next((fields[name] for name in names if fields.get(name, 0) >= SMALLEST_WINDOW), None)
