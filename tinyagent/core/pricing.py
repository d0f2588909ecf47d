"""What a request cost, or None where the price is not known."""

from dataclasses import dataclass

from tinyagent.core.types import Usage

MTOK = 1_000_000


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars per million tokens. A cache price of None means the plain input price.

    Above `long_context_over_tokens` of input the whole request is billed at the long-context factors.
    """

    input_usd_per_mtok: float
    output_usd_per_mtok: float
    cache_read_usd_per_mtok: float | None = None
    cache_write_usd_per_mtok: float | None = None
    long_context_over_tokens: int | None = None
    long_context_factor_input: float = 1.0
    long_context_factor_output: float = 1.0


FREE = Prices(0.0, 0.0, 0.0, 0.0)


def cost(usage: Usage, prices: Prices | None) -> float | None:
    """Dollars for one request; None if the price is unknown, never 0 for that reason."""
    if prices is None:
        return None
    read = min(usage.cache_read_tokens, usage.input_tokens)
    write = min(usage.cache_write_tokens, usage.input_tokens - read)
    plain = usage.input_tokens - read - write
    long_in, long_out = _long_context_factors(usage.input_tokens, prices)
    input_usd = (
        plain * prices.input_usd_per_mtok
        + read * _or(prices.cache_read_usd_per_mtok, prices.input_usd_per_mtok)
        + write * _or(prices.cache_write_usd_per_mtok, prices.input_usd_per_mtok)
    )
    return (input_usd * long_in + usage.output_tokens * prices.output_usd_per_mtok * long_out) / MTOK


def worst_case(input_tokens: int, output_tokens: int, prices: Prices) -> float:
    """The most that a request of at most these sizes can cost: all input written to the cache, none read from it."""
    long_in, long_out = _long_context_factors(input_tokens, prices)
    dearest = max(prices.input_usd_per_mtok, _or(prices.cache_write_usd_per_mtok, 0.0))
    return (input_tokens * dearest * long_in + output_tokens * prices.output_usd_per_mtok * long_out) / MTOK


def affordable_output(budget_usd: float, input_tokens: int, prices: Prices) -> int | None:
    """Output tokens that the budget still pays for after the worst-case input; None: output is free."""
    _, long_out = _long_context_factors(input_tokens, prices)
    per_token = prices.output_usd_per_mtok * long_out / MTOK
    left = budget_usd - worst_case(input_tokens, 0, prices)
    if per_token <= 0:
        return None if left >= 0 else 0
    return max(0, int(left / per_token))


def _long_context_factors(input_tokens: int, prices: Prices) -> tuple[float, float]:
    if prices.long_context_over_tokens is None or input_tokens <= prices.long_context_over_tokens:
        return 1.0, 1.0
    return prices.long_context_factor_input, prices.long_context_factor_output


def _or(price: float | None, default: float) -> float:
    return default if price is None else price
