"""aidaemon secret set|list|delete."""

import argparse
import json
import sys
from collections.abc import Mapping

from daemon.cli.parsing import Actions
from daemon.core.errors import AidaemonError, UsageError
from daemon.settings.dotted_keys import suggest
from daemon.settings.paths import Paths
from daemon.settings.redaction import MIN_LENGTH, format_handle, is_usable
from daemon.settings.secrets import (
    MAX_VALUE_CHARS,
    NAME,
    SecretEntry,
    SecretStore,
    check_host,
)

ACTIONS: Actions = {
    "set": (
        "keep one; the value is asked for, or read from standard input",
        {
            "NAME": "letters, digits, '_', '-', '.'",
            "--host H": {
                "action": "append",
                "help": "where tools may send it, HOST or HOST:PORT, any number;"
                " default: no change",
            },
            "--keyring": "keep the value in the desktop's keyring, not in secrets.toml",
        },
    ),
    "list": ("names and hosts, never values", {"--json": "for programs"}),
    "delete": ("forget one", {"NAME": ""}),
}


def run(args: argparse.Namespace, paths: Paths) -> int:
    """Do it. A daemon that runs sees the change with its next call."""
    secrets = SecretStore(paths.secrets)
    match args.action:
        case "set":
            _set(secrets, args)
        case "list":
            _list(secrets.list_entries(), as_json=args.json)
        case _:
            _delete(secrets, args.name)
    return 0


def _set(secrets: SecretStore, args: argparse.Namespace) -> None:
    if not NAME.fullmatch(args.name):
        raise UsageError(
            f"{args.name!r} is no name for a secret; expected letters, digits, '_', '-', '.'"
        )
    for host in args.host or ():
        check_host(host)
    known = secrets.list_entries()
    value = _value(args.name)
    secrets.check_value(args.name, value)
    before = known.get(args.name)
    hosts = before.hosts if args.host is None and before else tuple(args.host or ())
    secrets.put(args.name, value, hosts, keyring=args.keyring)
    _report(secrets, secrets.list_entries()[args.name], value)


def _value(name: str) -> str:
    """Never from the command line, where other users and the shell's history would see it."""
    if sys.stdin.isatty():
        from getpass import getpass  # lazy: for a terminal only

        value = getpass(f"Value of {name} (not shown): ")
    else:
        value = sys.stdin.read(MAX_VALUE_CHARS + 1)
    value = value.removesuffix("\n").removesuffix("\r")
    if not value.strip():
        raise UsageError(
            f"a value is needed: type it, or give it on stdin: aidaemon secret set {name} < FILE"
        )
    return value


def _report(secrets: SecretStore, entry: SecretEntry, value: str) -> None:
    where = "the keyring" if entry.keyring else secrets.path
    print(f"kept {entry.name} in {where}")
    if entry.hosts:
        hosts, handle = ", ".join(entry.hosts), format_handle(entry.name)
        print(f"Tools may send it to {hosts}, where the model writes {handle}; to nobody else.")
    else:
        allow = f"aidaemon secret set {entry.name} --host HOST"
        print(f"Tools may send it to no host. To let them: {allow}")
    print(f'config.toml may use it as "secret:{entry.name}".')
    if not is_usable(value, [entry.name]):
        print(
            f"It is too short or too common to be redacted (at least {MIN_LENGTH} characters):"
            " where it is printed, the model and the journal see it.",
            file=sys.stderr,
        )


def _list(entries: Mapping[str, SecretEntry], *, as_json: bool) -> None:
    if as_json:
        shown = [
            {"name": one.name, "hosts": list(one.hosts), "keyring": one.keyring}
            for one in entries.values()
        ]
        print(json.dumps(shown, ensure_ascii=False))
        return
    if not entries:
        print("there are no secrets yet; keep one: aidaemon secret set NAME", file=sys.stderr)
    width = max(map(len, entries), default=0)
    for one in entries.values():
        held = "  (in the keyring)" if one.keyring else ""
        print(f"{one.name:<{width}}  {', '.join(one.hosts) or '-'}{held}")


def _delete(secrets: SecretStore, name: str) -> None:
    if secrets.delete(name):
        print(f"deleted {name}")
        return
    hint = suggest(name, secrets.list_entries())
    raise AidaemonError(f"there is no secret named {name!r}{hint}; nothing was deleted")
