"""Self-contained HTML pages: the templates of ``templates/``, filled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opplab.files import printable
from opplab.report.block import unbroken


def render(template: str, **values: Any) -> str:
    """Fill a template; texts are escaped, what turns the direction of writing is shown, blocks leave no empty lines.

    Examples
    --------
    >>> render("trace_view.html", title="a < b").count("a &lt; b")
    2
    """
    from jinja2 import Environment, FileSystemLoader
    from markupsafe import Markup, escape

    folder = Path(__file__).parent / "templates"
    environment = Environment(loader=FileSystemLoader(folder), autoescape=True, trim_blocks=True, finalize=_shown)
    environment.filters["unbroken"] = lambda value: Markup(unbroken(str(escape(value))))
    return environment.get_template(template).render(values)


def _shown(value: Any) -> Any:
    """Give a value of a template without what a reader would not see: names come from files of others."""
    return type(value)(printable(value)) if isinstance(value, str) else value


def panel(title: str, picture: str, class_: str = "") -> dict[str, Any]:
    """Give a picture (SVG) with its title, and with the class of the title, as the templates take it."""
    from markupsafe import Markup

    return {"title": title, "svg": Markup(picture), "class": class_}
