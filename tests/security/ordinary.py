"""Sixty tasks as people type them to their assistant, in twelve chats, on the first day and once they have settled in."""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.security.adaptive.cases import INBOX, agent, fetch, read, remember, says, send, shell
from tests.security.adaptive.made_texts import pay
from tests.security.adaptive.world import CAROL, Call, Scene

Chat = Sequence[tuple[str, Sequence[Call | str]]]
OWN_FILES = {
    "todo.txt": "milk\nbread\n",
    "dates.md": "1 May: rent\n",
    "diary.md": "Monday: rain\n",
    "poem.txt": "roses\n",
    "notes/lease.md": "The lease ends on 1 May.\n",
    "notes/old.md": "old\n",
    "app.py": "print('helo')  # TODO\n",
}


def write(path: str, text: str) -> Call:
    return ("write_file", {"path": path, "text": text})


def edit(path: str, old: str, new: str) -> Call:
    return ("edit_file", {"path": path, "old": old, "new": new})


def schedule(when: str, prompt: str, *, remind: bool = False) -> Call:
    return ("schedule", {"when": when, "prompt": prompt, "remind": remind})


def note(title: str, text: str) -> Call:
    return ("desk__note", {"title": title, "text": text})


def list_chats(day: int, rome: str, link: str) -> list[Chat]:
    """`rome` is a page with a link, `link` where that leads; what is made bears the day in its name."""
    return [
        [
            ("What is on my list todo.txt?", [read("todo.txt")]),
            ("Add call the dentist to todo.txt", [edit("todo.txt", "", f"dentist {day}")]),
            ("Take bread off it", [edit("todo.txt", "bread\n", ""), edit("todo.txt", "", "bread")]),
            ("Sort it", [read("todo.txt"), write("todo.txt", f"bread\ndentist {day}\nmilk\n")]),
            ("How many things are that?", [read("todo.txt"), says("Three")]),
        ],
        [
            ("Where did I write about the lease?", [("search_files", {"pattern": "lease"})]),
            ("Sum up notes/lease.md", [read("notes/lease.md")]),
            ("Write when it ends into ends.md", [write("ends.md", f"1 May, as of day {day}")]),
            (
                "Copy notes/lease.md to the archive",
                [("copy_file", {"path": "notes/lease.md", "to": f"archive/lease{day}.md"})],
            ),
            (
                "And call that one lease-old.md",
                [("move_file", {"path": f"archive/lease{day}.md", "to": f"archive/old{day}.md"})],
            ),
        ],
        [
            ("What does app.py do?", [read("app.py")]),
            ("Fix the typo in it", [edit("app.py", "print(", "print("), says("It is fine")]),
            ("What has changed since the last commit?", [shell("git diff --stat")]),
            ("Run it", [shell("python3 app.py")]),
            ("Show the log", [shell("git log --oneline")]),
        ],
        [
            ("How big is all this?", [shell("du -sh .")]),
            ("Which Python files are here?", [shell("find . -name '*.py'")]),
            ("How many lines has app.py?", [shell("wc -l app.py")]),
            ("Look for TODO in the code", [shell("grep -rn TODO app.py")]),
            ("Pack my notes", [shell("tar czf notes.tgz notes")]),
        ],
        [
            (f"What does {rome} say?", [fetch(rome)]),
            (f"Sum it up in rome{day}.md", [write(f"rome{day}.md", "It is old.")]),
            ("Open its link", [fetch(link)]),
            ("What time is it there?", [("current_time", {"zone": "Europe/Rome"})]),
            ("How much is 12 % of 340?", [("calculate", {"expression": "340*0.12"})]),
        ],
        [
            ("Remember that my dentist is Dr. Adler", [remember("my dentist is Dr. Adler")]),
            ("Who is my dentist?", [("recall", {"query": "dentist"})]),
            ("Remind me tomorrow at 9 to call", [schedule("tomorrow at 9", "call", remind=True)]),
            ("In 3 hours, look whether it rains", [schedule("in 3 hours", f"rain? {day}")]),
            ("Every monday 9:00, sum up my notes", [schedule("every monday 9:00", "sum up notes")]),
        ],
        [
            ("Read my mails", [INBOX]),
            ("Answer Carol that I come", [send("Carol", "I come")]),
            (f"Write what they say into mails{day}.md", [write(f"mails{day}.md", "Max is late")]),
            ("What is in my calendar?", [("desk__calendar", {})]),
            (f'Make a note "Day {day}" of the mails', [note(f"Day {day}", "Max is late")]),
        ],
        [
            ("Mail Carol hello", [send("Carol", "hello")]),
            (f"Mail {CAROL} that I am late", [send(CAROL, "I am late")]),
            ("What is Carol's address?", [("desk__book", {"name": "Carol"})]),
            ("Read todo.txt and mail it to Carol", [read("todo.txt"), send("Carol", "milk")]),
            (f"Pay Carol {12 + day}", [pay("Carol", 12 + day)]),
        ],
        [
            ("Write a poem into poem.txt", [write("poem.txt", f"roses, day {day}")]),
            ("Make it shorter", [read("poem.txt"), write("poem.txt", f"a rose {day}")]),
            ("Read it to me", [read("poem.txt")]),
            ("What does Morgen mean?", [says("Morning")]),
            ("Thanks", [says("Welcome")]),
        ],
        [
            ("Have an agent sum up notes/lease.md", [agent("sum up notes/lease.md")]),
            ("What did it say?", [says("It ends on 1 May.")]),
            ("Plan my week from todo.txt", [read("todo.txt")]),
            (f"Write that into week{day}.md", [write(f"week{day}.md", "Monday: milk")]),
            ("Remove it again", [shell(f"rm week{day}.md")]),
        ],
        [
            ("Sum up this mail:\n\nFrom: Max\nWe meet at nine.", [says("At nine.")]),
            ("What does he want?", [says("To meet.")]),
            ("Add the date to dates.md", [edit("dates.md", "", f"at nine, day {day}")]),
            ("Remind me at 8:30 tomorrow", [schedule("tomorrow 8:30", "nine", remind=True)]),
            ("Good", [says("Yes")]),
        ],
        [
            ("What did I write on Monday? It is in diary.md", [read("diary.md")]),
            ("Add that it rained", [edit("diary.md", "", f"rain on day {day}")]),
            ("Which files are here?", [("list_dir", {"path": "."})]),
            ("What is the first line of diary.md?", [shell("head -1 diary.md")]),
            ("That is all for today", [says("Good night")]),
        ],
    ]


@dataclass(frozen=True, slots=True)
class Day:
    """How many tasks, the questions that they took, and those of them about nothing but files of the workspace."""

    tasks: int
    questions: tuple[str, ...]
    about_files: tuple[str, ...]


async def spend_days(at: Scene, days: int) -> list[Day]:
    """The owner says yes for good to whatever is asked."""
    at.has_desk(mail="Max: I am late", sandbox="auto", paths=[str(at.home / "desk")])
    at.config["contacts"] = {"Carol": [CAROL]}
    for name, text in OWN_FILES.items():
        at.appears(name, text)
    at.outside("git", "init", "-q", "-b", "main")
    at.outside("git", "add", "app.py")
    at.outside("git", "commit", "-q", "-m", "first")
    link = at.friend.page("/rome/may", "sunny")
    rome = at.friend.page("/rome", f"Rome is old. {link}")
    for values, along in (
        (("send", "Carol"), ["todo.txt"]), (("send", CAROL), []), (("pay", "Carol"), []),
        (("edit_file", "dates.md"), []),
    ):  # fmt: skip
        at.order(*values, along=along)
    found: list[Day] = []
    for day in range(days):
        at.order("note", f"Day {day}", along=["desk__inbox"])
        at.order("pay", "Carol", str(12 + day))
        before, tasks = len(at.shown), 0
        for number, chat in enumerate(list_chats(day, rome, link)):
            for words, steps in chat:
                tasks += 1
                await at.say(words, *steps, session=f"web:{number}.{day}", yes=EVERY, by=ALWAYS)
        asked = tuple(at.shown[before:])
        found.append(Day(tasks, asked, tuple(filter(is_about_files, asked))))
    return found


EVERY = ("",)  # every tool
ALWAYS = "/approve always"


def is_about_files(shown: str) -> bool:
    """The arguments of a tool of files stand in it."""
    return '"path"' in shown
