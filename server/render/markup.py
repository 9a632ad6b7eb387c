"""HTML elements from text that nobody vouches for: whatever is not `Html` is escaped."""

from collections.abc import Sequence
from html import escape

from server.render.escape import visible


class Html(str):
    """Markup that stands as it is. Only this module makes it."""

    __slots__ = ()


def tag(name: str, *children: str, **attributes: str) -> Html:
    """One element. A child that is plain text is escaped, and so is every attribute's value.

    `class_` stands for `class`. Characters that do not show (control, bidi) become escapes.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(visible(value))}"'
        for key, value in attributes.items()
    )
    return Html(f"<{name}{given}>{joined(*children)}</{name}>")


def joined(*children: str) -> Html:
    """Children one after the other; nothing is left of an empty one."""
    return Html("".join(c if isinstance(c, Html) else escape(visible(c)) for c in children))


def table(head: Sequence[str], rows: Sequence[Sequence[str]], **attributes: str) -> Html:
    """A table; nothing without rows."""
    if not rows:
        return Html("")
    headed = tag("tr", *(tag("th", cell) for cell in head)) if head else Html("")
    lines = [tag("tr", *(tag("td", cell) for cell in row)) for row in rows]
    return tag("table", headed, *lines, **attributes)
