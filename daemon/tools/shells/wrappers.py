"""Programs that run other programs, or words as code: a person is told so, for the first word then says little."""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

OTHER = "runs another program"
CODE = "runs words as code"
OTHERS = (
    "env", "nohup", "nice", "ionice", "timeout", "time", "setsid", "stdbuf", "watch", "strace", "command", "builtin", "exec",
    "coproc", "xargs", "parallel", "busybox", "chroot", "unshare", "nsenter",
)  # fmt: skip
CODES = (
    "eval", "source", ".", "trap", "alias", "bash", "sh", "dash", "zsh", "ksh", "fish", "python", "python3", "perl", "ruby",
    "node", "php", "lua", "awk", "gawk", "mawk", "sed", "make", "npm", "npx", "uvx", "pip",
)  # fmt: skip
WRAPPERS: Mapping[str, str] = {
    **dict.fromkeys(OTHERS, OTHER),
    **dict.fromkeys(CODES, CODE),
    **dict.fromkeys(("sudo", "doas", "su", "pkexec", "runuser"), "runs another program as another user"),
    **dict.fromkeys(("ssh", "docker", "podman", "crontab", "at", "systemctl"), "runs programs elsewhere or later"),
}
BY_ARGUMENT: Mapping[str, Mapping[str, str]] = {
    "find": {**dict.fromkeys(("-exec", "-execdir", "-ok", "-okdir"), OTHER), "-delete": "deletes what it finds"},
    "fd": dict.fromkeys(("-x", "-X", "--exec", "--exec-batch"), OTHER),
    "rg": {"--pre": OTHER},
    "sort": {"--compress-program": OTHER, "-o": "writes a file", "--output": "writes a file"},
    "tar": dict.fromkeys(("-I", "--to-command", "--checkpoint-action", "--use-compress-program"), OTHER),
    "git": dict.fromkeys(("-c", "--ext-diff", "--exec-path", "--upload-pack"), OTHER),
}


def remarks(words: Sequence[str]) -> tuple[str, ...]:
    """What to say of a command of these words, as they are written; assignments may stand before the program."""
    named = [word.strip("'\"") for word in words if "=" not in word.partition("/")[0] or word.startswith("-")]
    if not named:
        return ()
    program = PurePosixPath(named[0].replace("\\", "")).name
    found = [f"{program}: {WRAPPERS[program]}"] if program in WRAPPERS else []
    if any(sign in named[0] for sign in "$`\\{*?"):
        found.append("which program runs is decided only then")
    arguments = BY_ARGUMENT.get(program, {})
    flags = (word.partition("=")[0] for word in named)
    return (*found, *(f"{flag}: {arguments[flag]}" for flag in flags if flag in arguments))
