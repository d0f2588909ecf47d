"""Full tool outputs of one run, a file each."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, TextIO

from tinyagent.tools.lines import blocks, open_text

_ID = re.compile(r"o[1-9][0-9]{0,8}", re.ASCII)
_LOG_ID = re.compile(r"m(0|[1-9][0-9]{0,8})", re.ASCII)


class FileOutputStore:
    """Outputs by id (`o1`, `o2`, ...) in one folder, readable by the user only. One writer at a time.

    An output is spooled to `<id>.part`, which nobody can read through the store, and published as `<id>.txt` once its
    secrets are out. Spools that a kill left behind are removed when the next writer starts. Nothing is touched on disk
    before the first write, so that a reader never disturbs a live run.

    An output that was shown whole is not stored; it is read again from the log as `m<position>`. `logged` gives the
    text of the tool result at that position, None where there is none.
    """

    def __init__(self, folder: Path, *, logged: Callable[[int], str | None] | None = None) -> None:
        self._folder = folder
        self._logged = logged
        self._last = -1  # number of the newest id; -1: the folder was not looked at yet

    def new_path(self) -> tuple[str, Path]:
        """A fresh id and a path to spool to, where nothing is yet. Call `publish` to keep the file, or unlink it."""
        self._prepare()
        self._last += 1
        return f"o{self._last}", self._spool(f"o{self._last}")

    def put(self, text: str) -> str:
        """Store a text and return its id. Lone surrogates are kept readable as `\\udXXX`."""
        output_id, path = self.new_path()
        path.touch(mode=0o600, exist_ok=False)
        path.write_bytes(text.encode("utf-8", "backslashreplace"))
        path.replace(self._file(output_id))
        return output_id

    def publish(
        self,
        output_id: str,
        redact: Callable[[str], str],
        *,
        redact_stream: Callable[[BinaryIO, BinaryIO], None] | None = None,
    ) -> int:
        """Take secrets out of a spooled output, make it readable, and return its characters.

        `redact` is given whole lines, some 260,000 characters at a time; `redact_stream` takes its place where given
        and may look across those. Raises KeyError if nothing was spooled.
        """
        part = self._checked(output_id, self._spool)
        clean = part.with_suffix(".tmp")
        clean.touch(mode=0o600)
        if redact_stream:
            with part.open("rb") as source, clean.open("wb") as target:
                redact_stream(source, target)
        else:
            with open_text(part) as text, clean.open("w", encoding="utf-8", newline="") as target:
                target.writelines(map(redact, blocks(text)))
        with open_text(clean) as stream:
            chars = sum(map(len, blocks(stream)))
        clean.replace(self._file(output_id))
        part.unlink()
        return chars

    def path(self, output_id: str) -> Path:
        """The file of a stored output. Raises KeyError for an id that is unknown or no id at all."""
        if found := _LOG_ID.fullmatch(output_id):
            return self._copy_of_log(output_id, int(found[1]))
        return self._checked(output_id, self._file)

    def read(self, output_id: str) -> str:
        """The stored text, whole in memory: for a large one use `open`. Raises KeyError for an unknown id."""
        with self.open(output_id) as stream:
            return stream.read()

    def open(self, output_id: str) -> TextIO:
        """The stored text as a stream. Raises KeyError for an unknown id."""
        return open_text(self.path(output_id))

    def _copy_of_log(self, output_id: str, position: int) -> Path:
        """A file of its own, so that a log text is searched like any other."""
        text = self._logged(position) if self._logged else None
        if text is None:
            raise KeyError(output_id)
        self._prepare()
        copy = self._file(output_id)
        copy.unlink(missing_ok=True)
        copy.touch(mode=0o600)
        copy.write_bytes(text.encode("utf-8", "backslashreplace"))
        return copy

    def _prepare(self) -> None:
        """Before the first write: the folder, what a kill left behind, the newest id."""
        if self._last >= 0:
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for leftover in (*self._folder.glob("o*.part"), *self._folder.glob("o*.tmp")):
            leftover.unlink()
        taken = (int(path.stem[1:]) for path in self._folder.glob("o*.txt") if _ID.fullmatch(path.stem))
        self._last = max(taken, default=0)

    def _checked(self, output_id: str, place: Callable[[str], Path]) -> Path:
        if not _ID.fullmatch(output_id):
            raise KeyError(output_id)
        path = place(output_id)
        if path.is_symlink() or not path.is_file():
            raise KeyError(output_id)
        return path

    def _file(self, output_id: str) -> Path:
        return self._folder / f"{output_id}.txt"

    def _spool(self, output_id: str) -> Path:
        return self._folder / f"{output_id}.part"
