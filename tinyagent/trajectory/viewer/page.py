"""The page as text: its frame, its program and the run's data, in one file that needs nothing else.

Nothing of a run can act in it. Data stand in script elements of type application/json, which are never executed, with
"<", ">" and "&" escaped, so that no text ends one; the program puts texts into the page as text only; and a content
security policy allows this one program and style by their hashes and forbids every load, frame, form and plug-in, and
(where the browser knows trusted types) any turning of a text into markup.
"""

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files

from tinyagent.core.events import Record
from tinyagent.trajectory.strict import strict_json, strict_text
from tinyagent.trajectory.viewer.contents import Contents, contents

SCRIPTS = ("dom", "data", "text", "cards", "lazy", "chart", "list", "transcript", "search", "print", "page")
_TITLE_CHARS = 100
_SECTIONS = "{{SECTIONS}}\n"
_PLACE = re.compile(r"\{\{(\w+)\}\}")


def render_html(records: Sequence[Record]) -> str:
    """The page of a run, finished or not. Raises RecordError if the records do not begin with a run's start."""
    return "".join(render_parts(records))


def render_parts(records: Sequence[Record]) -> Iterator[str]:
    """The same in pieces, for runs of many megabytes. The first piece is all that the first paint needs."""
    held = contents(records)
    script, style = _program(), _read("page.css")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    parts = {"POLICY": policy, "TITLE": _title(held), "STYLE": style, "INDEX": _data(held.index), "SCRIPT": script}
    head, tail = _read("page.html").split(_SECTIONS)
    yield _PLACE.sub(lambda place: parts[place[1]], head)
    for number, section in enumerate(held.sections):
        yield f'<script type="application/json" id="d{number}">{_data(section)}</script>\n'
    yield tail


def _program() -> str:
    """All scripts as one, so that no name of theirs is global."""
    return '(() => {\n"use strict";\n' + "\n".join(_read(f"{name}.js") for name in SCRIPTS) + "})();\n"


def _read(name: str) -> str:
    return files("tinyagent.trajectory.viewer").joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _title(held: Contents) -> str:
    return escape(strict_text(f"{held.title[:_TITLE_CHARS]} · tinyagent" if held.title else "tinyagent run"))


def _data(value: object) -> str:
    """JSON that no HTML parser can take for anything else."""
    text = json.dumps(strict_json(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
