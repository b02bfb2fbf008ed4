"""What the kernel says: whose CPU, whose memory, which disk."""

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

TICKS = os.sysconf("SC_CLK_TCK")
MOUNTED = Path("/proc/self/mounts")
IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, its threads and the children it has waited for; in ticks of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def own_cpu_seconds() -> float:
    """User and system time of this process."""
    return time.process_time()


def rss_mb(pid: int) -> float:
    """Resident memory in MB (10^6 bytes)."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@dataclass(slots=True)
class Yardstick:
    """A fixed piece of work, measured again and again: neighbours on the same silicon make CPU time itself longer."""

    spent: list[float] = field(default_factory=list)

    def measure(self) -> None:
        """Do it once; some milliseconds."""
        began = time.process_time()
        for _ in range(200_000):
            pass
        self.spent.append(time.process_time() - began)

    @property
    def stretch(self) -> float:
        """How much longer than at its best it usually took."""
        return median(self.spent) / min(self.spent)


def load() -> str:
    """How busy the machine is with other things."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def filesystem(path: Path, mounted: Path = MOUNTED) -> str:
    """The kind of filesystem a path lies on, by the longest mount point that holds it."""
    mounts = [line.split() for line in mounted.read_text().splitlines()]
    holding = [
        (mount, kind) for _, mount, kind, *_ in mounts if path.resolve().is_relative_to(mount)
    ]
    return max(holding, key=lambda found: len(found[0]))[1]


def is_disk(path: Path, mounted: Path = MOUNTED) -> bool:
    """Whether a flush to it reaches something that outlives the power."""
    return filesystem(path, mounted) not in IN_MEMORY
