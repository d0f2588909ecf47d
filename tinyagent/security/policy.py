"""Decides whether a tool call may run: allowed, denied, or a question for a person."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from tinyagent.core.types import Effect, ToolCall, Verdict
from tinyagent.security.paths import Places
from tinyagent.security.readonly import is_read_only
from tinyagent.security.rules import Permissions, Rule
from tinyagent.security.shell import Command, parse, visible

Mode = Literal["ask", "auto", "deny"]

_MAX_FOLDERS = 64  # that a chain of `cd` could have led to


@dataclass(frozen=True, slots=True)
class Ask:
    """A person must decide. `shown` is the call with nothing hidden in it; `remember` is the rule for "always".

    `remember` None: this is asked every time. Where nobody can be asked, the call gets the verdict `denied()`.
    """

    reason: str
    shown: str
    remember: Rule | None

    def denied(self) -> Verdict:
        """The verdict where there is nobody to ask."""
        return Verdict(False, by="nobody to ask", reason=f"{self.reason}, and nobody can be asked in this run")


def decide(call: ToolCall, effect: Effect, *, mode: Mode, rules: Permissions, places: Places) -> Verdict | Ask:
    """The decision on one call, from its text and from where its paths lead now.

    The strictest reason wins, in every mode: rules that deny; writing outside the workspace; secrets; protected paths;
    rules that ask; reading outside the workspace; rules that allow; what certainly only reads; and at last the mode,
    which asks, allows (`auto`) or denies. Secrets are never read in `auto`; protected paths and rules that ask are
    questions in `auto` too.
    """
    arguments = call.arguments or {}
    if call.name == "bash":
        return _decide_command(str(arguments.get("command", "")), mode=mode, rules=rules, places=places)
    path = arguments.get("path")
    if isinstance(path, str):
        return _decide_path(call.name, effect, path, mode=mode, rules=rules, places=places)
    return _decide_other(call.name, effect, mode=mode, rules=rules)


def _decide_command(command: str, *, mode: Mode, rules: Permissions, places: Places) -> Verdict | Ask:
    shown, exact = visible(command), Rule("bash", command, exact=True)
    reads_only = is_read_only(command)
    allowing = _first(rules.allow, "bash", lambda rule: rule.covers_command(command))
    if rule := _first(rules.deny, "bash", lambda rule: rule.touches_command(command)):
        return _denied(rule)
    if places.names_secret(command) and exact not in rules.allow:
        return _by_mode("the command names a place that usually holds keys", shown, _no_auto(mode), remember=exact)
    if not reads_only and places.names_protected(command):
        return _question("the command names a protected path", shown, mode)
    if rule := _first(rules.ask, "bash", lambda rule: rule.touches_command(command)):
        return _question(f"the rule {rule} asks", shown, mode)
    if allowing is not None and (allowing.exact or allowing.pattern == "*"):
        return Verdict(True, by=f"rule {allowing}")
    if (reads_only or allowing) and _leaves(parse(command) or [], places, allowing.pattern if allowing else ""):
        return _by_mode("the command names a path outside the workspace", shown, mode, remember=exact)
    if allowing:
        return Verdict(True, by=f"rule {allowing}")
    if reads_only:
        return Verdict(True, by="reads only")
    return _by_mode("the command may change something", shown, mode, remember=exact)


def _decide_path(
    tool: str, effect: Effect, path: str, *, mode: Mode, rules: Permissions, places: Places
) -> Verdict | Ask:
    shown = f"{tool} {visible(path)}"
    try:
        target = places.resolve(path)
    except ValueError as error:
        return Verdict(False, by="workspace", reason=f"{visible(path)} is no path: {error}")
    reading, inside = effect == "read", places.is_inside(target)
    if rule := _first(rules.deny, tool, lambda rule: rule.touches_path(path, places)):
        return _denied(rule)
    if not reading and not inside:
        return Verdict(False, by="workspace", reason=f"{target} is outside the workspace {places.root}")
    if reading and places.is_secret(target):
        return _by_mode(f"{path} usually holds keys", shown, _no_auto(mode), remember=None)
    if not reading and places.is_protected(target):
        return _question(f"{path} is a protected path", shown, mode)
    if rule := _first(rules.ask, tool, lambda rule: rule.touches_path(path, places)):
        return _question(f"the rule {rule} asks", shown, mode)
    allowing = _first(rules.allow, tool, lambda rule: rule.covers_path(path, places))
    if not inside and not (allowing and allowing.names_outside):
        remember = Rule(tool, str(target), exact=True)
        return _by_mode(f"{target} is outside the workspace", shown, mode, remember=remember)
    if allowing:
        return Verdict(True, by=f"rule {allowing}")
    if reading:
        return Verdict(True, by="reads only")
    return _by_mode(f"{path} would be changed", shown, mode, remember=Rule(tool))


def _decide_other(tool: str, effect: Effect, *, mode: Mode, rules: Permissions) -> Verdict | Ask:
    """Tools without a path or a command. A sub-agent's calls are decided one by one, so starting it is harmless."""
    if rule := _first(rules.deny, tool, _covers_all):
        return _denied(rule)
    if rule := _first(rules.ask, tool, _covers_all):
        return _question(f"the rule {rule} asks", tool, mode)
    if rule := _first(rules.allow, tool, _covers_all):
        return Verdict(True, by=f"rule {rule}")
    if effect in ("read", "spawn"):
        return Verdict(True, by="changes nothing itself")
    return _by_mode(f"{tool} may change something", tool, mode, remember=Rule(tool))


def _leaves(commands: Sequence[Command], places: Places, pattern: str) -> bool:
    """Whether an argument, or the value behind its `=`, leads out of the workspace from any folder entered before.

    Arguments that the allowing rule's own pattern names are the user's wish.
    """
    folders = [places.root]
    for program, *arguments in commands:
        named = {part for argument in arguments for part in (argument, argument.partition("=")[2])}
        paths = [folder / name for folder in folders for name in named if name not in pattern]
        if not all(places.is_inside(path) or str(path) == "/dev/null" for path in paths):
            return True
        if program in ("cd", "pushd"):
            folders += [folder / argument for folder in folders for argument in arguments]
        if len(folders) > _MAX_FOLDERS:
            return True
    return False


def _first(rules: Sequence[Rule], tool: str, fits: Callable[[Rule], bool]) -> Rule | None:
    return next((rule for rule in rules if rule.is_for(tool) and fits(rule)), None)


def _covers_all(rule: Rule) -> bool:
    return rule.pattern == "*"


def _denied(rule: Rule) -> Verdict:
    return Verdict(False, by=f"rule {rule}", reason=f"the permission rule {rule} denies this")


def _question(reason: str, shown: str, mode: Mode) -> Verdict | Ask:
    """Asked in `auto` too, and every time."""
    return _by_mode(reason, shown, "deny" if mode == "deny" else "ask", remember=None)


def _no_auto(mode: Mode) -> Mode:
    return "deny" if mode == "auto" else mode


def _by_mode(reason: str, shown: str, mode: Mode, *, remember: Rule | None) -> Verdict | Ask:
    match mode:
        case "ask":
            return Ask(reason, shown, remember)
        case "auto":
            return Verdict(True, by="mode auto")
        case "deny":
            return Verdict(False, by="mode", reason=f"{reason}, which this run does not allow")
