"""What a tool's result may stand for: its effect first, the words of its name and its exit code as help (F6).

Lenient by intent: whatever might have done it, has done it.
"""

import json
import re
from collections.abc import Mapping
from contextlib import suppress

from daemon.agent.claims.words import Kind
from daemon.core.events import ToolFinished
from daemon.core.messages import ToolCall
from daemon.core.trust import Effect

ALL = frozenset(Kind)
NONE: frozenset[Kind] = frozenset()
INSIDE = frozenset(
    (
        Kind.DELETED,
        Kind.CANCELLED,
        Kind.SCHEDULED,
        Kind.SAVED,
        Kind.CREATED,
        Kind.CHANGED,
        Kind.REMEMBERED,
    )
)
BY_EFFECT: Mapping[Effect, frozenset[Kind]] = {
    Effect.READ: NONE,
    Effect.FETCH: NONE,
    Effect.WRITE: INSIDE,
    Effect.EGRESS: ALL - {Kind.RAN, Kind.PASSED, Kind.INSTALLED},
    Effect.DESTRUCTIVE: ALL,
}
TELLS = frozenset((Kind.SENT, Kind.POSTED))
WRITES = frozenset((Kind.SAVED, Kind.CREATED, Kind.CHANGED, Kind.REMEMBERED))
REMOVES = frozenset((Kind.DELETED, Kind.CANCELLED, Kind.CHANGED))
PLANS = INSIDE | {Kind.BOOKED, Kind.SENT}
POSTS = TELLS | WRITES | {Kind.RAN}
PAYS = frozenset((Kind.PAID, Kind.BOOKED, Kind.SENT, Kind.CREATED))
KEEPS = frozenset((Kind.REMEMBERED, Kind.SAVED, Kind.CHANGED))
LISTS = WRITES | {Kind.DELETED, Kind.SCHEDULED}
VERBS: Mapping[str, frozenset[Kind]] = {
    **dict.fromkeys(("send", "reply", "forward", "notify", "dm", "tell"), TELLS),
    **dict.fromkeys(
        ("post", "upload", "publish", "share", "push", "tweet", "submit", "deploy", "merge"), POSTS
    ),
    **dict.fromkeys(
        (
            "delete",
            "remove",
            "trash",
            "erase",
            "unlink",
            "rm",
            "cancel",
            "forget",
            "clear",
            "unsubscribe",
        ),
        REMOVES,
    ),
    **dict.fromkeys(("archive", "move", "rename", "copy", "download", "backup"), WRITES | REMOVES),
    **dict.fromkeys(("schedule", "remind", "reschedule"), PLANS),
    **dict.fromkeys(("write", "edit", "append", "save", "patch", "draft"), WRITES),
    **dict.fromkeys(("remember", "memorize"), KEEPS),
    **dict.fromkeys(("pay", "purchase", "order", "buy", "transfer", "checkout", "refund"), PAYS),
    **dict.fromkeys(("book", "reserve"), PAYS | PLANS),
    **dict.fromkeys(
        ("install", "upgrade", "uninstall"),
        frozenset((Kind.INSTALLED, Kind.CHANGED, Kind.RAN, Kind.DELETED)),
    ),
    "invite": TELLS | PLANS,
    "todo": LISTS,
}
NOUNS: Mapping[str, frozenset[Kind]] = {
    **dict.fromkeys(
        ("mail", "email", "message", "sms", "slack", "telegram"), TELLS | WRITES | REMOVES
    ),
    **dict.fromkeys(
        (
            "calendar",
            "event",
            "reminder",
            "cron",
            "alarm",
            "timer",
            "appointment",
            "meeting",
            "schedules",
        ),
        PLANS,
    ),
    **dict.fromkeys(("memory", "memories", "fact"), KEEPS | {Kind.DELETED}),
    **dict.fromkeys(("todos", "task", "tasks", "list"), LISTS),
}
LOOKS = frozenset(
    (
        "get",
        "list",
        "read",
        "search",
        "find",
        "show",
        "fetch",
        "view",
        "query",
        "lookup",
        "recall",
        "count",
        "check",
    )
)
HELPERS = frozenset(("spawn", "agent", "delegate", "subagent"))
WORD = re.compile(r"[a-z]+|[A-Z][a-z]*")
ONLY_LOOKS = re.compile(
    r"\s*(?:ls|cat|pwd|date|whoami|head|tail|wc|grep|rg|file|stat|du|df|which|uname|id|env|printenv|hostname|echo|tree|diff"
    r"|git (?:status|log|diff|show|blame))\b[^|;&<>`$\n]*"
)
GOOD_NEWS = re.compile(r"\b(?:pass\w*|ok|green|succe\w+|0 fail\w*)\b", re.IGNORECASE)


def proves(kind: Kind, result: ToolFinished, call: ToolCall) -> bool:
    """This result may be what a claim of that kind is about. An unknown outcome never is."""
    if result.exit_code is not None and kind is Kind.RAN:
        return True
    if result.outcome.value != "ok" or result.exit_code not in (None, 0):
        return False
    if kind is Kind.PASSED:
        looked = result.effect in (Effect.READ, Effect.FETCH)
        return Kind.RAN in shown_by(result, call) or (
            looked and bool(GOOD_NEWS.search(result.text))
        )
    return kind in shown_by(result, call)


def shown_by(result: ToolFinished, call: ToolCall) -> frozenset[Kind]:
    """All that a successful result of this tool may stand for."""
    if result.exit_code is not None:
        return frozenset((Kind.RAN,)) if ONLY_LOOKS.fullmatch(_command(call.arguments)) else ALL
    words = [word.casefold() for word in WORD.findall(call.name.rpartition("__")[2])]
    if HELPERS.intersection(words):
        return ALL
    verbs = [VERBS[word] for word in words if word in VERBS]
    if result.effect in (Effect.READ, Effect.FETCH):
        return NONE if LOOKS.intersection(words) else NONE.union(*verbs)
    named = verbs or [NOUNS[word] for word in words if word in NOUNS]
    return NONE.union(*named) if named else BY_EFFECT[result.effect]


def _command(arguments: str) -> str:
    """The command line of a shell call; "" when it cannot be read, which counts as one that does things."""
    with suppress(ValueError, RecursionError, AttributeError, TypeError):
        given = json.loads(arguments)
        return str(given.get("command") or " ".join(given.get("argv") or ()))
    return ""
