"""An MCP server made with the library, of the newest protocol, that asks a person back; argument 1 is its log."""

import sys
from pathlib import Path
from typing import Annotated, Literal

from mcp.server.mcpserver import AcceptedElicitation, Elicit, ElicitationResult, MCPServer, Resolve
from pydantic import BaseModel, Field

server = MCPServer("asking")
log = Path(sys.argv[1])


class Booking(BaseModel):
    room: Literal["red room", "blue room"] = Field(description="which of the two")
    people: int = Field(ge=1, le=8)


async def ask(day: str) -> Elicit[Booking]:
    return Elicit(f"Where shall I book for {day}?", Booking)


def note(line: str) -> None:
    with log.open("a") as file:
        file.write(f"{line}\n")


@server.tool()
async def book(day: str, wish: Annotated[ElicitationResult[Booking], Resolve(ask)]) -> str:
    """Book a room."""
    said = wish.action
    if isinstance(wish, AcceptedElicitation):
        said = f"{wish.data.room} for {wish.data.people}"
    note(f"{day}: {said}")
    return f"booked: {said}"


server.run()
