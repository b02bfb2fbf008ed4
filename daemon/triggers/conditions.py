"""What a schedule looks at before it calls a model: a command, a page, a file, a mailbox (issue 12,
cheap wakes). What is refused or fails counts as nothing new, and is told once.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping

from channels.base import ChannelError
from channels.email.config import EmailAccount
from daemon.core import value
from daemon.core.errors import UsageError
from daemon.core.ids import MAIL_CHANNEL
from daemon.core.trust import Label
from daemon.tools.base import ToolError
from daemon.tools.calls import HEARTBEAT_FILE
from daemon.tools.criteria_checks import CriteriaChecker
from daemon.tools.web.client import WebClient
from daemon.tools.web.requests import follow_redirects
from daemon.tools.workspace.file_store import FileStore
from daemon.triggers.config import CONDITIONS

MAIL_COUNT = re.compile(r"([1-9]\d{0,4})(?: +(\S{1,80}))?")
LOOK_S = 60.0
MAX_TEXT = 20_000
HEARTBEAT_PROMPT = (
    "This is your own look at what is to be done, as the list below says. Do what is due now."
    " If there is nothing to do and nothing to say, answer with the one word NOTHING."
)
NOT_YOURS = (
    f"{HEARTBEAT_FILE} is not known to be yours, so its runs are not trusted, and what it says is"
    f" no order. If it is yours: /trust {HEARTBEAT_FILE}"
)
EXPECTED = "expected one of { command = ... }, { url = ... }, { file = ... }, { mail = ... }"


@value
class Look:
    """What was found: whether there is something new; `seen` to compare with the next time;
    `trouble` for the owner. `text` goes behind the prompt, with its label.
    """

    is_new: bool
    seen: str = ""
    trouble: str = ""
    text: str = ""
    label: Label = Label.TRUSTED


def check_condition(condition: Mapping[str, str]) -> str:
    """As JSON; "" for none. Raises UsageError."""
    if not condition:
        return ""
    if len(condition) != 1 or not set(condition) <= {*CONDITIONS}:
        raise UsageError(f"condition: found {', '.join(condition)}; {EXPECTED}")
    [(kind, what)] = condition.items()
    if not what.strip() or len(what) > 2000:
        raise UsageError(f"condition: {kind} is empty or too long; {EXPECTED}")
    if kind == "url" and not what.startswith(("http://", "https://")):
        raise UsageError("condition: url begins with https:// or http://")
    if kind == "mail" and not MAIL_COUNT.fullmatch(what):
        raise UsageError('condition: mail is a number of new mails, "3", or "3 work/email"')
    return json.dumps(dict(condition))


@value
class ConditionChecker:
    """Commands run in the sandbox, without the network, and only while all that they may run is the
    owner's; addresses are fetched by GET under the rules for addresses. `mailboxes`: by their
    channels' names.
    """

    criteria: CriteriaChecker
    client: WebClient
    files: FileStore
    mailboxes: Mapping[str, EmailAccount]

    async def look(self, condition: str, seen: str) -> Look:
        """What a condition says now; `seen` is what was found the last time."""
        [(kind, what)] = json.loads(condition).items()
        try:
            async with asyncio.timeout(LOOK_S + 10):
                if kind == "command":
                    return await self._run(what)
                if kind == "url":
                    return await self._fetch(what, seen)
                if kind == "mail":
                    return await self._count(what, seen)
                return await self._read(what)
        except (ToolError, ChannelError, OSError, TimeoutError) as error:
            return Look(False, seen, f"its condition could not be looked at: {error or 'too slow'}")

    async def _run(self, command: str) -> Look:
        found = await self.criteria.run_command(command)
        return Look(found.met, trouble=found.warning)

    async def _fetch(self, url: str, seen: str) -> Look:
        async def allow(address: str) -> None:
            """The owner named the address; where it leads, the rules for addresses hold."""

        response = await follow_redirects(self.client, url, {}, allow)
        if response.status >= 400:
            return Look(False, seen, f"{url} answers {response.status}")
        digest = hashlib.sha256(response.body).hexdigest()
        return Look(seen not in ("", digest), digest)

    async def _count(self, what: str, seen: str) -> Look:
        """So many mails since the last run; what is there at the first look is not new."""
        found = MAIL_COUNT.fullmatch(what)
        name = (found and found[2]) or MAIL_CHANNEL
        account = self.mailboxes.get(name)
        if found is None or account is None:
            return Look(False, seen, f"its condition names the mailbox {name}, which is not set up")
        from channels.email.imap import count_since  # lazy: the library of IMAP

        count, now = await count_since(account, seen)
        is_new = count >= int(found[1])
        return Look(is_new, now if is_new or not seen else seen)

    async def _read(self, path: str) -> Look:
        place = self.files.workspace.normalize(path)  # raises for one outside
        if self.files.workspace.stat(place) is None:
            return Look(False)
        if path != HEARTBEAT_FILE:
            return Look(True)
        text, label, _ = await self.files.read(path, lambda raw: raw.decode("utf-8", "replace"))
        if not await asyncio.to_thread(self.files.labels.is_same, path):
            label = Label.UNTRUSTED
        trouble = NOT_YOURS if label is Label.UNTRUSTED else ""
        return Look(bool(text.strip()), trouble=trouble, text=text[:MAX_TEXT], label=label)
