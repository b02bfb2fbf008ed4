"""What goes to a model and what comes back, in no provider's dialect; what a tool sends to others.

How much a message is worth remembering, from 0 to 1 (A1).
"""

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache

from daemon.core import value
from daemon.core.clock import show_time
from daemon.core.ids import is_mail_session
from daemon.core.rows import OutboxRow
from daemon.core.trust import Label


class MessageRole(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@value
class ToolCall:
    """A call as the model wrote it. `provider_id` is only echoed back: some servers use the same
    one every time.
    """

    provider_id: str
    name: str
    arguments: str


@value
class Native:
    """A reply in its provider's own form, as JSON, kept so that it can be sent back unchanged:
    thinking blocks with their signatures, reasoning items. It means something only to the same
    `provider` and `model`.
    """

    provider: str
    model: str
    blocks: str


@value
class Picture:
    """A picture beside a text. `path`: as tools call it; `data`: in base64, "" until a model is
    asked.
    """

    path: str
    mime: str
    data: str = ""


@value
class Message:
    """One entry of a conversation. A TOOL message answers the call with the same `provider_id` just
    before it.

    `native` is what the provider itself sent for this very message; whoever changes the message
    drops it.
    """

    role: MessageRole
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    provider_id: str = ""
    is_error: bool = False
    label: Label = Label.TRUSTED
    native: Native | None = None
    pictures: tuple[Picture, ...] = ()


@value
class ToldFile:
    """How the model hears of one file: `chars` of what it says, pictures, what is said in it."""

    line: str
    chars: int = 0
    pictures: tuple[Picture, ...] = ()
    heard: str = ""


@value
class FetchedFiles:
    """The files of a message, as the model is told of them. `says`: what they say is told, too, and
    that is nobody's order; `heard`: what is said in recordings.
    """

    text: str = ""
    says: bool = False
    pictures: tuple[Picture, ...] = ()
    heard: str = ""


@value
class ToolSpec:
    """A tool as the model is shown it; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, object]


@value
class Usage:
    """Tokens of one call, and its price in USD; None means the price is unknown, never free."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float | None = None
    estimated: bool = False


CountUsage = Callable[[Usage | None], Awaitable[None]]
Reserve = Callable[[str, str, str, Usage], AbstractAsyncContextManager[CountUsage]]
"""Sets aside what a request of a session may cost, by the service's name and its model. What it
gives counts what that did cost; None: as much as was set aside. Raises BudgetExceeded.
"""


@value
class ModelRequest:
    """Everything one model call needs. `tools_allowed` false keeps the list but forbids its use
    (tool choice none). `without`: what the provider does not put into its request.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tools_allowed: bool = True
    max_tokens: int | None = None
    effort: str | None = None
    seed: int | None = None
    without: frozenset[str] = frozenset()


@value
class ModelReply:
    """What the model said, and what it cost. `finish`: the server's word for why it stopped;
    `recovered`: its calls stood in the text, as its server does not parse them.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    provider: str = ""
    model: str = ""
    finish: str = ""
    native: Native | None = None
    recovered: bool = False


@value
class RequestAdapted:
    """A server refused a request, and it is asked again without what it may have meant (A7). An
    event. `parameters` and `tools` are left out; `history`: "" as it is, "plain" as words without
    calls, "last" the latest message only.
    """

    provider: str
    model: str
    message: str
    parameters: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    history: str = ""


PICTURE_TOKENS = 1600  # of a picture that is as large as models take them
# Left out of a request: the model does not see pictures.
UNSEEN = "pictures"


def describe_unseen(message: Message) -> str:
    """Its text, for a model that does not see pictures."""
    count = len(message.pictures)
    what = "A picture is" if count == 1 else f"{count} pictures are"
    note = f"[{what} not shown: you do not see pictures. Say so if it matters.]"
    return f"{message.text}\n{note}" if count else message.text


# The embedded model says of its own reply that it only tells what it will do.
UNFINISHED = "unfinished"
CUT_WORDS = re.compile(r"length|limit|max|window", re.IGNORECASE)
FILTER_WORDS = re.compile(
    r"filter|safety|sensitive|prohibited|block|recitation|spii|refusal|guardrail|armor",
    re.IGNORECASE,
)


def is_cut(finish: str) -> bool:
    """By whatever a server calls it, the reply ends at a limit: "length", "MAX_TOKENS"."""
    return CUT_WORDS.search(finish) is not None


def is_filtered(finish: str) -> bool:
    """A filter of the server's ends the reply: "content_filter", "SAFETY", "refusal"."""
    return FILTER_WORDS.search(finish) is not None


BASE = {
    MessageRole.USER: 0.5,
    MessageRole.ASSISTANT: 0.5,
    MessageRole.TOOL: 0.3,
    MessageRole.SYSTEM: 0.1,
}
WORD = re.compile(r"\w+|[,.:;!?]")
# As WORD finds them, with a blank between two: no phrase crosses the end of a sentence.
REMEMBER = (
    "remember", "don t forget", "dont forget", "keep in mind", "note that", "important", "always",
    "never",
)  # fmt: skip
DECIDE = (
    "decide", "decided", "decision", "we ll go with", "we will go with", "let s go with",
    "lets go with", "agreed", "chose", "choose",
)  # fmt: skip
CORRECT = "actually", "no ,", "wrong", "incorrect", "correction", "i meant", "instead"
CUES = tuple(
    (weight, tuple(f" {phrase} " for phrase in phrases))
    for weight, phrases in ((0.3, REMEMBER), (0.2, DECIDE), (0.2, CORRECT))
)
ACKNOWLEDGEMENT = re.compile(
    r"\W*(ok(ay)?|thanks?|thank you|thx|yes|no|yep|nope|sure|great|cool|nice|got it"
    r"|hi|hello|hey|bye|good)\W*",
    re.IGNORECASE,
)
LONG_TEXT = 500


def score_importance(role: MessageRole, text: str) -> float:
    """The role's base, raised by what asks to be kept, lowered for a mere acknowledgement. Cues
    count in the first 500 signs.
    """
    if ACKNOWLEDGEMENT.fullmatch(text):
        return round(BASE[role] * 0.4, 2)
    words = f" {' '.join(WORD.findall(text[:LONG_TEXT].lower()))} "
    cues = [weight for weight, phrases in CUES if any(map(words.__contains__, phrases))]
    score = BASE[role] + sum(cues)
    score += 0.1 if len(text) > LONG_TEXT or "```" in text else 0.0
    return round(min(score, 1.0), 2)


@value
class MessageQueued:
    """A call has a message for others than the owner, which leaves when it is `due` (F8). An event:
    it is on disk with the call's result, or neither is.

    `kind`, `channel`, `chat` and `body` are those of its delivery.
    """

    call_id: str
    kind: str
    channel: str
    chat: str
    body: str
    due: datetime


MAIL = "mail"


def build_mail(head: Mapping[str, str | Sequence[str]], text: str) -> str:
    """The body of a delivery of this kind. `head`: to, cc, subject, id (of the mail that is
    answered) and references.
    """
    return json.dumps({"head": head, "text": text}, ensure_ascii=False, sort_keys=True)


def parse_mail(body: str) -> tuple[dict[str, object], str]:
    """(head, text); nothing of one whose text was removed."""
    found = json.loads(body) if body else {"head": {}, "text": ""}
    return found["head"], found["text"]


def describe_message(row: OutboxRow, *, with_subject: bool = True) -> str:
    """Such as: mail to ann@example.com, "Lunch"."""
    head = parse_mail(row.body)[0] if row.kind == MAIL else {}
    named = [found for key in ("to", "cc") if isinstance(found := head.get(key), list)]
    people = [str(one) for found in named for one in found] or [row.chat.partition(":")[0]]
    subject = f', "{head["subject"]}"' if with_subject and head.get("subject") else ""
    return f"{row.kind} to {', '.join(people)}{subject}"


def describe_outgoing(row: OutboxRow) -> str:
    """The message, and how far it is."""
    states = {
        "held": f"held, leaves at {show_time(row.due, '%H:%M')}" if row.due else "held",
        "withdrawn": "withdrawn; it was not sent",
        "sent": "it has left; nothing can take it back",
        "failed": f"not sent: {row.error}",
    }
    return f"{describe_message(row)}: {states.get(row.state, 'it is on its way already')}"


FAILURES_SHOWN = timedelta(days=1)


def describe_failures(failed: Sequence[OutboxRow], *, public: bool = False) -> str:
    """What was not delivered, given latest first, in a line; "" for nothing. `public`: for anybody,
    so without people and the words of a mail server.
    """
    if not failed:
        return ""
    latest, count = failed[0], len(failed)
    number = "1 message was not delivered" if count == 1 else f"{count} messages were not delivered"
    what = latest.kind if public else describe_message(latest, with_subject=False)
    is_hidden = public and (latest.kind == MAIL or is_mail_session(latest.session))
    why = "/status says why" if is_hidden else latest.error
    return f"{number}; the latest: {what} on {latest.channel}: {why}"


IMAGE = re.compile(r"!\[")
ADDRESSED = re.compile(r"\]\s*[(\[]")  # without it, or a definition, "![" begins no image
TAGS = (
    "img|picture|source|svg|image|iframe|video|audio|embed|object|link|style|input|base|meta|script"
)
PLAIN_LINK = r"a\s+href=(?:\"[^\"<>]*\"|'[^'<>]*')\s*>"
TAG = re.compile(rf"<(?=/?(?:{TAGS})\b|(?!{PLAIN_LINK})[a-z][^\s>/<]*[\s/][^<]*?=)", re.IGNORECASE)
"""Elements that load something, and all with an attribute but plain links."""
CODE = re.compile(
    r"^(?P<fence>(?P<mark>[`~])(?P=mark){2,}+)[\w .+#-]*\n(?:.*\n)*?"
    r" {0,3}(?P=fence)(?P=mark)*[ \t]*$"
    r"|(?<![`\\])(?P<tick>``?+)[^`|\n](?:[^|\n]*?[^`|\n])??(?P=tick)(?!`)"
    r"|(?P<doubt>[`$\r\v\f\x85\u2028\u2029]|~~~|<[a-z/!?]|\]\((?![^`\n()<>\"']*\)))",
    re.IGNORECASE | re.MULTILINE,
)
"""A fence at the left edge, or a span within one line, which are code for every client; or what may
make clients differ about the text behind it, such as an open span or an element.
"""


LANGUAGE = re.compile(r"^([ \t>*+\d.)-]*(?:`{3,}+(?=[^`\n]*$)|[~:]{3,}+))([^\n]+)", re.MULTILINE)
ADDRESS_SIGNS = re.compile(r"[:/\\&#]")  # no address of another machine is without one of them


def defuse(text: str) -> str:
    """A reply that nothing is loaded from: images are bare, and so are fences that are not code,
    which clients may draw.
    """
    text = defuse_images(text)
    return LANGUAGE.sub(_keep_code, text) if ADDRESS_SIGNS.search(text) else text


def _keep_code(fence: re.Match[str]) -> str:
    word = next(iter(fence[2].split()), "").casefold()
    return fence[0] if word in _list_languages() else fence[1]


@cache
def _list_languages() -> frozenset[str]:
    from pygments.lexers import LEXERS  # lazy: few answers have a fence

    return frozenset(name for row in LEXERS.values() for name in row[2])


def defuse_images(text: str) -> str:
    """A text that nothing is loaded from when it is shown: an image's address could tell a
    stranger what was read. Links stay, which a person must press; so does code, up to the first
    place where clients may differ about what is code.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # each ends a line for all clients
    parts, start = list[str](), 0
    last = max((found.start() for found in ADDRESSED.finditer(text)), default=0)
    end = len(text) if "]:" in text else last  # behind it no image begins
    for code in CODE.finditer(text):
        if code["doubt"]:
            break
        parts += [_defuse_part(text[start : code.start()], max(end - start, 0)), code[0]]
        start = code.end()
    return "".join((*parts, _defuse_part(text[start:], max(end - start, 0))))


def _defuse_part(text: str, end: int) -> str:
    return TAG.sub("&lt;", IMAGE.sub("[image: ", text[:end]) + text[end:])


def drop_lone_surrogates(text: str) -> str:
    """Half a surrogate pair cannot be written down: U+FFFD stands in its place. Two halves that
    belong together become one character.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
