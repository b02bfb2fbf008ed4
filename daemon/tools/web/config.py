"""[tools.http] and [tools.web] in config.toml."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from daemon.tools.web.guard import AddressRefused, parse_host_port, parse_url


def _check_place(text: str) -> str:
    try:
        parse_host_port(text)
    except AddressRefused as error:
        raise ValueError(
            f'{text!r} is no "host:port", as in "localhost:8080" or "[::1]:8080"'
        ) from error
    return text


def _check_url(text: str) -> str:
    try:
        return text and str(parse_url(text).url)
    except AddressRefused as error:
        raise ValueError(f"{text!r} is no http(s) address: {error}") from error


class NetConfig(BaseModel):
    """Requests to the internet, of every kind of tool."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    allow: list[Annotated[str, AfterValidator(_check_place)]] = Field(
        [],
        description='"host:port" on this machine or in a private network that may be requested'
        " all the same; no others are",
    )
    timeout_s: float = Field(
        30, gt=0, le=300, description="a request that takes longer is given up"
    )
    max_bytes: int = Field(
        2_000_000, ge=10_000, le=50_000_000, description="of longer answers, only so much is read"
    )


class WebConfig(BaseModel):
    """Reading pages and searching."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    engine: Literal["auto", "searxng", "brave", "tavily", "ddgs"] = Field(
        "auto",
        description='"searxng" (needs base_url), "brave", "tavily" (need api_key), "ddgs" and'
        ' "auto" (no key, extra web)',
    )
    api_key: str = Field("", description="the key of Brave or Tavily")
    base_url: Annotated[str, AfterValidator(_check_url)] = Field(
        "", description="where SearXNG is; for the others, another server than theirs"
    )
    results: int = Field(5, ge=1, le=20, description="results of a search when no number is given")
    max_chars: int = Field(10_000, ge=500, le=200_000, description="longer pages are cut")
