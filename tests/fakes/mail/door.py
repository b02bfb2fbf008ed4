"""Mails at the door of a daemon in this process, as the mailbox's reader hands them over."""

from channels.email.compose import MailHead
from channels.email.config import EmailAccount
from channels.message import Address, InboundMail, Sender
from daemon.app.daemon import Daemon
from daemon.core.rows import OutboxRow
from daemon.triggers.mail import MailTrigger

MAILBOX = "email"
ACCOUNT = EmailAccount.model_validate(
    {
        "imap_host": "127.0.0.1", "imap_tls": False, "smtp_host": "127.0.0.1", "smtp_tls": False,
        "username": "me@example.net", "password": "app-password-4711", "reply": True,
        "allowed_senders": ["@evil.example"], "notify": "web:owner",
    }
)  # fmt: skip


class MailDoor:
    """Each mail is from a stranger whom the config allows: proven, known, and answered by mail."""

    def __init__(self, house: Daemon) -> None:
        self._house, self._sent = house, 0
        self._trigger: MailTrigger = house.make_mail_trigger({MAILBOX: ACCOUNT})

    async def deliver(
        self, text: str, thread: str = "t", sender: str = "friend@evil.example"
    ) -> str:
        """The turn that this mail begins. Mails of one thread are one conversation."""
        self._sent += 1
        number = f"<{self._sent}@evil.example>"
        mail = InboundMail(
            Address(MAILBOX, sender, thread),
            Sender(sender, "Eve"),
            f"mail/{self._sent}",
            text,
            MailHead("hello", number).to_token(),
            subject="hello",
            shown_from=sender,
            proven=True,
            why="DMARC passed",
        )
        row = await self._trigger.accept(mail)
        assert row is not None
        return row.turn

    async def left(self) -> list[OutboxRow]:
        """What goes out by mail."""
        rows = await self._house.store.read(lambda tx: tx.list_unsent(MAILBOX))
        return list(rows)
