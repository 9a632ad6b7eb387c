"""The second engine: hypothesis takes each decision of the mutator, so that it can shrink them."""

import sys
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz.blob import unpacked
from tests.fuzz.choose import one_of
from tests.fuzz.mutator import Material, material, mutated
from tests.fuzz.worker import Worker


class Draws:
    """Decisions that hypothesis takes; see `tests.fuzz.choose.Chooser`."""

    def __init__(self, draw: Callable[[st.SearchStrategy[int]], int]) -> None:
        """`draw` is that of a composite strategy."""
        self._draw = draw

    def below(self, limit: int) -> int:
        """See `Chooser`."""
        return self._draw(st.integers(0, limit - 1))


@st.composite
def inputs(draw: st.DrawFn, known: Material) -> bytes:
    """A seed after one to three rounds of changes."""
    chooser = Draws(draw)
    data = one_of(chooser, known.blobs).packed()
    for _ in range(1 + chooser.below(3)):
        data = mutated(data, chooser, known)
    return data


def main(arguments: list[str]) -> None:
    """OUT NUMBER RUNS SEED SEEDS SCRATCH."""
    out, number, runs, chosen, seeds, scratch = arguments
    worker = Worker(Path(out), int(number), Path(scratch))
    known = material([unpacked(path.read_bytes()) for path in sorted(Path(seeds).iterdir())])

    @seed(int(chosen))
    @settings(
        max_examples=int(runs),
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(inputs(known))
    def test(data: bytes) -> None:
        worker.run(data)

    test()
    worker.write()


if __name__ == "__main__":
    main(sys.argv[1:])
