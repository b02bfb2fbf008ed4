"""The model that finds what was said by its meaning, on this machine (A4)."""

from importlib.util import find_spec
from pathlib import Path

from daemon.ops.extra_models import MEMORY_MODEL, MEMORY_ONNX_BYTES
from daemon.ops.models import models_dir
from memory.embedder import ColBert

RUNTIME = ("onnxruntime", "tokenizers", "numpy")
INSTALL = "pip install 'aidaemon[memory]'"
PULL = "aidaemon model pull memory"


def describe_missing(folder: Path) -> str:
    """What to run so that it is there; "" for nothing."""
    is_installed = all(find_spec(one) for one in RUNTIME)
    steps = ([] if is_installed else [INSTALL]) + (
        [] if MEMORY_MODEL.is_present(folder) else [PULL]
    )
    return ", then ".join(steps)


def load_embedder() -> ColBert | None:
    """None where the extra `memory` or its file is missing. Raises EmbedderError."""
    folder = models_dir()
    if describe_missing(folder):
        return None
    return ColBert(MEMORY_MODEL.path(folder), MEMORY_ONNX_BYTES)
