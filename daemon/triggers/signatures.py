"""Who sent an event, by its signature: as GitHub, Stripe and Slack sign, or any HMAC (A16). Pure.

The signature is over the very bytes that came. What it proves is checked before anything of the
body is read as JSON; what it does not cover (other headers, the address) proves nothing.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from daemon.core.errors import AidaemonError

Scheme = Literal["github", "stripe", "slack", "hmac"]
MAX_HEADER = 2000
MAX_SIGNATURES = 5


class BadSignature(AidaemonError):
    """Not from who it is to be from, or not from now; nothing was accepted."""


class SignedConfig(BaseModel):
    """[events.signed.NAME]: how the events of this name are signed."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    scheme: Scheme = Field(description='"github", "stripe", "slack", or "hmac" with the keys below')
    secret: str = Field(
        min_length=8, repr=False, description='the shared secret: better "secret:NAME"'
    )
    tolerance_s: int = Field(
        300, ge=1, le=86_400, description="a signed time may be so many seconds old, or ahead"
    )
    header: str = Field("X-Signature", description='of "hmac": the header with the signature')
    prefix: str = Field("", description='of "hmac": what stands before the signature: "sha256="')
    timestamp_header: str = Field(
        "",
        description='of "hmac": the header with the time, in seconds since 1970; what is signed is'
        " then TIME.BODY; empty: the body alone, which whoever saw it can send again",
    )
    id_header: str = Field(
        "", description='of "hmac": the header with the id of the delivery; one id counts once'
    )
    digest: Literal["sha256", "sha512"] = Field("sha256", description='of "hmac": the hash')
    encoding: Literal["hex", "base64"] = Field("hex", description='of "hmac": of the signature')

    @model_validator(mode="after")
    def _check_header(self) -> "SignedConfig":
        if not self.header.strip():
            raise ValueError("header: expected the name of the header with the signature")
        return self


def verify(config: SignedConfig, headers: Mapping[str, str], raw: bytes, now: datetime) -> str:
    """The key of the event: the same one twice is the same event. Where a time is signed, the key
    follows from what is signed, else from the delivery's id; "" without one. Raises BadSignature.
    """
    match config.scheme:
        case "github":
            found = _one(headers, "X-Hub-Signature-256").removeprefix("sha256=")
            _check(config, b"", raw, [_decode(found, "hex")])
            return _find_id(headers, "X-GitHub-Delivery")
        case "stripe":
            parts = [part.partition("=") for part in _one(headers, "Stripe-Signature").split(",")]
            times = [text for name, _, text in parts if name.strip() == "t"]
            signatures = [text for name, _, text in parts if name.strip() == "v1"]
            at = _check_time(config, times[0] if len(times) == 1 else "", now)
            found = [_decode(text, "hex") for text in signatures[:MAX_SIGNATURES]]
            _check(config, f"{at}.".encode(), raw, found)
            return _name_signed(raw)  # signed with a new time when it is sent again
        case "slack":
            at = _check_time(config, _one(headers, "X-Slack-Request-Timestamp"), now)
            found = _one(headers, "X-Slack-Signature").removeprefix("v0=")
            _check(config, f"v0:{at}:".encode(), raw, [_decode(found, "hex")])
            return _name_signed(raw)
        case "hmac":
            found, before = _one(headers, config.header), b""
            if not found.startswith(config.prefix):
                raise BadSignature(f"the header {config.header} does not begin as expected")
            if config.timestamp_header:
                at = _check_time(config, _one(headers, config.timestamp_header), now)
                before = f"{at}.".encode()
            signature = _decode(found.removeprefix(config.prefix), config.encoding)
            _check(config, before, raw, [signature])
            return _name_signed(before + raw) if before else _find_id(headers, config.id_header)


def _one(headers: Mapping[str, str], name: str) -> str:
    """The header, which must be there once: two would be two stories."""
    get_all = getattr(headers, "getall", None)
    found = get_all(name, []) if get_all else [headers[name]] if name in headers else []
    if len(found) != 1 or len(found[0]) > MAX_HEADER:
        raise BadSignature(f"expected the header {name} once")
    return found[0].strip()


def _decode(text: str, encoding: str) -> bytes:
    try:
        if not text.isascii():
            return b""
        return bytes.fromhex(text) if encoding == "hex" else base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return b""


def _check_time(config: SignedConfig, text: str, now: datetime) -> str:
    """The time as it was written, for that is what was signed."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 12):
        raise BadSignature("expected the time of the signature, in seconds since 1970")
    if abs(now.timestamp() - int(text)) > config.tolerance_s:
        raise BadSignature(
            f"it was signed more than {config.tolerance_s} s ago, or the clocks differ"
        )
    return text


def _check(config: SignedConfig, before: bytes, raw: bytes, signatures: list[bytes]) -> None:
    name = config.digest if config.scheme == "hmac" else "sha256"
    wanted = hmac.new(config.secret.encode(), before + raw, name).digest()
    if not any([hmac.compare_digest(wanted, one) for one in signatures]):
        raise BadSignature("the signature does not fit the body")


def _name_signed(signed: bytes) -> str:
    return f"signed/{hashlib.sha256(signed).hexdigest()}"


def _find_id(headers: Mapping[str, str], name: str) -> str:
    """By the id that the sender gave this delivery; "" where it gave none."""
    if not name or name not in headers:
        return ""
    given = _one(headers, name).encode(errors="surrogateescape")
    return f"delivery/{hashlib.sha256(given).hexdigest()}"
