"""The start of a training that was not told: its seed is guessed, it is estimated, or the optimiser's state serves."""

from attacks.knowledge import Knowledge, Threat

NO_UPDATE = "no low-rank update: its layers moved by full ranks, or its biases moved"
UNLIKE = "the seed tells its first layer alone: no description here fits which of its layers have biases"
THREATS = {
    "known": Threat.START,
    "guess": Threat.SEED,
    "uniform": Threat.WEIGHTS,
    "forgotten": Threat.WEIGHTS,
    "momentum": Threat.MOMENTUM,
}
"""Who can mount an attack, by how it has the start: told, guessed, estimated, forgotten by the training, or replaced by
the optimiser's state."""
NO_MOMENTUM = "its optimiser's state was not released with its weights"


def knowledge_of(needs: frozenset[Knowledge], start: str) -> frozenset[Knowledge]:
    """Return what an attack is told, by how it has the start, of needs that hold the initial weights."""
    if start == "known":
        return needs
    other = {Knowledge.MOMENTUM} if start == "momentum" else set()
    return needs - {Knowledge.INITIAL_WEIGHTS} | other
