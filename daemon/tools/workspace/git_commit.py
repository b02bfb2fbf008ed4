"""The tool git_commit: a commit in the workspace's own repository, without what its settings run.

git works in the sandbox on a fresh directory without settings and hooks; it adds objects and the
index only. The branch is moved by FileStore, as every change of a file: /undo puts it back where it
was, as `git reset --soft` does, unless something else has moved it since.
"""

import asyncio
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from daemon.core import value
from daemon.core.trust import Effect, Label
from daemon.tools.base import ToolContext, ToolError, ToolOutput
from daemon.tools.calls import is_protected
from daemon.tools.shell.process import stream_process
from daemon.tools.shell.safe_commands import ENTER_FRESH_GIT, SAFE_SETTINGS
from daemon.tools.shell.sandbox import SEARCH_PATH, Sandbox
from daemon.tools.signature import tool
from daemon.tools.workspace.file_store import ChangeAuthor, FileStore
from daemon.tools.workspace.files import SearchScope
from daemon.tools.workspace.protected import ProtectedFiles

TIMEOUT_S, MAX_BYTES, MAX_SAID = 60.0, 2_000_000, 1_000
BRANCH = re.compile(r"ref: (refs/heads/[\w./@+-]+)")
# Its arguments: the message, how many files are named, these, or else what is left out. It prints,
# with NUL between: ok, the commit before, the new one, and the names of what that changes.
SCRIPT = (
    f"{ENTER_FRESH_GIT}SETTINGS='{SAFE_SETTINGS}'"
    r"""
message=$0 count=$1; shift; umask 022
fail() { printf '%s' "$1"; cat "$fresh/said" 2>/dev/null; exit 1; }
own() { git config --file "$here/.git/config" "$@"; }
for one in MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD rebase-merge rebase-apply; do
  if [ -e "$here/.git/$one" ]; then fail "git is in the middle of something ($one)"; fi
done
odd=$(own --name-only --get-regexp \
  '^(filter|extensions|include|includeif)\.|^core\.(autocrlf|sparsecheckout|worktree)$') &&
  fail "its settings need more than git_commit does ($odd); use shell"
name=$(own user.name) && mail=$(own user.email) && [ -n "$name" ] && [ -n "$mail" ] ||
  fail "the repository names no author; set it there: git config user.name, git config user.email"
export GIT_AUTHOR_NAME="$name" GIT_COMMITTER_NAME="$name" GIT_INDEX_FILE="$here/.git/index"
export GIT_AUTHOR_EMAIL="$mail" GIT_COMMITTER_EMAIL="$mail"
git() { command git $SETTINGS -c commit.gpgsign=false "$@"; }
stage() {
  if [ "$count" -gt 0 ]; then git --literal-pathspecs add -- "$@"; else git add -u -- "$@"; fi
}
exec 2>"$fresh/said"
git ls-files -s | grep -q '^160000' && fail "it has submodules; use shell"
head=$(git rev-parse -q --verify HEAD) || head=
if [ "$count" -gt 0 ]; then
  stage "$@" || fail
  export GIT_INDEX_FILE="$fresh/index-of-commit"
  if [ -n "$head" ]; then git read-tree "$head"; fi
fi
stage "$@" && tree=$(git write-tree) &&
  git diff-tree -r -z --no-renames --name-only --ignore-submodules=all \
    "${head:-$(git mktree </dev/null)}" "$tree" >"$fresh/names" || fail
if [ ! -s "$fresh/names" ]; then fail "there is nothing new to commit"; fi
git check-attr -z --stdin filter <"$fresh/names" | tr '\0' '\n' | sed -n '3~3p' |
  grep -qvx 'uns[a-z]*' && fail "a filter changes a file (.gitattributes); use shell"
made=$(printf '%s\n' "$message" | git commit-tree "$tree" ${head:+-p "$head"} -F -) || fail
printf 'ok\0%s\0%s\0' "$head" "$made"
cat "$fresh/names"
"""
)


@value
class Committer:
    """What git_commit works with."""

    files: FileStore
    sandbox: Sandbox
    scope: SearchScope
    protected: ProtectedFiles | None

    @property
    def is_offered(self) -> bool:
        """The workspace is a repository, and there is a git to run without its settings."""
        has_git = self.sandbox.kind == "bubblewrap" and shutil.which("git", path=SEARCH_PATH)
        return bool(has_git) and (self.files.workspace.root / ".git").is_dir()

    def find_branch(self) -> str:
        """The file that says which commit is the last of the branch. Raises ToolError."""
        head = self.files.workspace.read(".git/HEAD").decode("utf-8", "replace").strip()
        if not (found := BRANCH.fullmatch(head)):
            raise refuse("the repository is on no branch")
        return f".git/{found[1]}"

    def check_places(self, places: list[str], hidden: Sequence[str]) -> None:
        """Raises ToolError for what is not the owner's, or not for tools."""
        workspace = self.files.workspace
        for place in places:
            steps = PurePosixPath(place)
            if not place or is_protected(steps, (*hidden, ".git")):
                raise refuse(f"{place or '.'}: it is protected")
            if any(workspace.stat(f"{one}/.git") for one in (steps, *steps.parents[:-1])):
                raise refuse(f"{place}: it lies in a repository of its own")
            if workspace.stat(place):
                workspace.open_file(place).close()
        if not self.files.labels.owns_repository():
            raise refuse("something in the repository is a stranger's; use shell, or /trust .git")

    async def make(
        self, message: str, places: list[str], hidden: Sequence[str]
    ) -> tuple[str, str, list[str]]:
        """The commit before, the new one, and what it changes. Raises ToolError."""
        sandbox, output = self.sandbox, bytearray()
        patterns = (f"**/{one.strip('/')}" for one in hidden)
        left_out = [f":(exclude,glob,icase){one}{end}" for one in patterns for end in ("", "/**")]
        script = ["/bin/sh", "-c", SCRIPT, message, str(len(places)), *(places or [".", *left_out])]
        found = await asyncio.to_thread(self.protected.find) if self.protected else []
        unseen = [one for one in found if ".git" not in one.relative_to(sandbox.workspace).parts]
        argv = sandbox.wrap(script, hidden=unseen)
        ran = await stream_process(
            lambda data: output.extend(data[: MAX_BYTES - len(output)]),
            argv, sandbox.workspace, sandbox.env, TIMEOUT_S,
        )  # fmt: skip
        said = output.decode("utf-8", "surrogateescape")
        if ran.exit_code or not said.startswith("ok\0") or len(output) == MAX_BYTES:
            raise refuse("it took too long" if ran.timed_out else said[:MAX_SAID].strip())
        _, before, made, *names = said.removesuffix("\0").split("\0")
        return before, made, names


def refuse(why: str) -> ToolError:
    """The error that says so."""
    return ToolError(f"{why}. Nothing was committed.")


@tool(effect=Effect.WRITE, critical=("paths",))
async def git_commit(
    committer: Committer, context: ToolContext, message: str, paths: list[str] | None = None
) -> ToolOutput:
    """Commit in the git repository of the workspace: the files in paths, new ones too, or without
    paths all changes of files that git knows.
    """
    if not message.strip() or "\0" in message:
        raise refuse("message is empty; say what the commit changes")
    files, author = committer.files, ChangeAuthor.from_context(context)
    places = [*map(files.workspace.normalize, paths or [])]
    hidden = committer.scope.narrow(context, "").protected
    branch = await asyncio.to_thread(committer.find_branch)
    await asyncio.to_thread(committer.check_places, places, hidden)
    before, made, names = await committer.make(message.strip(), places, hidden)
    label = await asyncio.to_thread(files.labels.snapshot().label_of_names, names)
    label = author.label.join_with(label)

    def move(old: bytes | None) -> bytes:
        if old is not None and old.decode("ascii", "replace").strip() != before:
            raise refuse("somebody else committed just now")
        return f"{made}\n".encode()

    await files.write(branch, move, replace(author, label=label))
    outside = "; it holds text from outside" if label is Label.UNTRUSTED else ""
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ToolOutput(f"committed {made[:10]}: {', '.join(names[:10])}{more}{outside}", label=label)
