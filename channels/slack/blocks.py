"""A message as Slack wants it: text, thread, key, and the buttons in Block Kit (A15)."""

from collections.abc import Sequence

from channels.message import Address, Choice, Piece

KEYED = "aidaemon"
"""The type of the metadata that carry a message's key."""
LONGEST_SECTION, LONGEST_LABEL, LONGEST_VALUE, MOST_BUTTONS = 3000, 75, 2000, 25
STYLES = {"good": "primary", "bad": "danger"}


def body(piece: Piece, choices: Sequence[Choice]) -> dict[str, object]:
    """Text and blocks. Blocks hide the text, so with buttons it stands in sections, too; without buttons, earlier ones go."""
    return {"text": piece.text, "blocks": [*_sections(piece.text), _actions(choices)] if choices else []}


def place(address: Address) -> dict[str, object]:
    """Where a message goes."""
    return {"channel": address.chat, **({"thread_ts": address.thread} if address.thread else {})}


def keyed(key: str) -> dict[str, object]:
    """What is kept with a message and seen by programs only: by it a message is found again."""
    return {"event_type": KEYED, "event_payload": {"key": key}}


def _sections(text: str) -> list[dict[str, object]]:
    return [{"type": "section", "text": {"type": "mrkdwn", "text": part}} for part in _cut(text)]


def _cut(text: str) -> list[str]:
    parts: list[str] = []
    while len(text) > LONGEST_SECTION:
        at = max(text.rfind("\n", 1, LONGEST_SECTION), text.rfind(" ", 1, LONGEST_SECTION))
        at = at if at > 0 else LONGEST_SECTION
        parts.append(text[:at])
        text = text[at:].lstrip("\n ")
    return [*parts, text] if text else parts


def _actions(choices: Sequence[Choice]) -> dict[str, object]:
    return {"type": "actions", "elements": [_button(index, choice) for index, choice in enumerate(choices[:MOST_BUTTONS])]}


def _button(index: int, choice: Choice) -> dict[str, object]:
    label = {"type": "plain_text", "text": choice.label[:LONGEST_LABEL] or "…", "emoji": True}
    style = {"style": STYLES[choice.style]} if choice.style in STYLES else {}
    return {"type": "button", "action_id": f"choice_{index}", "text": label, "value": choice.data[:LONGEST_VALUE], **style}
