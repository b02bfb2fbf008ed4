"""What people wrote, from Slack's own signs into plain text with markdown links (A14)."""

import re

from channels.slack.shape import Json, maybe, rows

SIGN = re.compile(r"<([^<>\n]+)>")
BANG = re.compile(r"!([A-Za-z][\w-]*)(?=\s|$)")
SCHEME = re.compile(r"^(?:https?://|mailto:|tel:)")


def without_mention(text: str, bot: str) -> str:
    """The text without what addresses the bot."""
    return re.sub(rf"(?<![ \t])[ \t]*<@{re.escape(bot)}(?:\|[^<>]*)?>[:,]?", "", text).strip()  # spaces are looked at once


def mentions(text: str, bot: str) -> bool:
    """The bot is addressed by name."""
    return re.search(rf"<@{re.escape(bot)}(?:\|[^<>]*)?>", text) is not None


def readable(text: str) -> str:
    """Mentions as @names, links as markdown, no escapes."""
    plain = SIGN.sub(lambda match: _sign(match[1]), text)
    return plain.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def as_command(text: str) -> str:
    """Slack keeps words that begin with "/" to itself: "!status" is "/status"."""
    return "/" + text[1:] if BANG.match(text) else text


def passed_on(message: Json) -> str:
    """The words of somebody else's messages that were passed on with this one."""
    shared = [row for row in rows(message, "attachments") if row.get("is_share") or row.get("is_msg_unfurl")]
    return "\n\n".join(readable(words) for row in shared if (words := maybe(row, "text") or maybe(row, "fallback")))


def _sign(inside: str) -> str:
    target, _, label = inside.partition("|")
    match target[:1]:
        case "@":
            return "@" + (label.removeprefix("@") or target[1:])
        case "#":
            return "#" + (label or target[1:])
        case "!":
            return label or "@" + target[1:].partition("^")[0]
        case _:
            return _link(target, label)


def _link(target: str, label: str) -> str:
    bare = SCHEME.sub("", target)
    if not label or label in (target, bare):
        return bare if target.startswith(("mailto:", "tel:")) else target
    return f"[{label}]({target})"
