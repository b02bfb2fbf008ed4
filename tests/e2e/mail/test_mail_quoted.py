"""Files of a server that sends short ones as quoted strings, and empty ones as nothing (m11). The daemon as a process."""

from pathlib import Path

import pytest

from tests.e2e.mail.test_mail_content import inbox
from tests.fakes.mail.chaos import Chaos
from tests.fakes.mail.dovecot import Dovecot
from tests.fakes.mail.mailbox import at_mailbox
from tests.fakes.mail.quoting import QuotingImap
from tests.fakes.mail.server import MailServer, write_mail
from tests.fakes.mail.sink import SmtpSink
from tests.fakes.openai import FakeOpenAI

FILES = {"short.txt": b"one line", "empty.txt": b"", "long.txt": b"more " * 100}
ODD = 'a "b" * c \\ (d {5}'


@pytest.mark.parametrize("empty", [b'""', b"NIL", b"{0}\r\n"])
async def test_m11_short_and_empty_files_arrive_however_the_server_sends_them(
    tmp_path: Path, empty: bytes
) -> None:
    imap, sink = QuotingImap(empty), SmtpSink()
    await imap.start()
    await sink.start()
    proxy, dovecot = Chaos(imap.port), Dovecot()
    await proxy.start()
    mail = write_mail("my files", files={**FILES, "odd.txt": b"ODD"})
    plain = b'Content-Type: text/plain\nContent-Disposition: attachment; filename="odd.txt"\n\n'
    parts = mail.rsplit(b"--===", 2)
    mail = b"--===".join(
        (parts[0], parts[1].partition(b"\n")[0] + b"\n" + plain + ODD.encode() + b"\n", parts[2])
    )
    try:
        async with FakeOpenAI() as model:
            server = MailServer(dovecot, proxy, sink)
            config = {"allowed_senders": ["ann@example.org"], "poll_seconds": 1}
            async with at_mailbox(tmp_path, model, server, None, **config):
                imap.mails.append(mail)
                await model.asked(1)
            text = str(model.requests[0].last("user")["content"])
    finally:
        await proxy.stop()
        await sink.stop()
        await imap.stop()
        await dovecot.remove()
    assert "not there any more" not in text
    found = {file.name.partition("-")[2]: file.read_bytes() for file in inbox(tmp_path)}
    assert found == {**FILES, "odd.txt": ODD.encode()}
