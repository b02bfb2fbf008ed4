"""The words for times in four languages: each with what it stands for. `when.py` reads them."""

from collections.abc import Mapping
from functools import cache

from daemon.core import value

MINUTE, HOUR, DAY, WEEK, MONTH, YEAR = "minute", "hour", "day", "week", "month", "year"
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
PARTS = {"morning": 9, "noon": 12, "afternoon": 15, "evening": 19, "night": 21, "midnight": 0}


@value
class Word:
    """`kind` says what it is in a phrase, `value` which one."""

    kind: str
    value: int | str = 0


NUMBERS = {
    "en": "a/an/one two three four five six seven eight nine ten eleven twelve",
    "de": "ein/eine/einer/einem/einen zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
    "fr": "un/une deux trois quatre cinq six sept huit neuf dix onze douze",
    "es": "un/una/uno dos tres cuatro cinco seis siete ocho nueve diez once doce",
}
MONTHS = {
    "en": "january/jan february/feb march/mar april/apr may june/jun july/jul august/aug"
    " september/sep/sept october/oct november/nov december/dec",
    "de": "januar/jan februar/feb märz/mär april/apr mai juni/jun juli/jul august/aug"
    " september/sep oktober/okt november/nov dezember/dez",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre"
    " diciembre",
}
DAYS = {
    "en": "monday/mon tuesday/tue/tues wednesday/wed thursday/thu/thurs friday/fri saturday/sat"
    " sunday/sun",
    "de": "montag/mo dienstag/di mittwoch/mi donnerstag/do freitag/fr samstag/sonnabend/sa"
    " sonntag/so",
    "fr": "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "es": "lunes martes miércoles jueves viernes sábado domingo",
}
# Each behind its number, "_" between words.
LARGE_NUMBERS = {
    "en": "15 fifteen 20 twenty 30 thirty 40 forty 45 forty-five/forty_five 50 fifty 90 ninety",
    "de": "15 fünfzehn 20 zwanzig 30 dreißig 40 vierzig 45 fünfundvierzig 50 fünfzig 90 neunzig",
    "fr": "15 quinze 20 vingt 30 trente 40 quarante 45 quarante-cinq 50 cinquante",
    "es": "15 quince 20 veinte 30 treinta 40 cuarenta 45 cuarenta_y_cinco 50 cincuenta 90 noventa",
}
# Of several words, the longest first. "skip" is what says nothing of its own.
PHRASES = {
    "en": {
        "day 0": "today",
        "day 1": "tomorrow",
        "day 2": "the day after tomorrow/day after tomorrow",
        "part morning": "morning/in the morning",
        "parts morning": "mornings/in the mornings",
        "part noon": "noon/midday",
        "part afternoon": "afternoon/in the afternoon",
        "parts afternoon": "afternoons/in the afternoons",
        "part evening": "evening/in the evening",
        "parts evening": "evenings/in the evenings",
        "part night": "night/at night",
        "parts night": "nights",
        "part midnight": "midnight",
        "tonight": "tonight",
        "unit second": "second/seconds/sec/secs",
        "unit minute": "minute/minutes/min/mins",
        "unit hour": "hour/hours/hr/hrs",
        "unit day": "day/days",
        "unit week": "week/weeks",
        "unit month": "month/months",
        "unit year": "year/years",
        "every": "every/each",
        "cycle hour": "hourly",
        "cycle day": "daily/everyday",
        "other": "other/second",
        "cycle week": "weekly",
        "cycle month": "monthly",
        "cycle year": "yearly/annually",
        "workdays": "weekday/weekdays/working day/working days/workday/workdays/business day"
        "/business days",
        "weekend": "weekend/the weekend",
        "weekends": "weekends",
        "in": "in",
        "from now": "from now",
        "at": "at/around/about",
        "next": "next/coming",
        "this": "this",
        "half": "half",
        "and half": "and a half",
        "quarter": "quarter",
        "past": "past/after",
        "before": "to/before",
        "and": "and",
        "through": "to/through/until",
        "span": "from/between",
        "from": "from",
        "am": "am",
        "pm": "pm",
        "oclock": "o'clock/oclock",
        "place 1": "first",
        "place 2": "second",
        "place 3": "third",
        "place 4": "fourth",
        "place 9": "last",
        "skip": "on/the/of",
    },
    "de": {
        "day 0": "heute",
        "day 1": "morgen",
        "day 2": "übermorgen",
        "part morning": "früh/vormittag/am morgen/am vormittag",
        "parts morning": "morgens/vormittags",
        "every part morning": "jeden morgen",
        "part noon": "mittag/am mittag",
        "parts noon": "mittags",
        "part afternoon": "nachmittag/am nachmittag",
        "parts afternoon": "nachmittags",
        "part evening": "abend/am abend",
        "parts evening": "abends",
        "part night": "nacht/in der nacht",
        "parts night": "nachts",
        "part midnight": "mitternacht",
        "unit second": "sekunde/sekunden",
        "unit minute": "minute/minuten",
        "unit hour": "stunde/stunden",
        "unit day": "tag/tage/tagen",
        "unit week": "woche/wochen",
        "unit month": "monat/monate/monaten/monats",
        "unit year": "jahr/jahre/jahren",
        "every": "jeden/jede/jedes/alle/aller",
        "cycle hour": "stündlich",
        "cycle day": "täglich",
        "other": "zweiten/zweite",
        "cycle week": "wöchentlich",
        "cycle month": "monatlich",
        "cycle year": "jährlich",
        "workdays": "werktags/werktag/werktagen/wochentags",
        "weekend": "wochenende/wochenenden",
        "in": "in",
        "at": "um/gegen",
        "next": "nächste/nächsten/nächstes/kommenden/kommende",
        "this": "diese/diesen/dieses",
        "half": "halben/halbe",
        "half to": "halb",
        "one and a half": "anderthalb/eineinhalb",
        "quarter": "viertel",
        "past": "nach",
        "before": "vor",
        "and": "und",
        "through": "bis",
        "span": "von/zwischen",
        "from": "von",
        "oclock": "uhr",
        "place 1": "ersten/erster/erste",
        "place 2": "zweiten/zweiter/zweite",
        "place 3": "dritten/dritter/dritte",
        "place 4": "vierten/vierter/vierte",
        "place 9": "letzten/letzter/letzte",
        "skip": "am/an/den/dem/der/im/des",
    },
    "fr": {
        "day 0": "aujourd'hui",
        "day 1": "demain",
        "day 2": "après-demain",
        "part morning": "matin/matins/du matin",
        "part noon": "midi",
        "part afternoon": "après-midi/de l'après-midi",
        "part evening": "soir/soirs/du soir",
        "part night": "nuit/nuits",
        "part midnight": "minuit",
        "unit second": "seconde/secondes",
        "unit minute": "minute/minutes",
        "unit hour": "heure/heures",
        "unit day": "jour/jours",
        "unit week": "semaine/semaines",
        "unit month": "mois",
        "unit year": "an/ans/année/années",
        "every": "tous les/toutes les/chaque/tous/toutes",
        "workdays": "en semaine",
        "weekend": "week-end/weekend",
        "in": "dans",
        "at": "à/vers",
        "next": "prochain/prochaine",
        "this": "ce/cet/cette",
        "half": "demi/demie",
        "and half": "et demie/et demi",
        "and quarter": "et quart",
        "and": "et",
        "through": "au/à",
        "span": "de/entre",
        "from": "du/de",
        "habit": "le",
        "place 1": "premier",
        "place 2": "deuxième",
        "place 3": "troisième",
        "place 4": "quatrième",
        "place 9": "dernier",
        "skip": "de/du",
    },
    "es": {
        "day 0": "hoy",
        "day 1": "mañana",
        "day 2": "pasado mañana",
        "part morning": "por la mañana/de la mañana",
        "every part morning": "todas las mañanas/cada mañana",
        "part noon": "mediodía",
        "part afternoon": "por la tarde/de la tarde/tarde/tardes",
        "part night": "por la noche/de la noche/noche/noches",
        "part midnight": "medianoche",
        "unit second": "segundo/segundos",
        "unit minute": "minuto/minutos",
        "unit hour": "hora/horas",
        "unit day": "día/días",
        "unit week": "semana/semanas",
        "unit month": "mes/meses",
        "unit year": "año/años",
        "every": "todos los/todas las/cada",
        "plural": "los",
        "cycle day": "diariamente",
        "workdays": "entre semana/día laborable/días laborables",
        "weekend": "fin de semana/fines de semana",
        "in": "en/dentro de",
        "at": "a las/a la",
        "next": "próximo/próxima/que viene",
        "this": "este/esta",
        "half": "media",
        "and half": "y media",
        "and quarter": "y cuarto",
        "and": "y/e",
        "through": "a/hasta/hasta las/y las",
        "span": "de/desde/entre/desde las/entre las",
        "from": "de",
        "place 1": "primer",
        "place 2": "segundo",
        "place 3": "tercer",
        "place 4": "cuarto",
        "place 9": "último",
        "skip": "el/la/de/del/a/día",
    },
}
KINDS = ("day", "part", "parts", "unit", "cycle", "place")
LANGUAGES = tuple(PHRASES)


@cache
def load_words(language: str) -> Mapping[tuple[str, ...], tuple[Word, ...]]:
    """What each phrase, as its words, may stand for."""
    found: dict[tuple[str, ...], list[Word]] = {}

    def add(phrases: str, word: Word) -> None:
        for phrase in phrases.split("/"):
            found.setdefault(tuple(phrase.split()), []).append(word)

    for kind, table in (("number", NUMBERS), ("month", MONTHS), ("weekday", DAYS)):
        for place, phrases in enumerate(table[language].split()):
            add(phrases, Word(kind, place if kind == "weekday" else place + 1))
    large = LARGE_NUMBERS[language].split()
    for number, phrases in zip(large[::2], large[1::2], strict=True):
        add(phrases.replace("_", " "), Word("number", int(number)))
    for place, phrases in enumerate(DAYS[language].split()):
        for phrase in phrases.split("/") if language in ("en", "de") else ():
            add(f"{phrase}s", Word("weekdays", place))
        if language == "fr":
            add(f"{phrases}s", Word("weekday", place))
        if language == "de":
            for part, words in (
                ("morning", "früh/vormittag"),
                ("evening", "abend"),
                ("afternoon", "nachmittag"),
            ):
                for word in words.split("/"):
                    found.setdefault((phrases.split("/")[0] + word,), []).append(
                        Word(f"weekday {part}", place)
                    )
    for name, phrases in PHRASES[language].items():
        kind, _, which = name.partition(" ")
        number = int(which) if which.isdecimal() else which
        word = Word(kind, number) if kind in KINDS else Word(name)
        if name.startswith("every part"):
            word = Word("every part", name.split()[-1])
        add(phrases, word)
    return {phrase: tuple(words) for phrase, words in found.items()}
