"""The pages that people read first, as one text: README and what it was too long for."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    *(f"daemon/docs/{name}.md" for name in ("channels", "mail", "models", "permissions", "work")),
)
README = (ROOT / "README.md").read_text()
GUIDE = "\n".join((ROOT / page).read_text() for page in PAGES)
