"""How people read a message in Slack: what it shows of the text, and its buttons."""

import re

from tests.fakes.slack.workspace import Json

CODE = re.compile(r"(```.*?```|`[^`\n]+`)", re.DOTALL)
LINK = re.compile(r"<(?:https?:|mailto:)([^<>|]*)(?:\|([^<>]*))?>")
STYLED = re.compile(r"(?<!\w)([*_~])(\S(?:[^\n]*?\S)?)\1(?!\w)")


def read(message: Json) -> tuple[str, list[tuple[str, str]]]:
    """(markup, [(label, data) of each button]): blocks, where there are any, hide the text."""
    blocks = message.get("blocks") or []
    sections = [block["text"]["text"] for block in blocks if block["type"] == "section"]
    elements = [
        element for block in blocks if block["type"] == "actions" for element in block["elements"]
    ]
    markup = "\n".join(sections) if blocks else message.get("text", "")
    return markup, [(element["text"]["text"], element.get("value", "")) for element in elements]


def shown_text(markup: str) -> str:
    """Without the signs of mrkdwn."""
    parts = CODE.split(markup)
    parts[::2] = [_plain(part) for part in parts[::2]]
    parts[1::2] = [part.strip("`") for part in parts[1::2]]
    return "".join(parts).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _plain(part: str) -> str:
    linked = LINK.sub(lambda match: match[2] or match[0][1:-1].partition("|")[0], part)
    for _ in range(3):
        linked = STYLED.sub(r"\2", linked)
    return linked
