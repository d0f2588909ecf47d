"""`tinyagent replay`: the requests of a trajectory, rebuilt, proven, printed and compared; other policies tried."""

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from tinyagent.cli.show import Source

if TYPE_CHECKING:
    from tinyagent.console import Paper
    from tinyagent.console.paper import Style
    from tinyagent.trajectory.reading import Contents
    from tinyagent.trajectory.replay import Change, Mismatch

_SHOWN_LINES = 12
_SHOWN_CHARS = 2_000


def replay(
    source: Source,
    check: Annotated[
        bool, typer.Option("--check", help="Prove every request against its recorded digest; 1 if one differs.")
    ] = False,
    request: Annotated[
        int | None, typer.Option("--request", metavar="K", help="Print the K-th request's JSON body as it was sent.")
    ] = None,
    diff: Annotated[
        tuple[int, int] | None, typer.Option("--diff", metavar="K L", help="How request L differs from request K.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            metavar="NAME",
            help="What another compaction policy would have sent and cost: none, elide, prune, elide+prune, or default "
            "(the run's own, with digests in place of summaries). May be repeated.",
        ),
    ] = None,
    window: Annotated[
        int | None,
        typer.Option("--context-window", metavar="N", min=1, help="With --policy: another window than the run's."),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "-s",
            "--set",
            metavar="KEY=VALUE",
            help="With --policy: another setting, such as context.trigger_ratio=0.7.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="With --policy: as one JSON object.")] = False,
) -> None:
    """Rebuild the requests of a trajectory: prove them, print one, compare two, or try other policies on them.

    Requests count from 1, summaries and failed ones included. Nothing is sent.
    """
    from tinyagent.cli.policies import compare_policies
    from tinyagent.cli.show import load_and_warn
    from tinyagent.config import UsageError

    if check + (request is not None) + (diff is not None) + bool(policy) != 1:
        raise UsageError("choose one of --check, --request K, --diff K L and --policy NAME")
    if not policy and (window or assignments or as_json):
        raise UsageError("--context-window, --set and --json go with --policy NAME")
    contents = load_and_warn(source)
    if request is not None:
        _print_request(contents, request)
    elif diff is not None:
        _print_diff(contents, *diff)
    elif policy:
        compare_policies(contents, policy, window=window, assignments=assignments or (), as_json=as_json)
    elif not _is_proven(contents):
        raise typer.Exit(1)


def _is_proven(contents: "Contents") -> bool:
    """Whether all requests rebuild to their digests; says so, and which do not."""
    from tinyagent.build import request_encoder
    from tinyagent.cli.paging import paged
    from tinyagent.trajectory.replay import check, requests

    digests = [sent.digest for sent in requests(contents.records)]
    wrong = check(contents.records, request_encoder(), changed=contents.changed)
    with paged(os.environ, pager=False) as paper:
        for mismatch in wrong:
            _print_mismatch(paper, mismatch)
        told = f"{len(digests):,} requests, {sum(map(bool, digests)):,} with a digest on record"
        if not any(digests):
            paper.line(f"{told}: nothing can be proven", "yellow")
        elif wrong:
            paper.line(f"{told}: {len(wrong):,} of them cannot be rebuilt as they were sent", "red")
        else:
            paper.line(f"{told}: every one of them rebuilds byte for byte", "green")
    return any(digests) and not wrong


def _print_mismatch(paper: "Paper", mismatch: "Mismatch") -> None:
    paper.line(f"request {mismatch.number} (step {mismatch.step}, {mismatch.purpose}) cannot be rebuilt", "red")
    paper.line(f"  on record {mismatch.recorded}")
    paper.line(f"  rebuilt   {mismatch.rebuilt}")
    named, more = mismatch.suspects[:_SHOWN_LINES], len(mismatch.suspects) - _SHOWN_LINES
    for suspect in named:
        paper.line(f"  changed, or new since the last proven request: {suspect}")
    if more > 0:
        paper.line(f"  and {more:,} more")


def _print_request(contents: "Contents", number: int) -> None:
    from tinyagent.build import encode_request
    from tinyagent.cli.output import Stdout
    from tinyagent.cli.paging import print_bytes
    from tinyagent.console import legible
    from tinyagent.trajectory.replay import request_number

    sent = request_number(contents.records, number)
    data = encode_request(sent.request, sent.options)
    if sys.stdout.isatty():
        Stdout(sys.stdout).line(legible(data.decode("utf-8", "replace")))
    else:
        print_bytes(data)


def _print_diff(contents: "Contents", first: int, second: int) -> None:
    from tinyagent.cli.paging import paged
    from tinyagent.trajectory.replay import diff

    changes = diff(contents.records, first, second)
    with paged(os.environ, pager=False) as paper:
        for change in changes:
            _print_change(paper, change)
        if not changes:
            paper.line(f"requests {first} and {second} do not differ")


def _print_change(paper: "Paper", change: "Change") -> None:
    from tinyagent.trajectory.rows import clipped

    paper.line(f"{change.kind}: {change.what}", "bold")
    sides: list[tuple[str, Style, str | None]] = [("-", "red", change.before), ("+", "green", change.after)]
    for sign, style, text in sides:
        if text is not None:
            for line in clipped(text, lines=_SHOWN_LINES, chars=_SHOWN_CHARS).split("\n"):
                paper.line(f"  {sign} {line}", style)
