"""The tool git_commit: a commit in the workspace's own repository, without what its settings run.

git works in the sandbox on a fresh directory without settings and hooks; it adds objects and the
index only. The branch is moved by FileStore, as every change of a file: /undo puts it back where it
was, as `git reset --soft` does, unless something else has moved it since.
"""

import asyncio
import re
import shutil
from dataclasses import replace
from pathlib import PurePosixPath

from daemon.core import value
from daemon.core.trust import Effect, Label
from daemon.tools.base import ToolContext, ToolError, ToolOutput
from daemon.tools.calls import is_protected
from daemon.tools.shell.process import stream_process
from daemon.tools.shell.safe_commands import ENTER_FRESH_GIT
from daemon.tools.shell.sandbox import SEARCH_PATH, Sandbox
from daemon.tools.signature import tool
from daemon.tools.workspace.file_store import ChangeAuthor, FileStore
from daemon.tools.workspace.files import SearchScope

TIMEOUT_S, MAX_BYTES, MAX_SAID = 60.0, 2_000_000, 1_000
BRANCH = re.compile(r"ref: (refs/heads/[\w./@+-]+)")
COMMIT = re.compile(r"[0-9a-f]{40}")
NOTHING = "Nothing was committed."
# Its arguments: the message, how many of the others are files to commit, these, and what is left
# out where none is named. It prints, with NUL between: ok, the commit before, the commit, and the
# names of what it changes.
SCRIPT = r"""
message=$0 count=$1; shift; umask 022
fail() { printf '%s' "$1"; cat "$fresh/said" 2>/dev/null; exit 1; }
own() { git config --file "$here/.git/config" "$@"; }
for one in MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD rebase-merge rebase-apply; do
  if [ -e "$here/.git/$one" ]; then fail "git is in the middle of something ($one)"; fi
done
odd=$(own --name-only --get-regexp \
  '^(filter|extensions|include|includeif)\.|^core\.(autocrlf|sparsecheckout|worktree)$') &&
  fail "the repository has settings that git_commit leaves alone ($odd); use shell: git commit"
name=$(own user.name) && mail=$(own user.email) && [ -n "$name" ] && [ -n "$mail" ] ||
  fail "the repository names no author; set it there: git config user.name, git config user.email"
export GIT_AUTHOR_NAME="$name" GIT_COMMITTER_NAME="$name"
export GIT_AUTHOR_EMAIL="$mail" GIT_COMMITTER_EMAIL="$mail" GIT_INDEX_FILE="$here/.git/index"
git() { command git -c core.hooksPath=/dev/null -c core.fsmonitor= -c commit.gpgsign=false \
  -c gc.auto=0 -c maintenance.auto=false "$@"; }
stage() {
  if [ "$count" -gt 0 ]; then git --literal-pathspecs add -- "$@"; else git add -u -- "$@"; fi
}
exec 2>"$fresh/said"
git ls-files -s | grep -q '^160000' && fail "the repository has submodules; use shell: git commit"
head=$(git rev-parse -q --verify HEAD) || head=
if [ "$count" -gt 0 ]; then
  export GIT_INDEX_FILE="$fresh/index-of-commit"
  if [ -n "$head" ]; then git read-tree "$head"; fi
fi
stage "$@" && tree=$(git write-tree) || fail "git said: "
base=${head:-$(git mktree </dev/null)}
git diff-tree -r -z --no-renames --name-only --ignore-submodules=all "$base" "$tree" \
  >"$fresh/names" || fail "git said: "
if [ ! -s "$fresh/names" ]; then fail "there is nothing new to commit"; fi
git check-attr -z --stdin filter <"$fresh/names" | tr '\0' '\n' |
  sed -n '3~3p' | grep -qvx 'uns[a-z]*' &&
  fail "a filter changes what git keeps of a file (.gitattributes); use shell: git commit"
made=$(printf '%s\n' "$message" | git commit-tree "$tree" ${head:+-p "$head"} -F -) ||
  fail "git said: "
if [ "$count" -gt 0 ]; then
  export GIT_INDEX_FILE="$here/.git/index"
  stage "$@" || fail "git said: "
fi
printf 'ok\0%s\0%s\0' "$head" "$made"
cat "$fresh/names"
"""


@value
class Committer:
    """What git_commit works with."""

    files: FileStore
    sandbox: Sandbox
    scope: SearchScope

    @property
    def is_offered(self) -> bool:
        """The workspace is a repository, and there is a git to run without its settings."""
        is_repository = (self.files.workspace.root / ".git").is_dir()
        has_git = shutil.which("git", path=SEARCH_PATH)
        return bool(is_repository and has_git and self.sandbox.kind == "bubblewrap")

    def find_branch(self) -> str:
        """The file that says which commit is the last. Raises ToolError."""
        head = self.files.workspace.read(".git/HEAD").decode("utf-8", "replace").strip()
        if found := BRANCH.fullmatch(head):
            return f".git/{found[1]}"
        if COMMIT.fullmatch(head):
            return ".git/HEAD"
        raise ToolError(f"this kind of branch is not known: {head[:80]!r}. {NOTHING}")

    def check_places(self, context: ToolContext, paths: list[str]) -> tuple[list[str], list[str]]:
        """The files by their one name, and the patterns of what no commit takes up unasked. Raises
        ToolError.
        """
        hidden = self.scope.narrow(context, "").protected
        workspace, places = self.files.workspace, [*map(self.files.workspace.normalize, paths)]
        for place in places:
            steps = PurePosixPath(place)
            if not place or is_protected(steps, (*hidden, ".git")):
                raise ToolError(f"{place or '.'}: it is protected; commit it yourself. {NOTHING}")
            if any(workspace.stat(f"{one}/.git") for one in (steps, *steps.parents[:-1])):
                raise ToolError(f"{place}: it lies in a repository of its own. {NOTHING}")
            if (workspace.root / place).is_dir():
                raise ToolError(f"{place}: this is a folder; name the files. {NOTHING}")
        if not self.files.labels.owns_repository(places):
            raise ToolError(
                "the repository holds something of a stranger's, so it is not committed to unasked:"
                f" use shell, or /trust .git. {NOTHING}"
            )
        return places, list(hidden)

    async def make(
        self, message: str, places: list[str], hidden: list[str]
    ) -> tuple[str, str, list[str]]:
        """The commit before, the new one, and what it changes. Raises ToolError."""
        excluded = [
            f":(exclude,glob,icase)**/{one.strip('/')}{end}"
            for one in hidden
            for end in ("", "/**")
        ]
        script = ["/bin/sh", "-c", ENTER_FRESH_GIT + SCRIPT, message, str(len(places))]
        sandbox, output = self.sandbox, bytearray()

        def keep(data: bytes) -> None:
            output.extend(data[: MAX_BYTES - len(output)])

        watch = await sandbox.begin("")
        argv = sandbox.wrap([*script, *(places or [".", *excluded])], watch=watch)
        ran = await stream_process(keep, argv, sandbox.workspace, sandbox.env, TIMEOUT_S)
        said = bytes(output).decode("utf-8", "surrogateescape")
        if ran.exit_code or not said.startswith("ok\0") or len(output) >= MAX_BYTES:
            why = "it took too long" if ran.timed_out else said[:MAX_SAID].strip()
            raise ToolError(f"{why or 'git failed'}. {NOTHING}")
        _, before, made, *names = said.removesuffix("\0").split("\0")
        return before, made, names


@tool(effect=Effect.WRITE)
async def git_commit(
    committer: Committer, context: ToolContext, message: str, paths: list[str] | None = None
) -> ToolOutput:
    """Commit in the git repository of the workspace: the files in paths, new ones too, or without
    paths all changes of files that git knows.
    """
    if not message.strip() or "\0" in message:
        raise ToolError(f"message is empty; say what the commit changes. {NOTHING}")
    branch = await asyncio.to_thread(committer.find_branch)
    places, hidden = await asyncio.to_thread(committer.check_places, context, paths or [])
    before, made, names = await committer.make(message.strip(), places, hidden)
    files, author = committer.files, ChangeAuthor.from_context(context)
    label = await asyncio.to_thread(files.labels.snapshot().label_of_names, names)

    def move(old: bytes | None) -> bytes:
        if old is not None and old.decode("ascii", "replace").strip() != before:
            raise ToolError(f"somebody else committed just now. {NOTHING}")
        return f"{made}\n".encode()

    label = author.label.join_with(label)
    await files.write(branch, move, replace(author, label=label))
    outside = "; it holds text from outside" if label is Label.UNTRUSTED else ""
    shown = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    return ToolOutput(f"committed {made[:10]}: {shown}{outside}", label=label)
