"""Pages: an HTML file each that loads nothing. Style, script and pictures are inside it.

What a page shows may come from anybody. All of it is escaped, and the page's content security policy admits no script
but the one of its package, by its hash, and no request at all.
"""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

HERE = Path(__file__).parent


def page(template: Path, style: str = "", script: str = "", **shown: Any) -> str:
    """Return a page as HTML.

    Args:
        template: the file of a template that extends page.html.j2; others of its folder can be imported in it.
        style: CSS of this page alone, which follows that of all pages.
        script: JavaScript of this page.
        shown: what the template calls by these names.
    """
    environment = Environment(
        loader=FileSystemLoader([template.parent, HERE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template.name).render(
        style=Markup((HERE / "page.css").read_text(encoding="utf-8") + style),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        **shown,
    )
