"""The words by which a model says that it cannot go on, in four languages (D4).

Narrow on purpose: doubt about facts, a question to the user, what depends on something, and other people's words are none of it.
Sentences are compared without case, accents, contractions, and the small words that change nothing.

Low confidence: the model says that it cannot go on, or nearly nothing that it tries works (D4).
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import islice

from daemon.agent.termination.halt import Halt, iterate_replies, iterate_results
from daemon.core.events import Outcome, Stop, ToolFinished
from daemon.core.turn import Turn

QUOTED = re.compile(
    r"""```.*?(?:```|\Z) | `[^`\n]*` | "[^"]*" | “[^”]*” | „[^“”]*[“”] | «[^»]*»
    | (?<!\w)'(?:[^'\n]|(?<=\w)'(?=\w))*'(?!\w)   # in single quotes, with apostrophes inside
    | ^[ \t]*>.*?$""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
EDGE = 4000
GREETING = r"dear|hi|hello|hallo|liebe[rs]?|sehr geehrte[rs]?|bonjour|chere?|hola|estimad[oa]"
LETTER = re.compile(
    rf"^[^\S\n]*(?:{GREETING})\b[^.\n]{{0,40}},[^\S\n]*$", re.MULTILINE | re.IGNORECASE
)
SENTENCE = re.compile(r"(?<=[.!?…])\s+|\n")
CONTRACTED = (
    ("i'm", "i am"), ("don't", "do not"), ("can't", "cannot"), ("can not", "cannot"), ("i've", "i have"), ("i'll", "i will"),
    ("there's", "there is"), ("it's", "it is"), ("isn't", "is not"), ("here's", "here is"), ("i'd", "i would"),
)  # fmt: skip
SMALL_WORDS = re.compile(
    r" (?:really|honestly|still|just|quite|entirely|completely|totally|absolutely|currently|unfortunately|afraid|now|here"
    r"|else|next|any ?more|any further|further|from here|at this point|with (?:this|the|my) task|on this"
    r"|leider|gerade|momentan|wirklich|jetzt|hier|einfach|nun|noch|sonst|damit|mir|als nachstes|mehr"
    r"|vraiment|completement|ici|maintenant|ensuite|de plus|d'autre|toujours"
    r"|realmente|aqui|ahora|completamente|a continuacion|mas|adelante|todavia)\b"
)
END = r"(?= *(?:[.,;:!?…—–-]|$|(?:and|or|but|so|und|oder|aber|et|ou|mais|y|o|pero)\b))"
TO = r"(?:to|i (?:should|can|could))"
ENGLISH = (
    rf"(?:i am (?:not (?:sure|certain|clear)|unsure|uncertain)|i do not know|i no longer know|i have no idea"
    rf"|it is (?:not clear|unclear)|i cannot (?:figure|work|find) out)(?: about| of| to me)? (?:how|what|where) {TO}"
    rf" (?:proceed|move forward|(?:continue|go on|go|do|try){END})",
    rf"i (?:am (?:not sure|unsure)|do not know) what (?:the|my) step (?:should be|is|would be){END}",
    rf"^(?:\w+, )?(?:not sure|unsure|no idea) (?:how|what) to (?:proceed|move forward|(?:continue|go on|do|try){END})",
    rf"i am (?:stuck|at a loss|out of ideas){END}",
    r"i (?:have )?(?:run|ran) out of (?:ideas|options|things to try)|i (?:have )?exhausted (?:all |my |the )*(?:ideas|options)",
    rf"i (?:have )?(?:hit|reached) (?:a dead end|a wall){END}",
    rf"i (?:cannot|am unable to|am not able to) (?:proceed|continue|go on|move forward|get|make (?:any )?progress){END}",
    r"i (?:(?:do not|cannot) see (?:any|a)|see no)(?: other)? way (?:forward|to (?:proceed|continue|go on))",
    rf"there is nothing(?: more)?(?: that)? i can (?:try|do){END}",
    r"i am (?:only )?(?:going|running|moving) (?:around |round )?in circles",
    rf"i give up{END}",
)
GERMAN = (
    r"ich weiss nicht,? wie (?:es|ich) (?:\w+ )?(?:weiter|fortfahr|vorgeh)",
    rf"ich weiss nicht,? was ich (?:tun|machen|versuchen|probieren) (?:soll|kann|konnte){END}",
    r"ich bin (?:nicht sicher|unsicher),? wie (?:es|ich) (?:\w+ )?(?:weiter(?:mach|komm|geh)|fortfahr|vorgeh|verfahr)",
    rf"(?:ich komme|\w+ komme ich) (?:so )?nicht weiter{END}|ich weiss nicht weiter{END}",
    rf"ich stecke fest{END}",
    r"ich bin (?:ratlos|festgefahren|mit meinem latein am ende)",
    r"ich habe keine ideen?(?=[.,!]|$)|mir gehen die ideen aus",
    r"ich (?:drehe|bewege) mich (?:nur )?im kreis",
    rf"ich kann (?:so )?nicht (?:weitermachen|fortfahren){END}",
    rf"ich sehe keinen (?:anderen |weiteren )?weg{END}",
)
FRENCH = (
    rf"je ne (?:sais|vois) (?:pas|plus)(?: trop)? comment (?:proceder|avancer|(?:continuer|poursuivre|faire){END})",
    rf"je ne (?:sais|vois) (?:pas|plus)(?: trop)? quoi (?:faire|essayer|tenter){END}",
    r"je ne suis pas (?:sure?|certaine?) de (?:savoir |comment |la (?:facon|maniere) de )+(?:proceder|continuer|avancer)",
    rf"je (?:suis|reste) (?:bloque|coince)e?{END}",
    r"je suis a court d'idees|je tourne en rond",
    rf"je (?:n'arrive|ne parviens) (?:pas|plus) a (?:avancer|continuer|progresser){END}",
    rf"je ne (?:peux|suis) (?:pas|plus) (?:en mesure de )?(?:continuer|avancer|poursuivre){END}",
)
SPANISH = (
    rf"no (?:se|tengo claro|tengo ni idea de) como (?:proceder|avanzar|(?:continuar|seguir){END})",
    rf"no (?:se|tengo claro|tengo ni idea de) que (?:hacer|intentar|probar){END}",
    rf"no estoy segur[oa] de (?:como (?:proceder|avanzar|(?:continuar|seguir){END})|que (?:hacer|intentar){END})",
    rf"estoy (?:atascad[oa]|bloquead[oa]){END}|estoy dando vueltas en circulo",
    r"me he quedado sin (?:ideas|opciones)|no se me ocurre (?:nada|que)",
    rf"no puedo (?:continuar|seguir|avanzar){END}|no veo (?:la |ninguna )?forma de (?:continuar|seguir|avanzar)",
)
DEPENDS = re.compile(
    r"\b(?:if|when|whenever|in case|until|unless|without|wenn|falls|sobald|ohne|bis|solange"
    r"|si|quand|lorsque|sans|tant que|cuando|sin|hasta|a menos que|mientras)\b"
)
SUPPOSED = re.compile(r" (?:if|in case|when|unless|until|wenn|falls|si|quand|cuando)\b")
SOLVED = re.compile(
    r"(?:,? (?:so|but|therefore)|[;:—–-]) (?:first,? )?(?:i (?:will|am going to|would)|let me|let's|here is)\b"
    r"|,? (?:also|daher|deshalb|aber|und) (?:\w+ )?ich\b|,? (?:donc|alors|mais) je\b|,? (?:asi que|por lo que|pero) voy\b"
)


@lru_cache(maxsize=64)
def find_low_confidence(text: str) -> str:
    """The sentence of a reply that says "I cannot go on"; or "". It stands at the beginning or at the end of a long one."""
    text = text if len(text) <= 2 * EDGE else f"{text[:EDGE]}\n{text[-EDGE:]}"
    for sentence in SENTENCE.split(_own_words(text)):
        plain = _plain(sentence)
        if any(
            _outright(plain, found) for form in _cannot_go_on() if (found := form.search(plain))
        ):
            return " ".join(sentence.split())
    return ""


@cache
def _cannot_go_on() -> tuple[re.Pattern[str], ...]:
    """Read when the first answer is looked at: that many take their time."""
    return tuple(
        re.compile(rf"(?<![\w'])(?:{form})") for form in (*ENGLISH, *GERMAN, *FRENCH, *SPANISH)
    )


def _outright(plain: str, found: re.Match[str]) -> bool:
    """It is said on no condition, and the sentence does not go on to what will be done about it."""
    depends = DEPENDS.search(plain[: found.start()]) or SUPPOSED.match(plain, found.end())
    return not depends and not SOLVED.search(plain, found.end())


def _own_words(text: str) -> str:
    """Without quotations, code, and a letter that is drafted for somebody."""
    text = QUOTED.sub(" … ", text.replace("’", "'").replace("‘", "'"))
    letter = LETTER.search(text)
    return text[: letter.start()] if letter else text


def _plain(sentence: str) -> str:
    spread = unicodedata.normalize("NFKD", sentence.casefold())
    plain = " ".join("".join(sign for sign in spread if not unicodedata.combining(sign)).split())
    for short, long in CONTRACTED:
        plain = re.sub(rf"\b{short}\b", long, plain)
    return SMALL_WORDS.sub("", plain)


LATEST = 8
FEWEST = 6
RATE = 0.25
SHOWN = 120
TRIED = (Outcome.OK, Outcome.ERROR, Outcome.UNKNOWN)


def check_confidence(turn: Turn) -> Halt | None:
    """Going on blindly would not help: the user is to be told. Void when the user steers meanwhile, but never coached."""
    detail = _hedged(turn) or _failing(turn)
    return Halt(Stop.LOW_CONFIDENCE, detail, coachable=True) if detail else None


def _hedged(turn: Turn) -> str:
    latest = next(iterate_replies(turn), None)
    sentence = find_low_confidence(latest[0].text) if latest and latest[0].text else ""
    shown = sentence if len(sentence) <= SHOWN else sentence[:SHOWN] + "..."
    return f'the model sees no way to go on ("{shown}")' if shown else ""


def _failing(turn: Turn) -> str:
    """What nobody tried does not count: calls that were refused, not run, or whose earlier result was shown again."""
    if not turn.settled_calls or (
        turn.settled_calls[-1][0].outcome is Outcome.OK and not turn.settled_calls[-1][0].repeat_of
    ):
        return ""  # one more that worked makes nothing worse
    latest = list(islice(_tried(turn), LATEST))
    worked = sum(result.outcome is Outcome.OK for result in latest)
    if len(latest) < FEWEST or worked >= RATE * len(latest):
        return ""
    return f"{len(latest) - worked} of the last {len(latest)} tool calls failed"


def _tried(turn: Turn) -> Iterator[ToolFinished]:
    results = (result for done in iterate_results(turn) for result, _ in reversed(done))
    return (result for result in results if result.outcome in TRIED and not result.repeat_of)
