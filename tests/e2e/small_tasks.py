"""Forty small tasks and twenty reminders of a person, written down before the first run.

Each has a check of what really happened: the files, the calls with their results, what is scheduled and
remembered. Words of a reply are looked at only where the answer is the outcome.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

FILES = {
    "notes.txt": "buy milk\ncall Ann on Monday\npay rent\n",
    "todo.md": "- [ ] book dentist\n- [ ] wash the car\n- [x] send the parcel\n",
    "budget.csv": "month,rent,food\njan,700,210\nfeb,700,190\nmar,720,205\n",
    "letter.txt": "Dear Tom,\nI did not recieve your parcel.\nPlease write to me.\nMia\n",
    "settings.ini": "[server]\nhost = example.org\nport = 8080\n\n[log]\nlevel = info\n",
    "greet.py": 'def greet(name):\n    return f"Hello {name}"\n\n\nprint(greet("Bo"))\n',
    "hello.py": 'print("the answer is", 7000 + 319)\n',
    "photos/cat.txt": "a grey cat\n",
    "photos/dog.txt": "a brown dog\n",
}


@dataclass(frozen=True)
class Call:
    """A call that the model made, and whether it went well."""

    tool: str
    arguments: str
    result: str
    failed: bool


@dataclass(frozen=True)
class Planned:
    """Something that is scheduled: when it is due, in local time, and whether once only."""

    due: datetime
    text: str
    once: bool


@dataclass(frozen=True)
class Outcome:
    """What is there after a task. `now`: the local time at which it was asked."""

    reply: str
    calls: tuple[Call, ...]
    folder: Path
    planned: tuple[Planned, ...]
    facts: tuple[str, ...]
    now: datetime

    def file(self, name: str) -> str:
        place = self.folder / name
        return place.read_text() if place.is_file() else ""

    def answers(self, *words: str) -> bool:
        """The reply has all of these; in numbers, commas between thousands do not count."""
        said = re.sub(r"(?<=\d),(?=\d{3})", "", self.reply).lower()
        return all(re.search(rf"(?<![\w.]){re.escape(word.lower())}(?!\w)", said) for word in words)

    def used(self, *tools: str) -> bool:
        return any(call.tool in tools and not call.failed for call in self.calls)

    @property
    def untouched(self) -> bool:
        return all(self.file(name) == text for name, text in FILES.items())


Check = Callable[[Outcome], bool]


@dataclass(frozen=True)
class Task:
    """What is said, in one conversation unless it is `apart`; `deed`: something must be done, so that an
    answer that says so is false when the check fails.
    """

    says: tuple[str, ...]
    check: Check
    deed: bool = False
    apart: bool = False
    brief: bool = False


def ask(text: str, check: Check, *, brief: bool = False) -> Task:
    """A question: nothing is changed by it."""
    return Task((text,), lambda it: it.untouched and check(it), brief=brief)


def do(text: str, check: Check, *, brief: bool = False) -> Task:
    return Task((text,), check, deed=True, brief=brief)


def number(text: str, *words: str, brief: bool = False) -> Task:
    """A sum needs no shell."""
    return ask(text, lambda it: it.answers(*words) and not it.used("shell"), brief=brief)


def changed(name: str, old: str, new: str) -> Check:
    """The one piece, in this file alone; a line end at the end of the file does not count."""

    def check(it: Outcome) -> bool:
        wanted = FILES[name].replace(old, new).rstrip("\n")
        rest = all(it.file(one) == text for one, text in FILES.items() if one != name)
        return it.file(name).rstrip("\n") == wanted and rest

    return check


def made(name: str, check: Callable[[str], bool]) -> Check:
    """A new file, and nothing else is changed."""
    return lambda it: it.untouched and check(it.file(name))


def holds(fact: str) -> Check:
    return lambda it: any(fact.lower() in one.lower() for one in it.facts)


def program_says(source: str, text: str) -> bool:
    """A program of one line that prints this."""
    lines = [line for line in source.splitlines() if line.strip() and not line.startswith("#")]
    return re.sub(r"\s", "", "".join(lines)).replace("'", '"') == f'print("{text}")'


def is_clock_time(it: Outcome) -> bool:
    minutes = (it.now + timedelta(minutes=late) for late in range(-1, 6))
    shapes = ("{0:%H:%M}", "{0.hour}:{0:%M}", "{0:%I:%M}", "{1}:{0:%M}")
    known = (shape.format(one, one.hour % 12 or 12) for one in minutes for shape in shapes)
    return any(one in it.reply for one in known)


TASKS = (
    ask("hello", lambda it: bool(it.reply) and not it.calls, brief=True),
    ask("What is the capital of France?", lambda it: it.answers("Paris") and not it.used("shell")),
    ask('How do you say "good night" in German?', lambda it: it.answers("gute", "nacht")),
    number("What is 2+2?", "4", brief=True),
    number("what is 17 * 23?", "391"),
    number("what is 144 divided by 12?", "12"),
    number("what's 15% of 80?", "12"),
    number("what is 2 to the power of 20?", "1048576"),
    ask("what is the square root of 2, to three decimals?", lambda it: "1.414" in it.reply),
    number("I bought 3 books at 12.50 each and a pen for 1.75. What did I pay in all?", "39.25"),
    ask("what is in notes.txt?", lambda it: it.answers("milk", "Ann", "rent")),
    ask("what do I have to do on Monday, according to notes.txt?", lambda it: it.answers("Ann")),
    ask(
        "which files are in my workspace?",
        lambda it: it.answers("notes.txt", "budget.csv", "letter.txt"),
    ),
    ask(
        "what files are in the folder photos?",
        lambda it: it.answers("cat.txt", "dog.txt"),
    ),
    ask("how many lines does notes.txt have?", lambda it: it.answers("3") or it.answers("three")),
    ask("how much was the rent in march, according to budget.csv?", lambda it: it.answers("720")),
    ask("which of my files mentions the dentist?", lambda it: it.answers("todo.md")),
    ask("find the word milk in my files", lambda it: it.answers("notes.txt")),
    do(
        "create a file hello.txt with the text hello world",
        made("hello.txt", lambda text: text.strip() == "hello world"),
    ),
    do(
        "write a shopping list with eggs, bread and butter to shopping.txt",
        made(
            "shopping.txt",
            lambda text: all(one in text.lower() for one in ("eggs", "bread", "butter")),
        ),
    ),
    do(
        "write the numbers from 1 to 5, each on its own line, to numbers.txt",
        made("numbers.txt", lambda text: text.split() == list("12345") and "\n" in text),
    ),
    do(
        "save a python script that prints hi as hi.py",
        made("hi.py", lambda text: program_says(text, "hi")),
    ),
    do(
        "copy notes.txt to notes-backup.txt",
        made("notes-backup.txt", lambda text: text.rstrip("\n") == FILES["notes.txt"].rstrip("\n")),
    ),
    do("in notes.txt, change milk to cheese", changed("notes.txt", "milk", "cheese"), brief=True),
    do(
        "add the line 'water the plants' to the end of notes.txt",
        changed("notes.txt", "pay rent\n", "pay rent\nwater the plants\n"),
    ),
    do(
        "fix the spelling of 'recieve' in letter.txt",
        changed("letter.txt", "recieve", "receive"),
    ),
    do("set the port in settings.ini to 9090", changed("settings.ini", "8080", "9090")),
    do("delete the line about the rent from notes.txt", changed("notes.txt", "pay rent\n", "")),
    do("rename the function greet to welcome in greet.py", changed("greet.py", "greet", "welcome")),
    do(
        "mark 'book dentist' as done in todo.md",
        changed("todo.md", "[ ] book", "[x] book"),
    ),
    ask(
        "run hello.py and tell me what it prints",
        lambda it: it.answers("7319") and it.used("shell"),
    ),
    ask("how big is budget.csv, in bytes?", lambda it: it.answers(str(len(FILES["budget.csv"])))),
    ask(
        "how many words are in letter.txt?",
        lambda it: it.answers(str(len(FILES["letter.txt"].split()))),
    ),
    ask("what time is it?", is_clock_time),
    ask("what day of the week is it today?", lambda it: it.answers(f"{it.now:%A}")),
    do("remember that my dog is called Rex", holds("Rex"), brief=True),
    do("my sister's birthday is on May 4, keep that in mind", holds("May 4")),
    Task(
        ("remember that I am allergic to peanuts", "which food am I allergic to?"),
        lambda it: it.answers("peanuts") and holds("peanuts")(it),
        apart=True,
    ),
    Task(
        ("remind me tomorrow at 8 to feed the cat", "what is scheduled?"),
        lambda it: "cat" in it.reply.lower() and len(it.planned) == 1,
        deed=True,
    ),
    do(
        "read notes.txt and write only its first line to first.txt",
        made("first.txt", lambda text: text.strip() == "buy milk"),
    ),
)


@dataclass(frozen=True)
class Reminder:
    """What is said, the word that must be told then, and the time; `on` is a day of the week, 0 Monday."""

    says: str
    word: str
    after: timedelta | None = None
    days: int | None = None
    on: tuple[int, ...] = ()
    at: tuple[int, int] | None = None
    repeats: bool = False
    brief: bool = False

    def check(self, it: Outcome) -> bool:
        """Exactly one thing is planned, and it is this."""
        if len(it.planned) != 1 or self.word not in it.planned[0].text.lower():
            return False
        due, once = it.planned[0].due, it.planned[0].once
        return once is not self.repeats and all(self._find_faults(due, it.now))

    def _find_faults(self, due: datetime, now: datetime) -> Iterator[bool]:
        if self.after is not None:
            yield abs(due - now - self.after) < timedelta(minutes=3)
        if self.days is not None:
            yield (due.date() - now.date()).days == self.days
        if self.on:
            yield due.weekday() in self.on and due - now < timedelta(days=8)
        if self.at:
            yield (due.hour, due.minute) == self.at


FRIDAY, SATURDAY, SUNDAY, MONDAY, TUESDAY, WEDNESDAY = (4,), (5,), (6,), (0,), (1,), (2,)
WEEKDAYS = (0, 1, 2, 3, 4)

REMINDERS = (
    Reminder("remind me tomorrow at 9 to pay rent", "rent", days=1, at=(9, 0), brief=True),
    Reminder("remind me in 5 minutes to check the oven", "oven", after=timedelta(minutes=5)),
    Reminder("in an hour, remind me to call Tom", "tom", after=timedelta(hours=1), brief=True),
    Reminder("remind me to take out the trash tomorrow at 7am", "trash", days=1, at=(7, 0)),
    Reminder(
        "can you remind me on friday at 18:00 to buy flowers?", "flowers", on=FRIDAY, at=(18, 0)
    ),
    Reminder(
        "every monday at 9am remind me of the team meeting",
        "meeting",
        on=MONDAY,
        at=(9, 0),
        repeats=True,
    ),
    Reminder(
        "remind me every day at 8:00 to take my pills", "pills", at=(8, 0), repeats=True
    ),
    Reminder(
        "weekdays at 7:30 remind me to stretch", "stretch", on=WEEKDAYS, at=(7, 30), repeats=True
    ),
    Reminder(
        "please remind me in 20 minutes that tea is ready", "tea", after=timedelta(minutes=20)
    ),
    Reminder("don't let me forget to phone mum tomorrow at noon", "mum", days=1, at=(12, 0)),
    Reminder("set a reminder for tomorrow at 16:30: dentist", "dentist", days=1, at=(16, 30)),
    Reminder("remind me in two hours to water the plants", "plants", after=timedelta(hours=2)),
    Reminder("I need a reminder on sunday at 10:00 to bake bread", "bread", on=SUNDAY, at=(10, 0)),
    Reminder("tomorrow at 6 pm remind me about the concert", "concert", days=1, at=(18, 0)),
    Reminder(
        "remind me next tuesday at 14:00 to renew my passport", "passport", on=TUESDAY, at=(14, 0)
    ),
    Reminder("wake me tomorrow at 6:15", "", days=1, at=(6, 15)),
    Reminder(
        "every wednesday at 19:00 remind me to go swimming",
        "swim",
        on=WEDNESDAY,
        at=(19, 0),
        repeats=True,
    ),
    Reminder("tell me in 30 minutes to stop working", "work", after=timedelta(minutes=30)),
    Reminder("remind me on 2027-01-15 at 11:00 to file my taxes", "tax", at=(11, 0)),
    Reminder("ping me saturday at 9:45 about the market", "market", on=SATURDAY, at=(9, 45)),
)

ADMITS = re.compile(
    r"\?|\b(?:not|no|cannot|unable|failed|error|sorry|nothing|denied)\b|n't\b", re.I
)


def claims_falsely(task: Task | Reminder, it: Outcome) -> bool:
    """Something had to be done, it was not, and the reply neither says so nor asks."""
    return (isinstance(task, Reminder) or task.deed) and not (
        task.check(it) or ADMITS.search(it.reply)
    )
