"""What tools print, of every kind, and whole scripts of a run: for property tests."""

import base64
import functools
import json
import random
from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.harness import Call, Item, Turn, say
from tinyagent.core.types import Facts, Json

Maker = Callable[[random.Random, int], str]


def _prose(rng: random.Random, chars: int) -> str:
    words = ("the", "window", "of", "a", "model", "is", "smaller", "than", "its", "task", "so", "older", "messages")
    return _filled(lambda: rng.choice(words) + " ", chars)


def _code(rng: random.Random, chars: int) -> str:
    def lines() -> str:
        name, number = rng.choice(("total", "index", "entry_of", "parse")), rng.randrange(1000)
        head = f"    def {name}_{number}(self, value: int) -> dict[str, int]:\n"
        return head + f"        return {{'{name}': value + {number}}}\n"

    return _filled(lines, chars)


def _json(rng: random.Random, chars: int) -> str:
    rows = [
        {"id": rng.randrange(10**9), "ok": True, "x": rng.random(), "tags": ["a", None]} for _ in range(chars // 60 + 1)
    ]
    return json.dumps(rows)[:chars]


def _base64(rng: random.Random, chars: int) -> str:
    return base64.b64encode(rng.randbytes(chars)).decode()[:chars]


def _hex(rng: random.Random, chars: int) -> str:
    return rng.randbytes(chars // 2 + 1).hex()[:chars]


def _hashes(rng: random.Random, chars: int) -> str:
    return _filled(lambda: f"{rng.randbytes(20).hex()} refs/heads/topic-{rng.randrange(99)}\n", chars)


def _cjk(rng: random.Random, chars: int) -> str:
    sentences = (
        "这个函数读取配置文件并返回一个字典。",
        "如果文件不存在，程序会打印错误信息然后退出。",
        "テストが失敗した理由を調べて、修正してください。",
        "サーバーは接続を拒否しました。もう一度お試しください。",
        "오류가 발생했습니다. 로그 파일을 확인하십시오.",
    )
    return _filled(lambda: rng.choice(sentences), chars)


def _emoji(rng: random.Random, chars: int) -> str:
    return _filled(lambda: chr(rng.randrange(0x1F300, 0x1F600)), chars)


def _binary(rng: random.Random, chars: int) -> str:
    return rng.randbytes(chars).decode("utf-8", "replace").replace("\0", "\ufffd")[:chars]


def _log(rng: random.Random, chars: int) -> str:
    def line() -> str:
        day, minute, second = rng.randrange(1, 31), rng.randrange(60), rng.randrange(60)
        level = rng.choice(("INFO", "ERROR", "WARN"))
        return f"2026-11-{day:02}T12:{minute:02}:{second:02}Z [{level}] worker-{day}: took {rng.random():.6f}\n"

    return _filled(line, chars)


def _digits(rng: random.Random, chars: int) -> str:
    return _filled(lambda: f"{rng.randrange(10**6)},{rng.random():.4f}\n", chars)


def _blank(rng: random.Random, chars: int) -> str:
    return " " * (chars - 1) + "x" if chars else ""


def _one_word(rng: random.Random, chars: int) -> str:
    return rng.choice("ax=-") * chars


def _filled(piece: Callable[[], str], chars: int) -> str:
    parts: list[str] = []
    length = 0
    while length < chars:
        parts.append(piece())
        length += len(parts[-1])
    return "".join(parts)[:chars]


KINDS: dict[str, Maker] = {
    "prose": _prose,
    "code": _code,
    "json": _json,
    "base64": _base64,
    "hex": _hex,
    "hashes": _hashes,
    "cjk": _cjk,
    "emoji": _emoji,
    "binary": _binary,
    "log": _log,
    "digits": _digits,
    "blank": _blank,
    "one word": _one_word,
}
SIZES = (0, 1, 30, 200, 1_000, 4_000, 12_000, 40_000)


@functools.lru_cache(maxsize=2_000)
def text(kind: str, chars: int, seed: int = 0) -> str:
    """A text of one kind and length; the same each time."""
    return KINDS[kind](random.Random(f"{kind}{seed}"), chars)


@dataclass(frozen=True)
class Script:
    """What a model does in one run: turns of one to four calls whose outputs are of these kinds and of all sizes."""

    seed: int
    turns: int
    kinds: tuple[str, ...] = tuple(KINDS)

    def items(self) -> list[Item]:
        rng = random.Random(self.seed)
        return [*(_turn(rng, self.kinds) for _ in range(self.turns)), say("Done.")]


def scripts(*, max_turns: int = 40) -> st.SearchStrategy[Script]:
    kinds = st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3).map(tuple) | st.just(tuple(KINDS))
    return st.builds(Script, st.integers(0, 2**32), st.integers(1, max_turns), kinds)


def _turn(rng: random.Random, kinds: tuple[str, ...]) -> Turn:
    calls = tuple(_call(rng, kinds) for _ in range(rng.choice((1, 1, 1, 1, 2, 3, 4))))
    said = text("prose", rng.choice((0, 40, 200, 1_500)), rng.randrange(50))
    return Turn(calls, said)


def _call(rng: random.Random, kinds: tuple[str, ...]) -> Call:
    output = text(rng.choice(kinds), rng.choice(SIZES), rng.randrange(50))
    path = f"src/part{rng.randrange(6)}.py"
    choice = rng.randrange(5)
    if choice == 0:
        first = rng.randrange(1, 300)
        facts = Facts(path=path, first_line=first, last_line=first + rng.randrange(200), digest="d")
        return Call(output, "read", {"path": path}, facts)
    if choice == 1:
        body: Json = {"path": path, "content": text(rng.choice(kinds), rng.choice((30, 400, 3_000)), rng.randrange(50))}
        return Call("Written.", "write", body, Facts(path=path, digest="e", changed=True))
    if choice == 2 and rng.random() < 0.3:
        items = _plan(rng)
        return Call("Noted.", "plan", {"items": items}, Facts(plan=items))
    code = rng.choice((0, 0, 0, 1, None))
    command = rng.choice(("pytest -q", "make test", f"cat {path}", f"grep -n x{rng.randrange(99)} {path}"))
    return Call(output, "bash", {"command": command}, Facts(command=command, exit_code=code), is_error=code != 0)


def _plan(rng: random.Random) -> list[Json]:
    """A few words an item, or sentences in any writing, as long as the tool takes them."""
    kind, chars = rng.choice(("prose", "code", "cjk", "emoji")), rng.choice((20, 20, 20, 100, 200, 500))
    return [
        {"text": f"{n} {text(kind, chars, rng.randrange(50))}"[:500], "status": rng.choice(("open", "doing", "done"))}
        for n in range(rng.choice((1, 3, 5, 10, 30)))
    ]
