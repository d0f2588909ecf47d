"""Judges bash commands as text: only what can be read with certainty is recognised.

`parse` understands words, single and double quotes, and `| && || ;`. Anything that bash would expand, redirect,
continue or run in the background makes it answer None, and whoever asked must then assume the worst.
"""

import re
import shlex
import unicodedata

MAX_CHARS = 8_000  # longer commands are not judged (Claude Code: a parser that gave up let them through)
_OPERATORS = ("&&", "||", "|", ";")
_PLAIN = frozenset("_-./:@%+,=^~")  # unquoted, beside letters and digits
_NOT_IN_DOUBLE_QUOTES = frozenset('$`\\!"')
_SPLITTERS = re.compile(r"&&|\|\||[;|&\n(){}<>`]|\$\(")
_WRAPPERS = frozenset({"sudo", "env", "command", "exec", "builtin", "nohup", "time", "nice", "setsid", "stdbuf"})
_LONG_BLANKS = re.compile(r" {9,}|\n{4,}")

Command = tuple[str, ...]  # the words of one simple command, without quotes


def parse(text: str) -> list[Command] | None:
    """The simple commands of a text in order; None if anything in it is not understood."""
    if len(text) > MAX_CHARS:
        return None
    reader = _Reader(text.strip(" \n"))
    commands: list[Command] = []
    words: list[str] = []
    while not reader.at_end():
        if reader.skip(" "):
            continue
        if any(reader.skip(operator) for operator in _OPERATORS):
            if not words:
                return None
            commands.append(tuple(words))
            words = []
            continue
        word = reader.word()
        if word is None:
            return None
        words.append(word)
    return [*commands, tuple(words)] if words else None


def matches_rule(pattern: str, command: str) -> bool:
    """Whether a rule that allows covers a command: each of its simple commands matches the pattern.

    `*` stands for any characters; the pattern `*` covers everything. A command that `parse` does not understand is
    covered by no other pattern (Claude Code CVE-2025-54795). Words are compared as a shell would quote them.
    """
    if pattern == "*":
        return True
    commands = parse(command)
    return commands is not None and all(_like(pattern, shlex.join(words)) for words in commands)


def touches_rule(pattern: str, command: str) -> bool:
    """Whether a rule that denies or asks concerns a command: any part of it might match.

    It errs towards yes, and still a determined command gets round it (`f=.env; cat "$f"`): such rules are advice, what
    protects is a sandbox.
    """
    candidates = [command.strip()]
    for part in _SPLITTERS.split(command):
        words = rough_words(part)
        candidates += [part.strip(), " ".join(words), " ".join(_without_wrappers(words))]
    return any(_like(pattern, candidate) for candidate in candidates)


def rough_words(command: str) -> list[str]:
    """The words of any command as far as they can be guessed: quotes and backslashes dropped, operators as blanks."""
    return re.sub(r"[\\'\"]", "", _SPLITTERS.sub(" ", command)).split()


def visible(text: str) -> str:
    """A text as a person should see it before saying yes (Tracebit on Gemini CLI: the tail was hidden by blanks).

    Control, bidirectional and zero-width characters become escapes, long runs of blanks their count; the number of
    characters follows whenever the text is long or something in it was made visible.
    """
    shown = "".join(char if char == "\n" or _is_visible(char) else _escaped(char) for char in text)
    shown = _LONG_BLANKS.sub(lambda run: f"[{len(run[0])} {'spaces' if run[0][0] == ' ' else 'empty lines'}]", shown)
    if shown == text and len(text) <= 200:
        return text
    return f"{shown}\n({len(text):,} characters)"


class _Reader:
    """A position in a text, and the words that start there."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def at_end(self) -> bool:
        return self._at >= len(self._text)

    def skip(self, expected: str) -> bool:
        if not self._text.startswith(expected, self._at):
            return False
        self._at += len(expected)
        return True

    def word(self) -> str | None:
        """The next word without its quotes; None if bash would do more with it than take it as it is."""
        parts: list[str] = []
        start = self._at
        while not self.at_end() and (char := self._text[self._at]) not in " |;&":
            if char in "'\"":
                quoted = self._quoted(char)
                if quoted is None:
                    return None
                parts.append(quoted)
            elif char.isalnum() or char in _PLAIN:
                if char == "~" and (not parts or parts[-1] in ":="):  # a home folder
                    return None
                parts.append(char)
                self._at += 1
            else:
                return None
        return "".join(parts) if self._at > start else None

    def _quoted(self, quote: str) -> str | None:
        end = self._text.find(quote, self._at + 1)
        if end < 0:
            return None
        inner = self._text[self._at + 1 : end]
        if quote == '"' and not _NOT_IN_DOUBLE_QUOTES.isdisjoint(inner):
            return None
        if any(ord(char) < 32 and char not in "\n\t" for char in inner):
            return None
        self._at = end + 1
        return inner


def _like(pattern: str, text: str) -> bool:
    """Glob match with `*` only, in linear time: each part is found as early as possible."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *middle, last = rest
    if not text.startswith(first):
        return False
    at = len(first)
    for part in middle:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(text) - len(last) >= at and text.endswith(last)


def _without_wrappers(words: list[str]) -> list[str]:
    """`sudo -n env A=1 rm x` as `rm x`."""
    for position, word in enumerate(words):
        if not (word in _WRAPPERS or word.startswith("-") or "=" in word):
            return words[position:]
    return words


def _is_visible(char: str) -> bool:
    if char == " ":
        return True
    # Not printable: control, format, private and unassigned characters, and blanks other than the space. The fillers
    # and the empty braille pattern are letters and symbols by name, but show nothing.
    return char.isprintable() and char not in "\u115f\u1160\u3164\uffa0\u2800" and not _is_variation_selector(char)


def _is_variation_selector(char: str) -> bool:
    return unicodedata.name(char, "").startswith("VARIATION SELECTOR")


def _escaped(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
