"""The model that writes down what is said, on this machine (G1)."""

from daemon.ops.extra_models import VOICE_MODEL, VOICE_SIZES
from daemon.ops.models import models_dir
from daemon.tools.documents.speech import SpeechReader, is_installed
from daemon.tools.shell.sandbox import Sandbox

INSTALL, PULL = "pip install 'aidaemon[voice]'", "aidaemon model pull voice"


def describe_missing_voice() -> str:
    """What to run so that it is there; "" for nothing."""
    steps = [] if is_installed() else [INSTALL]
    steps += [] if VOICE_MODEL.is_present(models_dir()) else [PULL]
    return ", then ".join(steps)


def make_speech_reader(sandbox: Sandbox, language: str) -> SpeechReader:
    """It says what is missing when it is asked."""
    path = VOICE_MODEL.path(models_dir())
    return SpeechReader(sandbox, path, VOICE_SIZES, describe_missing_voice, language)
