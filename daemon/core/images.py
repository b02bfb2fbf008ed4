"""Replies from which nothing is loaded when they are shown."""

import re

IMAGE = re.compile(r"!\[")
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


def defuse_images(text: str) -> str:
    """A reply that nothing is loaded from when it is shown: an image's address could tell a
    stranger what was read. Links stay, which a person must press; so does code, up to the first
    place where clients may differ about what is code.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # each ends a line for all clients
    parts, start = list[str](), 0
    for code in CODE.finditer(text):
        if code["doubt"]:
            break
        parts += [_defuse_part(text[start : code.start()]), code[0]]
        start = code.end()
    return "".join((*parts, _defuse_part(text[start:])))


def _defuse_part(text: str) -> str:
    return TAG.sub("&lt;", IMAGE.sub("[image: ", text))
