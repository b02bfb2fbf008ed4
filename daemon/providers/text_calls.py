"""What a model writes into its text where its server does not parse it: what it thought before its
answer, and calls of tools.
"""

import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import islice

from daemon.providers.rules import find_offered
from daemon.providers.text_values import read_python, read_value

# <think>, [THINK], <|thinking|>, <seed:think>: at the beginning of a reply only.
NAMES = "(?:think|thinking|thought|reasoning)"
OPENING = re.compile(rf"\s*[<\[◁]\|?(?:\w+:)?{NAMES}\|?[>\]▷]", re.IGNORECASE)
CLOSING = re.compile(rf"[<\[◁]\|?/(?:\w+:)?{NAMES}\|?[>\]▷]", re.IGNORECASE)
LONGEST_TAG = 40
# gpt-oss: <|channel|>analysis<|message|>thought<|end|><|start|>assistant<|channel|>final<|message|>
FINAL = re.compile(r"<\|channel\|>final<\|message\|>")
TOLD = re.compile(r"<\|(?:channel|start)\|>\w+\s+to=")
TOKEN = re.compile(r"<\|[^|<>]{1,40}\|>")
HELD = "<[{`◁"  # what a text that is not an answer begins with

# What stands around calls: a fence, the tags and tokens of models, ReAct's headings.
TOKEN_MARK = r"<[|｜]/?[^|｜<>]{1,60}[|｜]?>|<\w{1,40}[|｜]>|</?(?:start|end)_function_call>"
MARK = re.compile(
    rf"</?(?:tools?|functions?)(?:_?(?:calls?|use|code))?>|{TOKEN_MARK}|\[/?TOOL_CALLS\]"
    r"|^functools(?=\[)|function(?=<[|｜])|^Action(?: Input)?:|^call:(?=[\w.:-]{1,80}\{)",
    re.IGNORECASE | re.MULTILINE,
)
# A model that goes on by itself makes up what its call gives.
MADE_UP = re.compile(
    r"<[|｜]?(?:tool|function)[_▁](?:response|result|output)s?|^Observation:",
    re.IGNORECASE | re.MULTILINE,
)
AROUND = re.compile(r"\s+|```\w*(?=\s)|```|[,;]")
FUNCTION = re.compile(r"<(?:function|invoke)(?:=|\s+name=)\"?([\w.:-]{1,80})\"?>", re.IGNORECASE)
# DeepSeek's <｜DSML｜invoke name=, MiniMax' <minimax:tool_call>
PREFIX = re.compile(
    r"(</?)(?:[|｜]\w{1,20}[|｜]|[a-z]\w{0,20}:)(?=(?:invoke|parameter|function|tool))",
    re.IGNORECASE,
)
QUOTED = re.compile(r"<\|\"\|>(.*?)<\|\"\|>|<escape>(.*?)<escape>", re.DOTALL)  # Gemma's quotes
START = re.compile(f"{MARK.pattern}|{FUNCTION.pattern}", re.IGNORECASE | re.MULTILINE)
CODE_LINE = re.compile(r" {0,3}>| {4}|\t")  # the beginning of a quoted line, or of one of code
MAX_STARTS = 20
END_FUNCTION = re.compile(r"\s*</(?:function|invoke)>", re.IGNORECASE)
PARAMETER = re.compile(
    r"\s*<parameter(?:=|\s+name=)\"?([\w.:-]{1,80})\"?((?:\s[^<>]{0,80})?)>", re.IGNORECASE
)
IS_TEXT = 'string="true"'
# gpt-oss: commentary to=functions.NAME <|constrain|>json<|message|>{
RECIPIENT = re.compile(r"(?:\w+\s+)?to=([\w.:-]{1,80})\s*(?:<\|\w{1,20}\|>[\w\s]{0,40})*(?=\{)")
NAME = re.compile(
    rf"(?:call:)?([A-Za-z_][\w.:-]{{0,80}})(?:\[CALL_ID\]\w{{1,40}})?"
    rf"(?:\[ARGS\]|{TOKEN_MARK}|\s*```json|\s+Action Input:)?\s*(?=\{{)"
)
BARE_NAME = re.compile(r"([A-Za-z_][\w.-]{0,80})\s*(?=<arg_key>)")
NAME_KEYS = ("name", "function", "tool", "tool_name", "action")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "params", "action_input")
OTHER_KEYS = ("type", "id", "tool_call_id")
MAX_CHARS = 100_000

Call = tuple[str, str]


def split_thought(text: str) -> tuple[str, str]:
    """(what the model thought, its answer). A thought stands before the answer, between two tags.
    The first may have been in the prompt; then the second ends its line. One without an end is no
    thought.
    """
    if text.lstrip().startswith("<|") and (final := FINAL.search(text)):
        return text[: final.start()], TOKEN.sub("", text[final.end() :])
    if text.lstrip().startswith("<|") and (told := TOLD.search(text)):
        return text[: told.start()], text[told.start() :]
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


def find_text_calls(text: str, offered: Collection[str]) -> tuple[str, list[Call]]:
    """(what stands before them, calls as name and arguments) where a text ends with calls of
    offered tools: as JSON, in a fence or in tags, as a function's tags, or as Python. Behind other
    words, and outside of a fence, only what a model's own tag or token begins.
    """
    if not text.strip() or len(text) > MAX_CHARS or not any(name in text for name in offered):
        return text, []
    names, whole = frozenset(offered), text
    text = QUOTED.sub(lambda found: json.dumps(found[1] or found[2] or ""), text)
    text = PREFIX.sub(r"\1", text)
    if calls := _Reader(text, names).read():
        return "", calls
    for start in islice(START.finditer(text), MAX_STARTS):
        before, rest = text[: start.start()], text[start.start() :]
        if not _is_code(before) and (calls := _Reader(rest, names).read()):
            return "" if _is_thought(before) else before.strip(), calls
    return whole, []


def _is_code(before: str) -> bool:
    """What comes next stands in an example."""
    line = before[before.rfind("\n") + 1 :]
    in_fence = before.count("`") % 2 or before.count("~~~") % 2
    return bool(in_fence) or CODE_LINE.match(line) is not None


def _is_thought(before: str) -> bool:
    return is_unfinished_thought(before) or before.lstrip().startswith("Thought:")


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
            if self.calls and MADE_UP.match(self.text, self.at):
                break
            if mark := MARK.match(self.text, self.at):
                self.at, self.marked = mark.end(), True
            elif around := AROUND.match(self.text, self.at):
                self.at = around.end()
            elif not any(read() for read in self._ways):
                return []
        return self.calls

    @property
    def _ways(self) -> tuple[Callable[[], bool], ...]:
        return self._read_function, self._read_json, self._read_named, self._read_python

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

    def _read_function(self) -> bool:
        """<function=NAME>{...}</function>, or with a tag for each parameter."""
        if not (opening := FUNCTION.match(self.text, self.at)):
            return False
        at, arguments = opening.end(), dict[str, object]()
        while parameter := PARAMETER.match(self.text, at):
            end = self.text.find("</parameter>", parameter.end())
            if end < 0:
                return False
            given = self.text[parameter.end() : end].strip("\n")
            arguments[parameter[1]] = given if IS_TEXT in parameter[2] else _read_value(given)
            at = end + len("</parameter>")
        if not arguments:
            start = len(self.text) - len(self.text[at:].lstrip())
            if decoded := read_value(self.text, start):
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
        if not (decoded := read_value(self.text, self.at + doubled)):
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
        listed = found.get("tool_calls")
        if isinstance(listed, list) and set(found) <= {"tool_calls", "role", "content"}:
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
        named = RECIPIENT.match(self.text, self.at) or NAME.match(self.text, self.at)
        if named:
            decoded = read_value(self.text, named.end())
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

    def _read_python(self) -> bool:
        """NAME(key="value"), or a list of them."""
        if not (found := read_python(self.text, self.at)):
            return False
        if not all(self._add(name, arguments) for name, arguments in found[0]):
            return False
        self.at = found[1]
        return True


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
