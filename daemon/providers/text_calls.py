"""What a model writes into its text where its server does not parse it: what it thought before its
answer, and calls of tools.
"""

import ast
import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from json import JSONDecoder

from daemon.providers.rules import find_offered

# <think>, [THINK], <|thinking|>, <seed:think>: at the beginning of a reply only.
NAMES = "(?:think|thinking|thought|reasoning)"
OPENING = re.compile(rf"\s*[<\[◁]\|?(?:\w+:)?{NAMES}\|?[>\]▷]", re.IGNORECASE)
CLOSING = re.compile(rf"[<\[◁]\|?/(?:\w+:)?{NAMES}\|?[>\]▷]", re.IGNORECASE)
LONGEST_TAG = 40
# gpt-oss: <|channel|>analysis<|message|>thought<|end|><|start|>assistant<|channel|>final<|message|>
FINAL = re.compile(r"<\|channel\|>final<\|message\|>")
TOKEN = re.compile(r"<\|[^|<>]{1,40}\|>")
HELD = "<[{`◁"  # what a text that is not an answer begins with

# What stands around calls: a fence, the tags and tokens of models.
MARK = re.compile(
    r"</?(?:[a-z]+:)?(?:tool|function)_?calls?>|<[|｜][^|｜<>]{1,60}[|｜]>|\[/?TOOL_CALLS\]",
    re.IGNORECASE,
)
AROUND = re.compile(r"\s+|```(?:json|python|tool_call|tool_code)?(?=\s)|```|[,;]")
FUNCTION = re.compile(r"<(?:function|invoke)(?:=|\s+name=)\"?([\w.:-]{1,80})\"?>", re.IGNORECASE)
END_FUNCTION = re.compile(r"\s*</(?:function|invoke)>", re.IGNORECASE)
PARAMETER = re.compile(r"\s*<parameter(?:=|\s+name=)\"?([\w.:-]{1,80})\"?>", re.IGNORECASE)
NAME = re.compile(
    r"(?:function)?(?:<[|｜]tool▁sep[|｜]>)?([A-Za-z_][\w.:-]{0,80})"
    r"(?:\[ARGS\]|<\|[^|<>]{1,40}\|>|\s*```json)?\s*(?=\{)"
)
BARE_NAME = re.compile(r"([A-Za-z_][\w.-]{0,80})\s*(?=<arg_key>)")
NAME_KEYS = ("name", "function", "tool", "tool_name")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "params")
OTHER_KEYS = ("type", "id")
MAX_CHARS = 100_000
DECODER = JSONDecoder(strict=False)

Call = tuple[str, str]


def split_thought(text: str) -> tuple[str, str]:
    """(what the model thought, its answer). A thought stands before the answer, between two tags.
    The first may have been in the prompt; then the second ends its line. One without an end is no
    thought.
    """
    if text.lstrip().startswith("<|") and (final := FINAL.search(text)):
        return text[: final.start()], TOKEN.sub("", text[final.end() :])
    end = at = 0
    while opening := OPENING.match(text, at):
        if not (closing := CLOSING.search(text, opening.end())):
            break
        end = at = _skip_blanks(text, closing.end())
    if not end and (closing := CLOSING.search(text)):
        rest, before = text[closing.end() :], text[: closing.start()]
        if rest.lstrip(" \t")[:1] in ("", "\n") and "`" not in before:
            end = _skip_blanks(text, closing.end())
    return text[:end], text[end:]


def _skip_blanks(text: str, at: int) -> int:
    return len(text) - len(text[at:].lstrip())


def is_unfinished_thought(text: str) -> bool:
    """It begins a thought, and does not end it."""
    _, answer = split_thought(text)
    return OPENING.match(answer) is not None


@dataclass(slots=True)
class VisibleText:
    """The answer while it comes, without what the model thinks before it. What begins like a
    thought or like a call is held back until its end is known.
    """

    _start: str = ""
    _tail: str = ""
    _thinks: bool = False
    _is_plain: bool = False

    def feed(self, text: str) -> str:
        """What can be shown now. Of a thought only so much is kept as may hold its end."""
        if self._is_plain:
            return text
        if self._thinks:
            self._tail += text
            if not (closing := CLOSING.search(self._tail)):
                self._tail = self._tail[-LONGEST_TAG:]
                return ""
            self._thinks, self._start = False, self._tail[closing.end() :]
        elif len(self._start) > LONGEST_TAG:  # it is held to its end
            return ""
        else:
            self._start += text
        start = self._start.lstrip()
        if not start or start[0] not in HELD:
            self._is_plain = bool(start)
            return start
        if opening := OPENING.match(start):
            self._thinks, self._tail, self._start = True, "", ""
            return self.feed(start[opening.end() :])
        return ""


def find_text_calls(text: str, offered: Collection[str]) -> list[Call]:
    """(name, arguments) where the whole text is calls of offered tools and nothing else: as JSON,
    in a fence or in tags, as a function's tags, or as Python; else nothing.
    """
    if not text.strip() or len(text) > MAX_CHARS or not any(name in text for name in offered):
        return []
    names = frozenset(offered)
    return _parse_python(text, names) or _Reader(text, names).read() or []


@dataclass(slots=True)
class _Reader:
    """Reads calls from the beginning of a text; what is no call makes it all no call."""

    text: str
    names: frozenset[str]
    at: int = 0
    marked: bool = False  # a tag or a token of a model stood before
    calls: list[Call] = field(default_factory=list)

    def read(self) -> list[Call]:
        while self.at < len(self.text):
            if mark := MARK.match(self.text, self.at):
                self.at, self.marked = mark.end(), True
            elif around := AROUND.match(self.text, self.at):
                self.at = around.end()
            elif not (self._read_function() or self._read_json() or self._read_named()):
                return []
        return self.calls

    def _add(self, name: object, arguments: object) -> bool:
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments)
            except (ValueError, RecursionError):
                return False
        if not isinstance(name, str) or not isinstance(arguments, dict):
            return False
        if (name := find_offered(name, self.names)) not in self.names:
            return False
        self.calls.append((name, json.dumps(arguments, ensure_ascii=False)))
        return True

    def _decode(self, at: int) -> tuple[object, int] | None:
        try:
            return DECODER.raw_decode(self.text, at)
        except (ValueError, RecursionError):
            return None

    def _read_function(self) -> bool:
        """<function=NAME>{...}</function>, or with a tag for each parameter."""
        if not (opening := FUNCTION.match(self.text, self.at)):
            return False
        at, arguments = opening.end(), dict[str, object]()
        while parameter := PARAMETER.match(self.text, at):
            end = self.text.find("</parameter>", parameter.end())
            if end < 0:
                return False
            arguments[parameter[1]] = _read_value(self.text[parameter.end() : end].strip("\n"))
            at = end + len("</parameter>")
        if not arguments:
            start = len(self.text) - len(self.text[at:].lstrip())
            if decoded := self._decode(start):
                if not isinstance(decoded[0], dict):
                    return False
                arguments, at = decoded
        if not self._add(opening[1], arguments):
            return False
        closing = END_FUNCTION.match(self.text, at)
        self.at = closing.end() if closing else at
        return True

    def _read_json(self) -> bool:
        """An object with a name and arguments, or a list of them. Qwen doubles its braces, as the
        template that taught it does, at times only the first.
        """
        if self.text[self.at] not in "[{":
            return False
        doubled = self.text.startswith("{{", self.at)
        if not (decoded := self._decode(self.at + doubled)):
            return False
        found, end = decoded
        listed = found if isinstance(found, list) and found else [found]
        if not all(self._take_object(one) for one in listed):
            return False
        self.at = end + (doubled and self.text.startswith("}", end))
        return True

    def _take_object(self, found: object) -> bool:
        if not isinstance(found, dict):
            return False
        if list(found) == ["tool_calls"] and isinstance(listed := found["tool_calls"], list):
            return bool(listed) and all(map(self._take_object, listed))
        inner = found.get("function")
        if isinstance(inner, dict):
            return set(found) <= {"function", *OTHER_KEYS} and self._take_object(inner)
        named = [key for key in NAME_KEYS if isinstance(found.get(key), str)]
        given = [key for key in ARGUMENT_KEYS if key in found]
        if len(named) != 1 or len(given) > 1:
            return False
        if not set(found) <= {*named, *given, *OTHER_KEYS}:
            return False
        return self._add(found[named[0]], found[given[0]] if given else {})

    def _read_named(self) -> bool:
        """Behind a mark: NAME{...} and NAME[ARGS]{...}, or with a tag for each key and value."""
        if not self.marked:
            return False
        if named := NAME.match(self.text, self.at):
            decoded = self._decode(named.end())
            if decoded and self._add(named[1], decoded[0]):
                self.at = decoded[1]
                return True
        elif named := BARE_NAME.match(self.text, self.at):
            at, arguments = named.end(), dict[str, object]()
            while pair := _read_pair(self.text, at):
                key, written, at = pair
                arguments[key] = _read_value(written)
            if self._add(named[1], arguments):
                self.at = at
                return True
        return False


def _read_pair(text: str, at: int) -> tuple[str, str, int] | None:
    """(key, value, what comes behind) of <arg_key>key</arg_key><arg_value>value</arg_value>."""
    found: list[str] = []
    for tag in ("arg_key", "arg_value"):
        at, opening, closing = _skip_blanks(text, at), f"<{tag}>", f"</{tag}>"
        end = text.find(closing, at)
        if not text.startswith(opening, at) or end < 0:
            return None
        found.append(text[at + len(opening) : end].strip("\n"))
        at = end + len(closing)
    return found[0].strip(), found[1], at


def _read_value(text: str) -> object:
    """A number, a list or an object where it is one, else the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _parse_python(text: str, names: frozenset[str]) -> list[Call]:
    """NAME(key="value"), or a list of them, in a fence or behind a token."""
    code = MARK.sub("", text).strip()
    lines = code.splitlines()
    if len(lines) > 2 and lines[0].startswith("```") and lines[-1].strip() == "```":
        code = "\n".join(lines[1:-1]).strip()
    if not code.endswith((")", ")]")):
        return []
    try:
        tree = ast.parse(code, mode="eval").body
        nodes = tree.elts if isinstance(tree, ast.List) else [tree]
        return list(_read_nodes(nodes, names))
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return []


def _read_nodes(nodes: list[ast.expr], names: frozenset[str]) -> Iterator[Call]:
    """Raises ValueError for what is no plain call of a tool."""
    for node in nodes:
        if not isinstance(node, ast.Call) or node.args or not isinstance(node.func, ast.Name):
            raise ValueError(node)
        arguments = {str(one.arg): ast.literal_eval(one.value) for one in node.keywords if one.arg}
        if node.func.id not in names or len(arguments) != len(node.keywords):
            raise ValueError(node.func.id)
        yield node.func.id, json.dumps(arguments, ensure_ascii=False)
