"""[loops] in config.toml."""

from pydantic import BaseModel, ConfigDict, Field


class LoopsConfig(BaseModel):
    """What becomes of loops that a live page started when nobody looks any more (C10)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    teardown_on_disconnect: bool = Field(True, description="end them when their user's last connection is gone")
    teardown_grace_ms: int = Field(60_000, ge=0, le=86_400_000, description="milliseconds to come back in before that")
