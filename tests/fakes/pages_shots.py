"""A picture of a page, by hand: `python -m tests.fakes.pages_shots URL OUT.png [--size 420x900] [--wait 3000]`."""

import argparse
import subprocess
import tempfile
from pathlib import Path


def shoot(url: str, out: Path, size: str = "420x900", wait_ms: int = 3000) -> None:
    """Save a screenshot of the page as it looks after so many milliseconds. Raises CalledProcessError, TimeoutExpired."""
    with tempfile.TemporaryDirectory() as profile:
        command = [
            "chromium",
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--force-device-scale-factor=2",
            f"--user-data-dir={profile}",
            f"--window-size={size.replace('x', ',')}",
            f"--timeout={wait_ms}",
            f"--virtual-time-budget={wait_ms}",
            f"--screenshot={out.absolute()}",
            url,
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=wait_ms / 1000 + 60)


def main() -> None:
    """Take one."""
    parser = argparse.ArgumentParser(prog="python -m tests.fakes.pages_shots")
    parser.add_argument("url")
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", default="420x900")
    parser.add_argument("--wait", type=int, default=3000)
    asked = parser.parse_args()
    shoot(asked.url, asked.out, asked.size, asked.wait)


if __name__ == "__main__":
    main()
