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
OPENING = re.compile(
    r"\s*[<\[◁]\|?(?:\w+:)?(think|thinking|thought|reasoning)\|?[>\]▷]", re.IGNORECASE
)
CLOSING = r"[<\[◁]\|?/(?:\w+:)?{name}\|?[>\]▷]"
ANY_CLOSING = re.compile(CLOSING.format(name="(?:think|thinking|thought|reasoning)"), re.IGNORECASE)
# gpt-oss: <|channel|>analysis<|message|>thought<|end|><|start|>assistant<|channel|>final<|message|>
FINAL = re.compile(r"<\|channel\|>final[^<]*<\|message\|>")
CHANNEL = "<|channel|>"
TOKEN = re.compile(r"<\|[^|<>]{1,40}\|>")
MAX_OPENING = 40
HELD = "<[{`◁"  # what a text that is not an answer begins with

# What stands around calls: tags, special tokens, fences.
AROUND = re.compile(
    r"\s+|```\w*|</?[\w:]*tool_?calls?>|<\|?/?[\w▁|｜]+?[|｜]?>|\[/?\w*TOOL_CALLS\]|[,;]",
    re.IGNORECASE,
)
FUNCTION = re.compile(r"<function(?:=|\s+name=)\"?([\w.:-]+)\"?>", re.IGNORECASE)
END_FUNCTION = re.compile(r"\s*</function>", re.IGNORECASE)
PARAMETER = re.compile(
    r"\s*<parameter(?:=|\s+name=)\"?([\w.:-]+)\"?>\n?(.*?)\n?</parameter>",
    re.IGNORECASE | re.DOTALL,
)
NAME = re.compile(r"([A-Za-z_][\w.:-]*)(?:\s*(?:\[ARGS\]|<\|[^|<>]+\|>))?\s*(?=\{)")
PAIR = re.compile(
    r"\s*<arg_key>\s*(.*?)\s*</arg_key>\s*<arg_value>\n?(.*?)\n?</arg_value>", re.DOTALL
)
BARE_NAME = re.compile(r"([A-Za-z_][\w.-]*)\s*(?=<arg_key>)")
NAME_KEYS = ("name", "function", "tool", "tool_name")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "params")
OTHER_KEYS = ("type", "id")
MAX_CHARS = 100_000
DECODER = JSONDecoder()

Call = tuple[str, str]


def split_thought(text: str) -> tuple[str, str]:
    """(what the model thought, its answer); the thought stands before the answer, and its opening
    tag may have been in the prompt.
    """
    if final := FINAL.search(text):
        return text[: final.start()], TOKEN.sub("", text[final.end() :])
    if opening := OPENING.match(text):
        closing = re.compile(CLOSING.format(name=opening[1]), re.IGNORECASE)
        if closed := closing.search(text, opening.end()):
            thought, answer = text[: closed.end()], text[closed.end() :]
            more, answer = split_thought(answer)
            return thought + more, answer.lstrip()
        return text, ""
    closed = ANY_CLOSING.search(text)
    if closed and not OPENING.search(text, 0, closed.start()) and "`" not in text[: closed.start()]:
        return text[: closed.end()], text[closed.end() :].lstrip()
    return "", text


@dataclass(slots=True)
class VisibleText:
    """The answer while it comes, without what the model thinks before it. What begins like a
    thought or like a call is held back until its end is known.
    """

    _held: str = ""
    _is_plain: bool = False

    def feed(self, text: str) -> str:
        """What can be shown now."""
        if self._is_plain:
            return text
        self._held += text
        start = self._held.lstrip()
        if not start:
            return ""
        if start[0] in HELD:
            if not OPENING.match(start):
                return ""
            _, start = split_thought(self._held)
            if not start or start[0] in HELD:
                return ""
        self._is_plain, self._held = True, ""
        return start


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
    calls: list[Call] = field(default_factory=list)

    def read(self) -> list[Call]:
        while self.at < len(self.text):
            if not (self._read_function() or self._read_json() or self._read_named()):
                if not (around := AROUND.match(self.text, self.at)):
                    return []
                self.at = around.end()
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
            arguments[parameter[1]] = _read_value(parameter[2])
            at = parameter.end()
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
        """An object with a name and arguments, or a list of them."""
        if self.text[self.at] not in "[{" or not (decoded := self._decode(self.at)):
            return False
        found, end = decoded
        listed = found if isinstance(found, list) and found else [found]
        if not all(self._take_object(one) for one in listed):
            return False
        self.at = end
        return True

    def _take_object(self, found: object) -> bool:
        if not isinstance(found, dict):
            return False
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
        """NAME{...} and NAME[ARGS]{...}, or with a tag for each key and value."""
        if named := NAME.match(self.text, self.at):
            decoded = self._decode(named.end())
            if decoded and self._add(named[1], decoded[0]):
                self.at = decoded[1]
                return True
        elif named := BARE_NAME.match(self.text, self.at):
            at, arguments = named.end(), dict[str, object]()
            while pair := PAIR.match(self.text, at):
                arguments[pair[1]] = _read_value(pair[2])
                at = pair.end()
            if self._add(named[1], arguments):
                self.at = at
                return True
        return False


def _read_value(text: str) -> object:
    """A number, a list or an object where it is one, else the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _parse_python(text: str, names: frozenset[str]) -> list[Call]:
    """NAME(key="value"), or a list of them, in a fence or behind a token."""
    code = text.strip().removeprefix("<|python_tag|>").removesuffix("<|eom_id|>").strip()
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
