"""Dovecot, a real IMAP server, thrown away afterwards. Runs as root, or as any user."""

import asyncio
import grp
import imaplib
import os
import pwd
import shutil
import smtplib
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

USER, PASSWORD = "bot@example.net", "app-password-4711"
SERVER = "mx.example.net"
OAUTH = """
passdb {{
  driver = oauth2
  mechanisms = xoauth2
  args = {base}/oauth.conf
}}
"""
INTROSPECTION = """
introspection_mode = get
introspection_url = {url}/introspect?token=
username_attribute = email
active_attribute = active
active_value = true
"""
CONFIG = """
protocols = imap lmtp
base_dir = {base}/run
state_dir = {base}/run
log_path = {base}/log
default_internal_user = {user}
default_login_user = {user}
default_internal_group = {group}
first_valid_uid = 0
first_valid_gid = 0
ssl = no
disable_plaintext_auth = no
auth_mechanisms = plain login {mechanism}
auth_failure_delay = 0
mail_location = maildir:~/Maildir
mail_max_userip_connections = 100
protocol imap {{
  imap_capability = {capability}
}}
passdb {{
  driver = passwd-file
  args = {base}/users/%u
}}
userdb {{
  driver = passwd-file
  args = {base}/users/%u
}}
service anvil {{
  chroot =
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    address = 127.0.0.1
    port = {imap}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
service lmtp {{
  inet_listener lmtp {{
    address = 127.0.0.1
    port = {lmtp}
  }}
}}
service stats {{
  chroot =
}}
service old-stats {{
  chroot =
}}
namespace inbox {{
  inbox = yes
  separator = /
}}
"""


def free_port() -> int:
    """A port that nobody listens at just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Dovecot:
    """A mailbox, `USER` with `PASSWORD`, and others that get a password. `idle`: whether it offers IDLE.
    `tokens`: the server that knows whose an access token is.
    """

    def __init__(self, *, idle: bool = True, tokens: str = "") -> None:
        self.base = Path(mkdtemp(prefix="dc"))
        self.port, self.lmtp = free_port(), free_port()
        self._process: subprocess.Popen[bytes] | None = None
        me, group = pwd.getpwuid(os.getuid()), grp.getgrgid(os.getgid()).gr_name
        if os.getuid() == 0:
            me, group = pwd.getpwnam("dovecot"), "dovecot"
        for folder in ("mail", "run", "users"):
            (self.base / folder).mkdir()
        self._me = me
        self.set_password(PASSWORD)
        capability = "" if idle else "IMAP4rev1 SASL-IR LITERAL+ UIDPLUS"
        text = CONFIG.format(
            base=self.base, user=me.pw_name, group=group, imap=self.port, lmtp=self.lmtp,
            capability=capability, mechanism="xoauth2" if tokens else "",
        )  # fmt: skip
        if tokens:
            (self.base / "oauth.conf").write_text(INTROSPECTION.format(url=tokens))
            text = OAUTH.format(base=self.base) + text
        (self.base / "d.conf").write_text(text)
        if os.getuid() == 0:
            subprocess.run(["chown", "-R", f"{me.pw_name}:{group}", self.base], check=True)
            self.base.chmod(0o755)

    def set_password(self, password: str, user: str = USER) -> None:
        """The account's password from now on; a new one has an empty mailbox."""
        home = self.base / "mail" / ("" if user == USER else user)
        line = f"{user}:{{PLAIN}}{password}:{self._me.pw_uid}:{self._me.pw_gid}::{home}::\n"
        (self.base / "users" / user).write_text(line)

    def until_lets_in(self, user: str, password: str, *, does: bool) -> None:
        """Wait until the server has seen how that is: it looks once a second."""
        for _ in range(100):
            with imaplib.IMAP4("127.0.0.1", self.port) as client:
                is_in = False
                with suppress(imaplib.IMAP4.error):
                    is_in = client.login(user, password)[0] == "OK"
            if is_in is does:
                return
            time.sleep(0.05)
        raise TimeoutError(user)

    async def start(self) -> None:
        """Listen, at the same ports as before; once is enough."""
        if self._process:
            return
        program = shutil.which("dovecot", path="/usr/sbin:/usr/local/sbin") or "dovecot"
        self._process = subprocess.Popen(  # noqa: ASYNC220
            [program, "-F", "-c", str(self.base / "d.conf")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(200):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                writer.close()
                return
            except OSError:
                await asyncio.sleep(0.05)
        raise RuntimeError((self.base / "log").read_text())

    async def stop(self) -> None:
        """No longer reachable; the mails stay."""
        await asyncio.to_thread(self.end)

    def end(self) -> None:
        """The same, for who waits for it."""
        if self._process:
            self._process.terminate()
            self._process.wait(10)
            self._process = None

    def number_anew(self) -> None:
        """While it is stopped: it forgets its numbers, and has a new UIDVALIDITY afterwards."""
        for one in (self.base / "mail" / "Maildir").glob("dovecot*"):
            one.unlink()

    def move_away_and_back(self) -> None:
        """All mails go to another folder and return, under new numbers."""
        with imaplib.IMAP4("127.0.0.1", self.port) as client:
            client.login(USER, PASSWORD)
            client.create("aside")
            for here, there in (("INBOX", "aside"), ("aside", "INBOX")):
                client.select(here)
                client.copy("1:*", there)
                client.store("1:*", "+FLAGS", "\\Deleted")
                client.expunge()

    async def remove(self) -> None:
        """Stop, and delete everything."""
        await self.stop()
        shutil.rmtree(self.base, ignore_errors=True)

    async def deliver(self, *mails: bytes, sender: str = "someone@example.org") -> None:
        """By LMTP, as a mail server does it."""
        await asyncio.to_thread(self.put, *mails, sender=sender)

    def put(self, *mails: bytes, sender: str = "someone@example.org", user: str = USER) -> None:
        """The same, for who does not wait."""
        with smtplib.LMTP("127.0.0.1", self.lmtp) as client:
            for mail in mails:
                client.sendmail(sender, [user], mail)
