"""A file on its way to a conversation: what the outbox says of it."""

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ValidationError

from channels.base import Refused


@dataclass(frozen=True, slots=True)
class Enclosed:
    """The file as it was when it was handed over, the name it is to have, and what is said with it."""

    path: Path
    name: str
    caption: str


class _Body(BaseModel):
    path: str
    name: str
    caption: str = ""


def enclosed(body: str, root: Path) -> Enclosed:
    """What a delivery of a file holds. Raises Refused where the copy is gone, or was never under `root`."""
    try:
        told = _Body.model_validate_json(body)
    except ValidationError as error:
        raise Refused("the delivery does not say which file") from error
    path = Path(told.path)
    if not path.is_relative_to(root) or not path.is_file():
        raise Refused(f"the copy of {told.name} is gone")
    return Enclosed(path, told.name, told.caption or told.name)
