"""What [http] may say."""

from ipaddress import ip_address

from pydantic import BaseModel, ConfigDict, Field, field_validator


class HttpConfig(BaseModel):
    """The daemon's door for this machine. Other machines come in by a tunnel or a proxy of the owner's."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    host: str = Field("127.0.0.1", description="the address to listen on; a loopback one")
    port: int = Field(8080, ge=0, le=65535, description="the port to listen on; 0: any free one")
    token: str = Field("", repr=False, description="what a client must show; generated and kept in secrets.toml when empty")

    @field_validator("host")
    @classmethod
    def _stays_on_this_machine(cls, host: str) -> str:
        if not is_loopback(host):
            raise ValueError(f"{host!r} is not an address of this machine alone; expected 127.0.0.1, ::1 or localhost")
        return host

    @field_validator("token")
    @classmethod
    def _fits_a_header(cls, token: str) -> str:
        if not (token.isascii() and token.isprintable()):
            raise ValueError("must be printable ASCII, as it is sent in an HTTP header")
        return token.strip()


def is_loopback(host: str) -> bool:
    """The name or address means this machine and no other, without asking a resolver."""
    try:
        return host.lower() == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
