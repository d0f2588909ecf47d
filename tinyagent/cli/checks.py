"""What `tinyagent doctor` looks at. Each check is a line: how it is, and what to do about it."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from tinyagent.cli.session import Invocation, settings_for
from tinyagent.config import Settings, folders
from tinyagent.config.schema import without_password
from tinyagent.core.errors import ConfigError

if TYPE_CHECKING:
    from tinyagent.endpoint import Target

State = Literal["ok", "warning", "problem"]

SMALL_WINDOW = 16_000
LOW_DISK_BYTES, NO_DISK_BYTES = 1_000_000_000, 50_000_000
CONNECT_S = 5.0


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. A problem keeps a run from working, a warning does not."""

    state: State
    subject: str
    words: str


def checks(invocation: Invocation, environ: Mapping[str, str]) -> Iterator[Check]:
    """All checks in order; those of the model end with the first that fails."""
    try:
        loaded = settings_for(invocation, environ)
    except ConfigError as error:
        yield Check("problem", "config", str(error))
        return
    own = folders(environ).config / "config.yaml"
    yield Check("ok", "config", str(own) if own.exists() else f"none of your own ({own} does not exist)")
    yield from (Check("warning", "config", notice) for notice in loaded.notices)
    yield from _model(loaded.settings, environ)
    yield from _programs(environ)
    yield _sandbox(loaded.settings, environ)
    yield from _data(folders(environ).runs)


def window_words(settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """The window, its source and the thresholds of the configured model, a line each."""
    from tinyagent.endpoint import find_target

    try:
        target = find_target(settings, environ, cache=folders(environ).cache)
    except ConfigError:
        return ["window: not known before there is a model; see tinyagent doctor"]
    return [f"{check.subject}: {check.words}" for check in _window(target, settings)]


def _model(settings: Settings, environ: Mapping[str, str]) -> Iterator[Check]:
    from tinyagent.endpoint import find_target

    if (settings.model or "").startswith("scripted/"):
        yield Check("ok", "model", f"{settings.model}: a script, which needs no key and no server")
        return
    try:
        target = find_target(settings, environ, cache=folders(environ).cache)
    except ConfigError as error:
        yield Check("problem", "model", str(error))
        return
    yield Check("ok", "model", f"{target.ref} at {without_password(target.base_url) or 'the address of its SDK'}")
    yield _key(target, environ)
    yield _endpoint(target)
    yield from _window(target, settings)
    yield _price(target, settings)


def _key(target: "Target", environ: Mapping[str, str]) -> Check:
    if not target.key:
        where = "its SDK's own sign-in" if target.provider.transport == "sdk" else "none is sent"
        return Check("ok", "key", f"no variable with a key is set: {where}")
    names = [name for name, value in environ.items() if value == target.key]
    return Check("ok", "key", f"from {' and '.join(sorted(names))}" if names else "set")


def _endpoint(target: "Target") -> Check:
    """Whether the server is there, and lists its models to this key: a question that costs nothing."""
    from tinyagent.models.fetch import fetch_json

    if not target.base_url:
        return Check("ok", "endpoint", "decided by the SDK; not tried")
    parts = urlsplit(target.base_url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    has_proxy = any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"))
    if not has_proxy and (why := _unreachable(parts.hostname or "", port)):
        return Check(
            "problem", "endpoint", f"{parts.hostname}:{port} does not answer ({why}): check address and network"
        )
    api, key = target.options.api, target.key
    path = {"anthropic": "/v1/models", "ollama": "/api/tags"}.get(api, "/models")
    headers = (
        {"x-api-key": key, "anthropic-version": "2023-06-01"}
        if api == "anthropic"
        else {"Authorization": f"Bearer {key}"}
    )
    answer = fetch_json(target.base_url + path, headers=headers if key else {}, timeout_s=CONNECT_S)
    if answer is None:
        words = f"answers, but does not list its models at {path}: the key may be wrong, or it has no such list"
        return Check("warning", "endpoint", words)
    return Check("ok", "endpoint", "answers, and takes the key" if key else "answers")


def _unreachable(host: str, port: int) -> str:
    try:
        socket.create_connection((host, port), timeout=CONNECT_S).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _window(target: "Target", settings: Settings) -> Iterator[Check]:
    from tinyagent.compaction.plan import figures

    tokens = target.window.tokens
    if tokens is None:
        words = "unknown, so the context is compacted only when the server refuses a prompt: give --context-window N"
        yield Check("warning", "window", words)
        return
    words = f"{tokens:,} tokens, from: {target.window_from}; replies up to {target.max_output_tokens:,}"
    small = tokens < SMALL_WINDOW
    yield Check("warning" if small else "ok", "window", words + ("; small for this kind of work" if small else ""))
    if not settings.context.enabled:
        yield Check("warning", "context", "compaction is off: a run ends when its history no longer fits")
        return
    sizes = figures(settings.context, tokens, reserved_output=settings.max_output_tokens or None)
    stages = ", ".join(settings.context.stages)
    yield Check("ok", "context", f"compacted from {sizes.trigger:,} tokens on to about {sizes.target:,} ({stages})")


def _price(target: "Target", settings: Settings) -> Check:
    if target.prices is None:
        words = f"of {target.ref} unknown: set prices.input_usd_per_mtok and prices.output_usd_per_mtok"
        return Check("problem" if settings.cost_limit else "warning", "price", words)
    prices = target.prices
    words = f"${prices.input_usd_per_mtok:g} in, ${prices.output_usd_per_mtok:g} out per million tokens"
    limit = f"runs stop at ${settings.cost_limit:g}" if settings.cost_limit else "no cost limit"
    return Check("ok", "price", f"{words}, from: {target.prices_from}; {limit}")


def _programs(environ: Mapping[str, str]) -> Iterator[Check]:
    needs: dict[str, tuple[State, str]] = {
        "bash": ("problem", "commands cannot be run without it: install it"),
        "git": ("warning", "not found: the model cannot use it, and batches need it"),
        "rg": ("ok", "not found: the model searches with grep, which is slower"),
    }
    for name, (state, words) in needs.items():
        found = shutil.which(name, path=environ.get("PATH"))
        yield Check("ok", name, found) if found else Check(state, name, words)


def _sandbox(settings: Settings, environ: Mapping[str, str]) -> Check:
    kind = settings.sandbox.kind
    if kind == "local":
        has_bwrap = shutil.which("bwrap", path=environ.get("PATH"))
        hint = "--sandbox bubblewrap" if has_bwrap else "install bubblewrap, then --sandbox bubblewrap"
        return Check("warning", "sandbox", f"none: commands have all your rights; to confine them: {hint}")
    if kind in ("docker", "podman"):
        if not settings.sandbox.image:
            return Check("problem", "sandbox", f"{kind} needs an image: set sandbox.image")
        return _tried([kind, "info"], kind, environ, advice="install it and start its service")
    try_it = ["bwrap", "--ro-bind", "/", "/", "--unshare-all", "true"]
    return _tried(try_it, "bubblewrap", environ, advice="install it, or allow user namespaces on this machine")


def _tried(argv: list[str], name: str, environ: Mapping[str, str], *, advice: str) -> Check:
    try:
        done = subprocess.run(argv, env=dict(environ), capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check("problem", "sandbox", f"{name} cannot be used ({error}): {advice}")
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        return Check("problem", "sandbox", f"{name} does not work ({last[0]}): {advice}")
    return Check("ok", "sandbox", name)


def _data(runs: Path) -> Iterator[Check]:
    """Whether runs can be recorded, and who can read them."""
    above = next(folder for folder in (runs, *runs.parents) if folder.exists())
    try:
        with tempfile.TemporaryFile(dir=above):
            pass
    except OSError as error:
        yield Check(
            "problem", "data", f"{above} cannot be written ({error.strerror}): set TINYAGENT_HOME to another folder"
        )
        return
    if runs.exists() and runs.stat().st_mode & 0o077:
        yield Check("warning", "data", f"{runs} can be read by others: chmod 700 {runs}")
    else:
        yield Check("ok", "data", str(runs))
    free = shutil.disk_usage(above).free
    words = f"{free / 1e9:.1f} GB free at {above}"
    if free < LOW_DISK_BYTES:
        yield Check(
            "problem" if free < NO_DISK_BYTES else "warning", "disk", f"only {words}: tinyagent runs --gc, or make room"
        )
    else:
        yield Check("ok", "disk", words)
