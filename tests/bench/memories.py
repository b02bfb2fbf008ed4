"""What memory costs, what it finds, and why: `python -m tests.bench memory`."""

import os

from daemon.ops.memory_model import load_embedder
from daemon.recall.embedding import ThreadedEmbedder
from tests.bench import distractions, recalls, remembering, signals, standing, tongues
from tests.bench.figures import Figure
from tests.bench.world import World


async def have(world: World) -> list[Figure]:
    """All figures of the memory. What asks for meaning is told where the model is there."""
    found, model = await standing.memory(world), load_embedder()
    if not model:
        found.append(Figure("recall by meaning: `aidaemon model pull memory` first", 0, ""))
    for one in (None, model) if model else (None,):
        embedder = await ThreadedEmbedder.load(lambda one=one: one)
        if recalls.DATA.exists():
            place = world.new_place()
            found += await recalls.measure_recall(place, one)
            found += await signals.measure(place, embedder)
        found += await tongues.measure(world.new_place(), embedder)
        if embedder:
            await embedder.aclose()
    if recalls.DATA.exists():
        found += await distractions.measure(world.new_place())
    else:
        found.append(Figure(f"recall: {recalls.DATA.name} is not here", 0, ""))
    found += await remembering.measure_turns(world)
    sizes = recalls.SIZES + recalls.FULL_SIZES * bool(os.environ.get("AIDAEMON_TEST_FULL"))
    for size in sizes:
        for by_meaning in (False, True):
            found += await recalls.measure_scale(world.new_place(), size, by_meaning=by_meaning)
    return found
