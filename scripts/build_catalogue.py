"""Build tinyagent/models/data/catalogue.json from two published collections of model facts.

    python scripts/build_catalogue.py [--wheels DIR] [--date YYYY-MM-DD] [--report FILE]

Fetches the wheels of `litellm` and `genai-prices` with `pip download` (unless DIR holds them) and reads them as files:
neither package is installed or imported. litellm's JSON gives the rows, genai-prices fills in models that it lacks, and
every price or window in which the two disagree is listed for a person to look at; litellm's figure is kept.
"""

import argparse
import ast
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, fields, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "tinyagent" / "models" / "data" / "catalogue.json"
LITELLM_JSON = "litellm/model_prices_and_context_window_backup.json"
GENAI_DATA = "genai_prices/data.py"
MOST_BYTES = 100_000
PER_MTOK = 1_000_000
MIT_LICENSE = (
    "Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated "
    'documentation files (the "Software"), to deal in the Software without restriction, including without limitation '
    "the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and "
    "to permit persons to whom the Software is furnished to do so, subject to the following conditions: The above "
    "copyright notice and this permission notice shall be included in all copies or substantial portions of the "
    'Software. THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT '
    "LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT "
    "SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION "
    "OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER "
    "DEALINGS IN THE SOFTWARE."
)

# litellm's provider -> ours. The first ones make their models and set the list price; the others serve them.
GROUPS = {
    "anthropic": "anthropic",
    "openai": "openai",
    "gemini": "gemini",
    "xai": "xai",
    "deepseek": "deepseek",
    "mistral": "mistral",
    "moonshot": "moonshot",
    "zai": "zai",
    "dashscope": "qwen",
    "minimax": "minimax",
    "cohere_chat": "cohere",
    "groq": "groq",
    "cerebras": "cerebras",
    "together_ai": "together",
    "fireworks_ai": "fireworks",
    "azure": "azure",
    "bedrock_converse": "bedrock",
}
GENAI_GROUPS = {
    "anthropic": "anthropic",
    "openai": "openai",
    "google": "gemini",
    "x-ai": "xai",
    "deepseek": "deepseek",
    "mistral": "mistral",
    "moonshotai": "moonshot",
    "groq": "groq",
    "cerebras": "cerebras",
}
# Groups of which only what differs from the maker's own row is kept.
DIFFERENCES_ONLY = {"azure": "openai"}
# OpenAI's API pages give 272,000 or 922,000 tokens of input plus 128,000 of output; some rows of litellm hold the sum.
OPENAI_SUMS = {400_000: 272_000, 1_050_000: 922_000}
AZURE_GPT_41 = 128_000  # deployments on Azure serve less of it than OpenAI does
NOT_FOR_CODING = re.compile(
    r"^ft:|audio|tts|image|robotics|lyria|search|omni|transcri|realtime|embed|guard|computer-use|vision-preview"
    r"|deep-research|container|moderation|ocr|voxtral|learnlm|gemma-2|exp-1|veo|rerank|/standard/|/hd/|-1024-|imagen"
    r"|together-ai-|fireworks-ai-|^azure/(?:eu|us|global|global-standard)/|rosalind|cyber|daybreak|-law$|multi-agent|ft-"
)


@dataclass(frozen=True, slots=True)
class Row:
    """The columns of one model. Prices in US dollars per million tokens; None where the source says nothing."""

    window: int  # most input tokens
    total: int | None  # input and output together, where it is more than `window`
    max_output: int | None
    input: float | None
    output: float | None
    cache_read: float | None
    cache_write: float | None
    cache_write_1h: float | None
    long_over: int | None
    long_input: float | None  # factors on the whole request above `long_over` input tokens
    long_output: float | None
    source: str


Catalogue = dict[str, dict[str, Row]]


def main() -> None:
    arguments = _arguments()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.wheels or _download(Path(scratch))
        litellm, litellm_version = _read_wheel(folder, "litellm", LITELLM_JSON)
        genai, genai_version = _read_wheel(folder, "genai_prices", GENAI_DATA)
    other = dict(_genai_rows(ast.parse(genai), arguments.date))
    catalogue = _litellm_rows(json.loads(litellm))
    disagreements = list(_disagreements(catalogue, other))
    _fill_in(catalogue, other)
    _drop_repetitions(catalogue)
    text = _encode(catalogue, arguments.date, litellm_version, genai_version)
    if len(text.encode()) > MOST_BYTES:
        sys.exit(f"the catalogue has {len(text.encode()):,} bytes, more than {MOST_BYTES:,}: leave groups out")
    TARGET.write_text(text, encoding="utf-8")
    report = "\n".join(disagreements)
    if arguments.report:
        arguments.report.write_text(report + "\n", encoding="utf-8")
    rows = sum(len(models) for models in catalogue.values())
    sys.stdout.write(f"{report}\n{rows} rows, {len(text.encode()):,} bytes, {len(disagreements)} disagreements\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--wheels", type=Path, help="folder that holds the two wheels already")
    parser.add_argument(
        "--date", type=date.fromisoformat, default=datetime.now(UTC).date(), help="date of the snapshot"
    )
    parser.add_argument("--report", type=Path, help="write the disagreements there too")
    return parser.parse_args()


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", str(folder)]
    subprocess.run([*command, "litellm", "genai-prices"], check=True)
    return folder


def _read_wheel(folder: Path, package: str, member: str) -> tuple[str, str]:
    wheel = max(folder.glob(f"{package}-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(member).decode("utf-8"), wheel.name.split("-")[1]


def _litellm_rows(data: Mapping[str, Mapping[str, Any]]) -> Catalogue:
    catalogue: Catalogue = {group: {} for group in GROUPS.values()}
    for name, facts in data.items():
        group = GROUPS.get(str(facts.get("litellm_provider")))
        wanted = group and facts.get("mode") in ("chat", "responses") and not NOT_FOR_CODING.search(name)
        if not group or not wanted or not isinstance(facts.get("max_input_tokens"), int):
            continue
        if group in ("fireworks", "together", "bedrock") and not facts.get("supports_function_calling"):
            continue
        if group == "bedrock" and not name.startswith("amazon.nova"):
            continue  # other makers' models are found by their own names
        short = name.removeprefix(f"{facts['litellm_provider']}/").removeprefix("accounts/fireworks/models/")
        row = _litellm_row(facts)
        if group == "azure" and short.startswith("gpt-4.1"):
            row = replace(row, window=AZURE_GPT_41)
        if group in ("openai", "azure") and row.window in OPENAI_SUMS:
            row = replace(row, window=OPENAI_SUMS[row.window], total=row.window, max_output=128_000)
        catalogue[group][short] = row
    return catalogue


def _litellm_row(facts: Mapping[str, Any]) -> Row:
    tiers = sorted(
        int(found[1])
        for key in facts
        if (found := re.fullmatch(r"input_cost_per_token_above_(\d+)k_tokens", key)) and facts[key]
    )
    over = tiers[0] if tiers else None
    window, output = int(facts["max_input_tokens"]), facts.get("max_output_tokens")

    def factor(key: str) -> float | None:
        base, above = facts.get(key), facts.get(f"{key}_above_{over}k_tokens")
        return round(above / base, 4) if base and above else None

    return Row(
        window=window,
        total=None,
        max_output=int(output) if isinstance(output, int) and 0 < output <= window else None,
        input=_per_mtok(facts.get("input_cost_per_token")),
        output=_per_mtok(facts.get("output_cost_per_token")),
        cache_read=_per_mtok(facts.get("cache_read_input_token_cost")),
        cache_write=_per_mtok(facts.get("cache_creation_input_token_cost")),
        cache_write_1h=_per_mtok(facts.get("cache_creation_input_token_cost_above_1hr")),
        long_over=over * 1_000 if over else None,
        long_input=factor("input_cost_per_token"),
        long_output=factor("output_cost_per_token"),
        source="l",
    )


def _per_mtok(price: object) -> float | None:
    """None also for 0: it stands for "unknown" as often as for "free"."""
    return round(float(price) * PER_MTOK, 6) or None if isinstance(price, (int, float)) else None


def _genai_rows(tree: ast.Module, today: date) -> Iterator[tuple[tuple[str, str], Row]]:
    """Models of genai-prices by (group, id): constructor calls of a Python file, read without running it."""
    for provider in _calls(tree, "Provider"):
        group = GENAI_GROUPS.get(str(_literal(provider.get("id"))))
        if group is None:
            continue
        for model in _calls(provider["models"], "ModelInfo"):
            prices = _current_prices(model.get("prices"), today)
            name = str(_literal(model["id"]))
            is_own = not (group == "gemini" and name.startswith("claude")) and not name.startswith("gpt-oss")
            if prices is not None and is_own and not NOT_FOR_CODING.search(name):
                yield (group, name), _genai_row(prices, _literal(model.get("context_window")))


def _genai_row(prices: Mapping[str, ast.expr], window: object) -> Row:
    base = {name: _price(node) for name, node in prices.items()}
    over, long_input = _tier(prices.get("input_mtok"))
    _, long_output = _tier(prices.get("output_mtok"))
    return Row(
        window=window if isinstance(window, int) else 0,
        total=None,
        max_output=None,
        input=base.get("input_mtok"),
        output=base.get("output_mtok"),
        cache_read=base.get("cache_read_mtok"),
        cache_write=base.get("cache_write_mtok"),
        cache_write_1h=base.get("cache_write_1h_mtok"),
        long_over=over,
        long_input=long_input,
        long_output=long_output,
        source="g",
    )


def _current_prices(node: ast.expr | None, today: date) -> dict[str, ast.expr] | None:
    """The prices in force: of a list with start dates the latest that has begun; prices by the hour are left out."""
    if isinstance(node, ast.Call):
        return _keywords(node)
    best: tuple[date, dict[str, ast.expr]] | None = None
    for entry in _calls(node, "ConditionalPrice") if node is not None else ():
        constraint = entry.get("constraint")
        start = date.min
        if isinstance(constraint, ast.Call):
            if _name(constraint) != "StartDateConstraint":
                continue
            start = date(*(int(str(_literal(part))) for part in _call(_keywords(constraint)["start_date"]).args))
        if start <= today and (best is None or start >= best[0]):
            best = start, _keywords(_call(entry["prices"]))
    return best[1] if best else None


def _price(node: ast.expr) -> float | None:
    call = _call(node)
    if _name(call) == "TieredPrices":
        return _price(_keywords(call)["base"])
    return float(str(_literal(call.args[0])))


def _tier(node: ast.expr | None) -> tuple[int | None, float | None]:
    if node is None or _name(_call(node)) != "TieredPrices":
        return None, None
    parts = _keywords(_call(node))
    first = next(_calls(parts["tiers"], "Tier"), None)
    base = _price(parts["base"])
    if first is None or not base:
        return None, None
    return int(str(_literal(first["start"]))), round((_price(first["price"]) or 0) / base, 4)


def _calls(node: ast.AST, name: str) -> Iterator[dict[str, ast.expr]]:
    for child in ast.walk(node):
        if isinstance(child, ast.Call) and _name(child) == name:
            yield _keywords(child)


def _call(node: ast.expr) -> ast.Call:
    if not isinstance(node, ast.Call):
        raise TypeError(f"a constructor call was expected at line {node.lineno}: the file's form has changed")
    return node


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def _keywords(call: ast.Call) -> dict[str, ast.expr]:
    return {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}


def _literal(node: ast.expr | None) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _disagreements(catalogue: Catalogue, other: Mapping[tuple[str, str], Row]) -> Iterator[str]:
    for (group, name), theirs in sorted(other.items()):
        ours = catalogue.get(group, {}).get(name)
        if ours is None:
            continue
        for column in ("window", "input", "output", "cache_read", "cache_write", "long_over", "long_input"):
            mine, its = getattr(ours, column), getattr(theirs, column)
            sums = (mine, (mine or 0) + (ours.max_output or 0), ours.total)  # one may give the input limit, one the sum
            if its and mine is not None and its not in (sums if column == "window" else (mine,)):
                yield f"{group}/{name}: {column} is {mine:,} (litellm), {its:,} (genai-prices)"


def _fill_in(catalogue: Catalogue, other: Mapping[tuple[str, str], Row]) -> None:
    """Totals for rows whose input limit is known, and models that only the second source has with a window."""
    for (group, name), theirs in other.items():
        ours = catalogue[group].get(name)
        if ours is None and theirs.window and theirs.input is not None:
            catalogue[group][name] = theirs
        elif ours is not None and ours.max_output and theirs.window == ours.window + ours.max_output:
            catalogue[group][name] = replace(ours, total=theirs.window)


def _drop_repetitions(catalogue: Catalogue) -> None:
    """Dated and `-latest` names that say the same as the plain name, and servers' rows equal to the maker's."""
    for group, models in catalogue.items():
        maker = catalogue.get(DIFFERENCES_ONLY.get(group, ""), {})
        for name in list(models):
            plain = re.sub(r"-(?:\d{4}-\d{2}-\d{2}|20\d{6}|latest)$", "", name)
            same_plain = plain != name and _facts(models.get(plain)) == _facts(models[name])
            if same_plain or (maker and _facts(maker.get(plain)) == _facts(models[name])):
                del models[name]


def _facts(row: Row | None) -> tuple[object, ...]:
    return astuple(replace(row, total=None))[:-1] if row else ()


def _encode(catalogue: Catalogue, day: date, litellm_version: str, genai_version: str) -> str:
    notice = (
        "Windows, limits and list prices of models, taken from litellm (Copyright (c) 2023 Berri AI) and genai-prices "
        "(Copyright (c) Pydantic Services Inc. 2025 to present), both under the MIT License. "
        "Made by scripts/build_catalogue.py; do not edit."
    )
    head = {
        "notice": notice,
        "license": MIT_LICENSE,
        "date": day.isoformat(),
        "sources": {
            "l": f"litellm {litellm_version}, {LITELLM_JSON}",
            "g": f"genai-prices {genai_version}, {GENAI_DATA}",
        },
        "columns": [field.name for field in fields(Row)],
    }
    groups: list[str] = []
    for group, models in catalogue.items():
        rows = ",\n".join(
            f"{json.dumps(name)}:{json.dumps(_trimmed(row), separators=(',', ':'))}"
            for name, row in sorted(models.items())
        )
        groups.append(f"{json.dumps(group)}:{{\n{rows}}}")
    return json.dumps(head, indent=1)[:-2] + ',\n "models":{\n' + ",\n".join(groups) + "}}\n"


def _trimmed(row: Row) -> list[object]:
    values = [int(value) if isinstance(value, float) and value.is_integer() else value for value in astuple(row)]
    return list(values)


if __name__ == "__main__":
    main()
