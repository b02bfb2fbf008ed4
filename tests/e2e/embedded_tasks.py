"""Twelve small tasks for the embedded model: what a person asks, what the tools say, what a right answer is."""

from dataclasses import dataclass, field

from daemon.core.messages import Message, ModelReply, ToolCall, ToolSpec


def spec(name: str, description: str, *arguments: str) -> ToolSpec:
    properties = {argument: {"type": "string"} for argument in arguments}
    return ToolSpec(
        name, description, {"type": "object", "properties": properties, "required": list(arguments)}
    )


TOOLS = (
    spec("current_time", "Current date and time."),
    spec("shell", "Run a command in the workspace.", "command"),
    spec("read_file", "Read a text file.", "path"),
    spec("write_file", "Write a text file.", "path", "text"),
    spec("list_dir", "List a folder.", "path"),
    spec("remember", "Save a lasting fact about the user.", "fact"),
    spec("recall", "Search memory.", "query"),
    spec("schedule", "Run a prompt later.", "when", "prompt"),
)
RESULTS = {
    "current_time": "2026-11-21 21:40 Saturday",
    "list_dir": "notes.txt\nbudget.csv\nphotos/",
    "read_file": "buy milk\ncall Ann on Monday\npay rent",
    "write_file": "written 12 bytes",
    "remember": "saved",
    "recall": "the user's dog is called Rex",
    "schedule": "scheduled for 2026-11-22 09:00",
}


@dataclass(frozen=True)
class Task:
    """What a person asks, the tools a right answer uses in this order, and what must be in their arguments or in the reply.
    `brief`: it is in the short form, too.
    """

    says: str
    tools: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    reply: tuple[str, ...] = ()
    may_answer_at_once: bool = False
    brief: bool = False


TASKS = (
    Task("hello", ()),
    Task("what time is it?", ("current_time",), reply=("40",)),
    Task(
        "which files do I have in my workspace?", ("list_dir",), reply=("notes.txt", "budget.csv")
    ),
    Task("what is in notes.txt?", ("read_file",), ("notes.txt",), ("milk", "Ann"), brief=True),
    Task(
        "read notes.txt and write a summary of it to summary.txt",
        ("read_file", "write_file"),
        ("notes.txt", "summary.txt"),
        brief=True,
    ),
    Task("count the lines of notes.txt", ("shell",), ("wc", "notes.txt"), ("3",)),
    Task("remember that my dog is called Rex", ("remember",), ("Rex",), brief=True),
    Task("what's my dog's name?", ("recall",), ("dog",), ("Rex",)),
    Task("remind me tomorrow at 9 to pay rent", ("schedule",), ("tomorrow", "9", "rent")),
    Task("thanks!", ()),
    Task("what is 17 + 25?", ("shell",), ("17", "25"), ("42",), may_answer_at_once=True, brief=True),
    Task(
        "find out the time and write it to now.txt",
        ("current_time", "write_file"),
        ("now.txt", "40"),
    ),
)


@dataclass
class Trace:
    """One task as it went."""

    messages: list[Message]
    calls: list[ToolCall] = field(default_factory=list)
    replies: list[ModelReply] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def right(self, task: Task) -> bool:
        if task.may_answer_at_once and not self.calls:
            return all(word in self.replies[-1].text for word in task.reply)
        said, done = (
            self.replies[-1].text.lower(),
            " ".join(call.arguments for call in self.calls).lower(),
        )
        return (
            not self.replies[-1].calls
            and bool(said)
            and tuple(call.name for call in self.calls) == task.tools
            and all(word.lower() in done for word in task.arguments)
            and all(word.lower() in said for word in task.reply)
        )


def result_of(call: ToolCall) -> str:
    """What the tool would really say here."""
    if call.name == "shell":
        return "42" if "17" in call.arguments else "3 notes.txt"
    return RESULTS[call.name]
