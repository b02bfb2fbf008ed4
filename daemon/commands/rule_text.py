"""Rules as their owner writes them: two plain forms, the typed form, or a model's reading (F5)."""

import calendar
import json
import re
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from daemon.core import value
from daemon.core.quoted import normalize
from daemon.core.trust import Decision, Effect
from daemon.settings.dotted_keys import suggest
from daemon.tools.policy.rules import EFFECT_TEXT, RuleMatcher
from daemon.tools.stemming import list_stems, list_synonyms, split_words, stem, word_set

MAX_CHARS, MAX_LISTED = 300, 6
STRICTER_ONLY = "A rule can only make me ask more, never less."
RULE_FORMS = """A rule has one of these forms:
  never ACTION TARGET: never delete mail; never send mail to bob@example.com
  ask before ACTION TARGET: ask before deleting mail; ask before writing to reports/
  never run git push in this chat
  never use TOOL; never use the server NAME
  ask effect=destructive about=mail; deny effect=write path=reports/*; deny tool=shell
Actions: delete, send, post, share, pay, write, change, run, visit, read, use, cancel ..."""
INSTRUCTIONS = """Translate the owner's rule into one JSON object, and answer with it alone.
"action": "ask" (a person is asked first) or "deny" (never).
"effects": what the calls do, of "read", "fetch", "write", "egress" (sends out), "destructive".
"verbs": English verbs that name the action (delete, send ...).
"about": English nouns that it concerns, [] for anything. "paths": file patterns.
"values": addresses, hosts, handles. "commands": command lines.
"above": an amount of money or null. "here": true if it holds for this chat only.
If the text is no such rule, loosens something, or has an exception or a condition,
answer {"problem": "why, in one sentence"}."""
ADDRESS = re.compile(
    r"[^\s@]+@[^\s@]+\.[^\s@]+|[@#][\w.-]+|\+\d[\d-]{6,}|[A-Z]{2}\d{2}[A-Z0-9]{10,}"
)
HOST = re.compile(
    r"https?://\S+|(?:[a-z0-9-]+\.)+[a-z]{2,}(?::\d+)?|\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?", re.I
)
PATH = re.compile(
    r".*[/*].*|[~.].*|.+\.(?:txt|md|pdf|docx?|xlsx?|csv|json|ya?ml|toml|ini|cfg|conf|py|sh|js|ts"
    r"|html?|log|db|sqlite|env|zip|tar|gz|png|jpe?g|key|pem)",
    re.I,
)
SCOPE = re.compile(r"[,\s]+(?:in this (?:chat|conversation|session)|here)(?=[\s.!]|$)", re.I)
PLAIN = re.compile(
    r"(?:please )?(?P<how>never|do not|don't|(?:always )?ask(?: me)? before)(?: you)? (?P<what>.+?)"
    r"(?P<asking> without (?:asking|my (?:approval|permission))(?: me)?(?: first)?)?",
    re.I,
)
TYPED = re.compile(r"(ask|deny)((?:\s+\w+=\S+)+)", re.I)
KEYS = ("effect", "about", "path", "to", "amount", "command", "tool")
FILLERS = word_set(
    "my the a an any all every each of your our this that these those some to in on at with into"
    " under from for by or and , / & anything everything something anywhere anyone anybody someone"
    " everybody"
)
DATES = "|".join(f"{name}s?" for name in (*calendar.day_name, *calendar.month_name) if name)
CONDITIONS = re.compile(
    rf"(?i)(?<!\S)(?:(?:on|in) )?({DATES})(?!\S)"
    r"|(?<!\S)(unless|over|above|except|but|if|when|whenever|while|during|until|till|since|after"
    r"|before|because|without"
    r"|where|who|which|than|per|times|today|tomorrow|weekends?|weekly|daily|nights?"
    r"|[$€£]?\d+(?:[.,]\d+)?k?)(?!\S)"
)
OTHER_VERBS = (
    "archive cancel book reserve schedule accept decline approve merge deploy restart push close"
    " sign install upgrade disable enable unlock subscribe unsubscribe follow like comment restore"
    " mute kick ban confirm"
)
FAMILIES = (
    (
        "delete remove erase trash purge wipe clear destroy drop discard unlink empty shred",
        "destructive",
        "",
    ),
    ("pay spend buy purchase donate transfer order", "egress destructive", "money"),
    (
        "send forward reply respond publish share upload submit announce notify invite post",
        "egress",
        "",
    ),
    ("email mail", "egress", "mail"),
    ("message text", "egress", "message"),
    ("call phone", "egress", "call"),
    (
        "write edit change modify update overwrite save create rename move copy append replace add",
        "write destructive",
        "",
    ),
    ("run execute start", "destructive", "command"),
    ("fetch visit browse download", "fetch egress", ""),
    ("read open view search look list", "read fetch", ""),
    ("touch", "write egress destructive", ""),
    ("use access do", "read fetch write egress destructive", ""),
    *((verb, "", "") for verb in OTHER_VERBS.split()),
)
USING = ("use", "call")  # verbs whose object may be a tool
JOINTS = ("or", "and", ",", "/")
GENERAL = word_set(
    "file files folder folders directory directories command commands shell program script"
    " scripts code"
)


@value
class ParsedRule:
    """A rule as it was read; `here`: for this chat only."""

    guard: RuleMatcher
    here: bool = False


def parse_rule(sentence: str, tools: Collection[str] = ()) -> ParsedRule | str:
    """The rule that a text in one of the forms asks for; else why there is none, and the forms.
    `tools`: names of those that there are.
    """
    text = normalize("NFKC", sentence).replace("\u2019", "'").strip()
    try:
        if not text or len(text) > MAX_CHARS:
            raise ValueError(f"A rule is one sentence of at most {MAX_CHARS} characters.")
        plain = SCOPE.sub("", text)
        rule = _parse_typed(plain, tools) or _parse_plain(plain.rstrip(" .!"), tools)
        return ParsedRule(rule, plain != text)
    except ValueError as error:
        return f"{error}\n{RULE_FORMS}"


def parse_model_rule(reply: str) -> ParsedRule | str:
    """The rule in a model's reply to INSTRUCTIONS."""
    try:
        found = json.loads(reply[reply.index("{") : reply.rindex("}") + 1])
        if problem := found.pop("problem", ""):
            return f"{problem}\n{RULE_FORMS}"
        here = bool(found.pop("here", False))
        guard = RuleMatcher.model_validate(found)
        if guard.action is Decision.ALLOW or not (guard.effects or guard.verbs):
            raise ValueError(STRICTER_ONLY)
        families = [_family(verb) or (verb, "", "") for verb in guard.verbs]
        verbs = " ".join(words for words, _, _ in families).split()
        effects = {Effect(name) for _, names, _ in families for name in names.split()}
        guard = guard.model_copy(
            update={
                "verbs": tuple(dict.fromkeys(verbs)),
                "effects": guard.effects | effects,
                "about": tuple(map(str.lower, guard.about)),
                "values": tuple(map(normalize_value, guard.values)),
            }
        )
        return ParsedRule(guard, here)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        return f"The model's reading is not a rule ({error}).\n{RULE_FORMS}"


def _parse_plain(text: str, tools: Collection[str]) -> RuleMatcher:
    found = PLAIN.fullmatch(text)
    if found is None:
        raise ValueError(
            f"I could not read that: in English, it must say never, or ask before. {STRICTER_ONLY}"
        )
    verb, *words = re.findall(r"[^\s,]+|,", found["what"].replace('"', ""))
    family = _family(verb)
    if family is None:
        raise ValueError(
            STRICTER_ONLY if verb.lower() == "ask" else f"I do not know the action {verb!r}."
        )
    asks = found["asking"] or found["how"].lower().endswith("before")
    action = Decision.ASK if asks else Decision.DENY
    if (condition := CONDITIONS.search(" ".join(words))) or re.search(r"[.!?;] ", text):
        why = f" ({condition[0]!r})" if condition else ""
        near = (
            f" The nearest: {action.value} effect={','.join(family[1].split())}."
            if family[1]
            else ""
        )
        raise ValueError(
            f"A rule is one sentence without condition, amount or exception{why}.{near}"
        )
    for at, joint in enumerate(words[:-1]):
        if joint in JOINTS and _family(words[at + 1]) and (at == 0 or words[at + 2 :]):
            raise ValueError("That forbids two things. Add one rule for each.")
    verbs, effects, noun = family
    names = [word for word in words if word.lower() not in FILLERS]
    if stem(verb) in USING and (exact := _find_tools(names, tools)):
        return RuleMatcher(action=action, effects=frozenset(Effect), tools=exact)
    values, paths, about = list[str](), list[str](), list[str]()
    for word in names:
        is_path = PATH.fullmatch(word)
        if ADDRESS.fullmatch(word) or (HOST.fullmatch(word) and ("//" in word or not is_path)):
            values.append(normalize_value(word))
        elif is_path:
            paths.append(word)
        else:
            about += map(str.lower, split_words(word))
    commands: tuple[str, ...] = ()
    if noun == "command":
        line = " ".join(word for word in about if word not in GENERAL)
        about, commands = [], (line,) if line else ()
    elif paths:
        about = [word for word in about if word not in GENERAL]
    return RuleMatcher(
        action=action,
        effects=frozenset(map(Effect, effects.split())),
        verbs=tuple(verbs.split()),
        about=tuple(dict.fromkeys([*about, *noun.split()])),
        paths=tuple(paths),
        values=tuple(values),
        commands=commands,
    )


def _find_tools(names: Sequence[str], tools: Collection[str]) -> tuple[str, ...]:
    """The tool, or the tools of the server, that is called by its own name; () for other words."""
    plain = [name for name in names if stem(name) not in (stem("tool"), stem("server"))]
    if len(plain) != 1:
        return ()
    [name] = plain
    own = [one for one in tools if one.startswith(f"{name}__")]
    others = [one for one in tools if one not in own and stem(name) in list_stems(one)]
    if own and (len(names) > 1 or not others):
        return (f"{name}__*",)
    if name in tools:
        return (name,)
    if "__" in name or len(names) > 1:
        raise ValueError(f"There is no tool or server {name!r} now{suggest(name, tools)}.")
    return ()


def _family(verb: str) -> tuple[str, str, str] | None:
    root = stem(verb)
    return next((row for row in FAMILIES if root in map(stem, row[0].split())), None)


def normalize_value(word: str) -> str:
    """The form in which it is searched for: of a web address its host."""
    if ADDRESS.fullmatch(word):
        return word
    host = urlsplit(word if "//" in word else f"//{word}").hostname or word
    return host.removeprefix("www.").rstrip(".")


def _parse_typed(text: str, tools: Collection[str]) -> RuleMatcher | None:
    match = TYPED.fullmatch(text)
    if match is None:
        return None
    given: dict[str, tuple[str, ...]] = {}
    for part in match[2].split():
        key, _, value = part.partition("=")
        if key.lower() not in KEYS:
            raise ValueError(f"There is no {key!r} in a rule; there are: {', '.join(KEYS)}.")
        given[key.lower()] = tuple(one for one in value.split(",") if one)
    effects = {name.lower() for name in given.get("effect", ())}
    if unknown := effects.difference(Effect):
        raise ValueError(f"There is no effect {unknown.pop()!r}; there are: {', '.join(Effect)}.")
    for name in given.get("tool", ()):
        if not any(fnmatchcase(one, name) for one in tools):
            raise ValueError(f"There is no tool {name!r} now{suggest(name, tools)}.")
    amount = given.get("amount")
    if amount is not None and not (amount and re.fullmatch(r"\d+(\.\d+)?", amount[0])):
        raise ValueError("An amount is a number: amount=50.")
    return RuleMatcher(
        action=Decision(match[1].lower()),
        effects=frozenset(map(Effect, effects)) or frozenset(Effect),
        about=tuple(word.lower() for word in given.get("about", ())),
        paths=given.get("path", ()),
        values=tuple(map(normalize_value, given.get("to", ()))),
        commands=given.get("command", ()),
        above=float(amount[0]) if amount else None,
        tools=given.get("tool", ()),
    )


def describe_rule(rule: RuleMatcher) -> str:
    """`ask before every call that sends something out, about mail (mailbox, inbox ...)`."""
    effects = [] if rule.effects == set(Effect) else [one for one in Effect if one in rule.effects]
    does = [EFFECT_TEXT[effect] for effect in effects]
    if rule.verbs:
        does.append(f"is named {_join_some(rule.verbs)}")
    synonyms = {other for word in rule.about for other in list_synonyms(word)}
    also = f" ({_join_some(sorted(synonyms.difference(rule.about)))} count too)" if synonyms else ""
    text = "ask before every call" if rule.action is Decision.ASK else "refuse every call"
    text += f" of {' or '.join(rule.tools)}" if rule.tools else ""
    text += f" that {' or '.join(does)}" if does else ""
    for words, prefix, suffix in (
        (rule.about, "about", also),
        (rule.values, "with", " in its arguments"),
        (rule.paths, "at or under", ""),
        (rule.commands, "with the words", ""),
    ):
        text += f", {prefix} {' or '.join(words)}{suffix}" if words else ""
    if rule.above is not None:
        text += f", of more than {rule.above:g}, or of an amount that I cannot tell"
    return text


def _join_some(words: Sequence[str]) -> str:
    return ", ".join(words[:MAX_LISTED]) + (" ..." if len(words) > MAX_LISTED else "")
