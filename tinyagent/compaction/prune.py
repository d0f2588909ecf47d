"""Making room without a model: whole turns are dropped behind a digest, and outputs too large to stay are clipped."""

from collections.abc import Sequence
from dataclasses import replace

from tinyagent.compaction.elide import pointer_id
from tinyagent.compaction.plan import Draft, Zones
from tinyagent.core.clip import clip
from tinyagent.core.events import SUMMARY_ID
from tinyagent.core.tokens import estimate_text
from tinyagent.core.types import ToolMessage
from tinyagent.core.view import Block, summary_entry, with_text

LEAST_CHARS = (400, 120)  # of a clipped output; the second only if nothing else helps (emoji: 3 tokens each)


def prune(draft: Draft, split: Zones, *, text: str, target: int, goal: int) -> Draft:
    """Drop the oldest blocks behind `text` until the request is under `target`; task and newest turn always stay.

    Recent turns are touched only if the request would still be over `goal`.
    """
    older = [block for block in split.older if block.entries[0].id != SUMMARY_ID]
    candidates = [*older, *_all_but_newest_turn(split.protected)]
    carried = sum(entry.tokens for entry in draft.entries if entry.id == SUMMARY_ID)
    raw = draft.view.tokens - carried + summary_entry(SUMMARY_ID, text).tokens
    dropped: list[Block] = []
    for index, block in enumerate(candidates):
        if draft.size(raw) <= (target if index < len(older) else goal):
            break
        dropped.append(block)
        raw -= block.tokens
    if not dropped:
        return draft
    gone = [entry for block in dropped for entry in block.entries]
    pruned = replace(draft, pruned=tuple(e.id for e in gone), pruned_turns=sum(b.is_turn for b in dropped))
    return pruned.with_summary(gone, text)


def clip_recent(
    draft: Draft, blocks: Sequence[Block], *, goal: int, ratio: float, least_chars: Sequence[int] = LEAST_CHARS
) -> Draft:
    """Shorten outputs of these blocks, the older ones first, until the request is under `goal`.

    Every output keeps some characters of head and tail, and says how to read the rest.
    """
    outputs = [e.id for block in blocks for e in block.entries if isinstance(e.message, ToolMessage) and not e.elided]
    for least in least_chars:
        for entry_id in outputs:
            excess = draft.tokens - goal
            if excess <= 0:
                return draft
            draft = _clip_entry(draft, entry_id, excess_raw=excess / ratio, least=least)
    return draft


def _clip_entry(draft: Draft, entry_id: int, *, excess_raw: float, least: int) -> Draft:
    entry = next(e for e in draft.entries if e.id == entry_id)
    assert isinstance(entry.message, ToolMessage)
    text = entry.message.text
    share = 1 - (excess_raw * 1.1 + 40) / max(1, estimate_text(text))
    limit = max(least, int(len(text) * share))
    if limit >= len(text):
        return draft
    again, total = f'read_output("{pointer_id(entry)}")', entry.message.facts.get("output_chars")
    return draft.with_bodies(
        [with_text(entry, clip(text, limit, again=again, total=total), elided=False)], elided=False
    )


def _all_but_newest_turn(blocks: Sequence[Block]) -> Sequence[Block]:
    turns = [index for index, block in enumerate(blocks) if block.is_turn]
    return blocks[: turns[-1]] if turns else []
