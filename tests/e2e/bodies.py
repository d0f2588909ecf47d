"""Request bodies of all wires, read as plain messages. Written from the APIs' documentation, not from our encoders."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

Json = dict[str, Any]


@dataclass(frozen=True)
class Item:
    """One message, or one tool result. `calls` are an assistant's call ids, for a result the one that it answers."""

    role: Literal["user", "assistant", "result"]
    text: str
    calls: tuple[str, ...] = ()


@dataclass(frozen=True)
class Body:
    """A request body."""

    system: str
    items: tuple[Item, ...]
    tools: tuple[str, ...]
    max_output_tokens: int | None

    @property
    def user_text(self) -> str:
        return "\n".join(item.text for item in self.items if item.role == "user")

    @property
    def results(self) -> list[str]:
        return [item.text for item in self.items if item.role == "result"]


def read_body(body: Json, api: str) -> Body:
    read = {"anthropic": _anthropic, "openai": _chat, "responses": _responses, "ollama": _chat}[api]
    system, items = read(body)
    names = tuple((tool.get("function") or tool)["name"] for tool in body.get("tools") or [])
    own = body.get("options") or {}
    cap = next((v for key, v in {**body, **own}.items() if key.startswith("max_") or key == "num_predict"), None)
    return Body(system, tuple(items), names, cap)


def faults(body: Body) -> list[str]:
    """What a strict provider would refuse in the order of the messages."""
    return list(_faults(body.items))


def _faults(items: tuple[Item, ...]) -> Iterator[str]:
    if not items or items[0].role != "user":
        yield "the first message is not the user's"
    if items and items[-1].role == "assistant":
        yield "the last message is the assistant's"
    waiting: list[str] = []
    seen: set[str] = set()
    for item in items:
        if item.role == "result":
            if not waiting or waiting.pop(0) != item.calls[0]:
                yield f"the result of {item.calls[0]} is not where it belongs"
            continue
        if waiting:
            yield f"the calls {waiting} have no result"
        if not item.text.strip() and not item.calls:
            yield f"a message of the {item.role} is empty"
        if seen & set(item.calls):
            yield f"a call id of {item.calls} was used before"
        seen |= set(item.calls)
        waiting = list(item.calls)
    if waiting:
        yield f"the calls {waiting} have no result"


def _anthropic(body: Json) -> tuple[str, Iterator[Item]]:
    return _text(body.get("system", "")), (item for m in body["messages"] for item in _anthropic_items(m))


def _anthropic_items(message: Json) -> Iterator[Item]:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    results = [block for block in blocks if block["type"] == "tool_result"]
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    calls = tuple(block["id"] for block in blocks if block["type"] == "tool_use")
    for block in results:
        yield Item("result", _text(block["content"]), (block["tool_use_id"],))
    if texts or calls or not results:
        yield Item(message["role"], "\n".join(texts), calls)


def _chat(body: Json) -> tuple[str, Iterator[Item]]:
    messages = body["messages"]
    system = "\n".join(_text(m["content"]) for m in messages if m["role"] in ("system", "developer"))
    return system, (_chat_item(m) for m in messages if m["role"] not in ("system", "developer"))


def _chat_item(message: Json) -> Item:
    text = _text(message.get("content") or "")
    if message["role"] == "tool":
        return Item("result", text, (message["tool_call_id"],))
    calls = tuple(call["id"] for call in message.get("tool_calls") or [])
    return Item(message["role"], text, calls)


def _responses(body: Json) -> tuple[str, Iterator[Item]]:
    """Neighbouring items of the model are one message."""
    return body.get("instructions", ""), _responses_items(body["input"])


def _responses_items(items: list[Json]) -> Iterator[Item]:
    text, calls = "", list[str]()
    for item in items:
        kind = item.get("type", "message")
        if kind == "function_call":
            calls.append(item["call_id"])
        elif kind == "message" and item["role"] == "assistant":
            text += _text(item["content"])
        elif kind != "reasoning":
            if text or calls:
                yield Item("assistant", text, tuple(calls))
                text, calls = "", []
            if kind == "function_call_output":
                yield Item("result", _text(item["output"]), (item["call_id"],))
            else:
                yield Item("user", _text(item["content"]))
    if text or calls:
        yield Item("assistant", text, tuple(calls))


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    assert isinstance(content, list), json.dumps(content)
    return "".join(block.get("text", "") for block in content)
