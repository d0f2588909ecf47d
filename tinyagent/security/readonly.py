"""Commands that only read, as shapes of arguments: a program that reads with one flag may write or run with another.

An unknown program, an unknown flag or a form that `parse` does not understand is not read-only. Missing on
purpose: `awk`, `xargs`, `env`, `find -exec`, `sort -o`, `uniq IN OUT`, `rg --pre`, `git log --output`, network tools.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from re import fullmatch

from tinyagent.security.shell import Command, parse


@dataclass(frozen=True, slots=True)
class Shape:
    """The arguments that a program may have.

    `letters` are flags of one letter, which may stand together (`-la`); `flags` are whole words; `valued` are flags
    with a value (`-n 5`, `-n5` for numbers, `--depth=5`). `numbers`: also `-5`. `words` caps the other arguments.
    """

    letters: str = ""
    flags: str = ""
    valued: str = ""
    numbers: bool = False
    words: int | None = None

    def fits(self, arguments: Sequence[str]) -> bool:
        """Whether every argument is one of these."""
        flags, valued = self.flags.split(), self.valued.split()
        others = 0
        rest = iter(arguments)
        for argument in rest:
            name, equals, _ = argument.partition("=")
            if argument == "--":
                others += len(list(rest))
            elif not argument.startswith("-") or argument == "-":
                others += 1
            elif argument in flags or (equals and name.startswith("--") and name in valued):
                continue
            elif argument in valued:
                if next(rest, None) is None:
                    return False
            elif not self._is_short(argument, valued):
                return False
        return self.words is None or others <= self.words

    def _is_short(self, argument: str, valued: Sequence[str]) -> bool:
        body = argument[1:]
        if body.isascii() and body.isdigit():
            return self.numbers
        if argument[:2] in valued and fullmatch(r"[0-9]+", argument[2:]):
            return True
        return all(letter in self.letters for letter in body)


_GREP = Shape(
    letters="rnilHhvwcEFPosxqIL",
    flags="--recursive --line-number --ignore-case --files-with-matches --count --word-regexp --fixed-strings",
    valued="-e -A -B -C -m --include --exclude --exclude-dir --color --context --max-count",
)
_GIT_HISTORY = (
    "--oneline --stat --shortstat --numstat --name-only --name-status --graph --decorate --all --patch --no-patch "
    "--follow --reverse --merges --no-merges --no-color --abbrev-commit --no-pager --cached --staged --summary --check"
)
_GIT_HISTORY_VALUED = "-n -U -S -G -L --format --pretty --since --until --author --grep --max-count --date --unified"
_SUMS = Shape(letters="bt")

SHAPES: Mapping[str, Shape] = {
    "basename": Shape(letters="az", valued="-s"),
    "cat": Shape(letters="AbeEnstTv"),
    "cmp": Shape(letters="bls"),
    "column": Shape(letters="t", valued="-s"),
    "comm": Shape(letters="123"),
    "cut": Shape(letters="sn", valued="-d -f -c -b"),
    "df": Shape(letters="hTk"),
    "diff": Shape(letters="uNrqBbwiyc", flags="--brief --recursive", valued="-U --exclude --color --unified"),
    "dirname": Shape(),
    "du": Shape(letters="shakcm", valued="-d --max-depth"),
    "echo": Shape(letters="neE"),
    "false": Shape(),
    "file": Shape(letters="biL"),
    "find": Shape(
        flags="-print -not -o -a -or -and -empty -prune",
        valued="-name -iname -path -ipath -type -maxdepth -mindepth -size -mtime -mmin -newer -regex -iregex",
    ),
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "head": Shape(letters="qv", valued="-n -c --lines --bytes", numbers=True),
    "id": Shape(letters="ugnG", words=0),
    "jq": Shape(letters="rcsSneMCaj"),
    "ls": Shape(
        letters="1aAlhtrSdFisGpknogXBQmx",
        flags="--all --almost-all --human-readable --reverse --size --directory",
        valued="--color --sort --time --time-style",
    ),
    "md5sum": _SUMS,
    "nl": Shape(letters="p", valued="-b -w"),
    "nproc": Shape(words=0),
    "printf": Shape(),
    "pwd": Shape(letters="LP", words=0),
    "readlink": Shape(letters="fem"),
    "realpath": Shape(letters="ems"),
    "rg": Shape(
        letters="nilHvwcFPoslSuN",
        flags="--files --hidden --no-ignore --no-heading --line-number --count --files-with-matches --ignore-case",
        valued="-g -t -T -A -B -C -m -e --glob --type --max-count --context --max-depth --color",
    ),
    "rev": Shape(),
    "seq": Shape(valued="-s", letters="w"),
    "sha1sum": _SUMS,
    "sha256sum": _SUMS,
    "sleep": Shape(words=1),
    "sort": Shape(letters="nrufbghVcisdM", valued="-k -t"),
    "stat": Shape(letters="Lft", valued="-c --format"),
    "tac": Shape(),
    "tail": Shape(letters="qv", valued="-n -c --lines --bytes", numbers=True),
    "tr": Shape(letters="dscC", words=2),
    "tree": Shape(letters="adfhpsF", valued="-L -I -P"),
    "true": Shape(),
    "type": Shape(letters="apt"),
    "uname": Shape(letters="amnrspvio", words=0),
    "uniq": Shape(letters="cduiz", valued="-f -s -w", words=1),
    "wc": Shape(letters="lwcmL"),
    "which": Shape(letters="a"),
    "whoami": Shape(words=0),
}

GIT_SHAPES: Mapping[str, Shape] = {
    "blame": Shape(letters="wlsefn", valued="-L"),
    "branch": Shape(letters="arv", flags="--list --show-current --all --remotes -vv --no-color", words=0),
    "describe": Shape(flags="--tags --always --dirty --all --long", valued="--abbrev --match"),
    "diff": Shape(letters="pbwMR", flags=_GIT_HISTORY, valued=_GIT_HISTORY_VALUED),
    "grep": Shape(letters="nilhvwcEFPI", valued="-e -A -B -C"),
    "log": Shape(letters="pbwM", flags=_GIT_HISTORY, valued=_GIT_HISTORY_VALUED, numbers=True),
    "ls-files": Shape(letters="comdst", flags="--others --exclude-standard --cached --modified --deleted --stage"),
    "ls-tree": Shape(letters="rdtl", flags="--name-only"),
    "merge-base": Shape(),
    "remote": Shape(letters="v", words=0),
    "rev-list": Shape(flags="--count --all --oneline", valued="-n --max-count", numbers=True),
    "rev-parse": Shape(flags="--show-toplevel --abbrev-ref --short --verify --is-inside-work-tree --git-dir"),
    "show": Shape(letters="pbw", flags=_GIT_HISTORY, valued=_GIT_HISTORY_VALUED),
    "shortlog": Shape(letters="sne", words=1),
    "status": Shape(letters="sbuv", flags="--short --branch --porcelain --long --ignored -uno", valued="--porcelain"),
    "tag": Shape(letters="ln", flags="--list", words=0),
}

_VERSIONED = frozenset({"python", "python3", "node", "npm", "git", "go", "cargo", "rustc", "gcc", "make", "java", "uv"})
_SED_PRINT = r"[0-9]+(,([0-9]+|\$))?p"  # sed's other commands write files (w) and run programs (e)


def is_read_only(command: str) -> bool:
    """Whether a command certainly changes nothing. It says nothing about where the command reads."""
    return read_only_commands(command) is not None


def read_only_commands(command: str) -> list[Command] | None:
    """The simple commands of a command that only reads; None if it is not certain."""
    if not command.isprintable():  # also refuses every line break, tab and invisible character
        return None
    commands = parse(command)
    if commands is None or not all(_fits(words) for words in commands):
        return None
    return commands


def _fits(words: Command) -> bool:
    program, *arguments = words
    match program:
        case "cd":  # a bare `cd` and `cd -` lead to places that the text does not name
            return len(arguments) == 1 and not arguments[0].startswith("-") and ".." not in arguments[0]
        case "git":
            arguments = arguments[1:] if arguments[:1] == ["--no-pager"] else arguments
            shape = GIT_SHAPES.get(arguments[0]) if arguments else None
            return arguments == ["--version"] or (shape is not None and shape.fits(arguments[1:]))
        case "sed":
            return len(arguments) >= 2 and arguments[0] == "-n" and _is_sed_print(arguments[1:])
        case _ if program in _VERSIONED:
            return arguments == ["--version"]
        case _:
            shape = SHAPES.get(program)
            return shape is not None and shape.fits(arguments)


def _is_sed_print(arguments: Sequence[str]) -> bool:
    script, *files = arguments
    return fullmatch(_SED_PRINT, script) is not None and not any(file.startswith("-") for file in files)
