"""The benchmark measures what it says: loads are what was asked for, figures and ratios are right."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from statistics import median
from types import SimpleNamespace

import pytest
import torch

from inference.native.library import Unbuilt, library
from scripts.bench import table
from scripts.bench.contender import Apart, Contender, Player
from scripts.bench.generate import Generate, padded
from scripts.bench.hearth import Hearth, settled
from scripts.bench.load import Load, Request, Run, alike, unlike, warming
from scripts.bench.piece import Piece, Results
from scripts.bench.pieces import PIECES, prefix
from scripts.bench.rounds import measure, turned
from scripts.bench.server import Told, body, take
from scripts.bench.terms import Terms

TERMS = Terms("tiny", "float32", "cpu", threads=1)


class Paced:
    """A Player that takes a second for so many tokens."""

    about = "made up"

    def __init__(self, pace: float) -> None:
        self.pace = pace
        self.stopped = False

    def run(self, load: Load) -> Run:
        tokens = sum(request.tokens for request in load)
        seconds = tokens / self.pace
        return Run(seconds, [[seconds / 2, seconds] for _ in load], tokens, cpu=seconds / 4)

    def stop(self) -> None:
        self.stopped = True


def of(*players: Player, loads: int = 1) -> Piece:
    named = [Contender(f"p{number}", lambda player=player: player) for number, player in enumerate(players)]
    made = {f"load {number}": [Request((1, 2), 10)] for number in range(loads)}
    return Piece("made", "made up", "tiny", lambda terms, number: made, lambda terms: named)


def test_a_runs_figures_follow_from_its_stamps() -> None:
    run = Run(2.0, [[0.1, 0.2, 0.4], [0.3, 0.5, 1.5]], tokens=8, cpu=4.0)
    assert run.tokens_per_second == 4 and run.tokens_per_cpu_second == 2
    assert run.first_ms(0) == pytest.approx(100) and run.first_ms(0.99) == pytest.approx(300)
    assert run.gap_ms(0.5) == pytest.approx(200) and run.gap_ms(0.99) == pytest.approx(1000)
    assert Run(1.0, [[0.5]], tokens=1, cpu=1.0).gap_ms(0.5) == 0


def test_a_load_is_the_same_again_and_another_in_another_round() -> None:
    first, again, other = (
        unlike(Random(seed), 500, 9, prompt=30, answer=20, spread=0.7) for seed in (1, 1, 2)
    )
    assert first == again != other
    assert all(16 <= id < 500 for request in first for id in request.ids)


def test_spread_lengths_lie_around_the_middle_and_are_bounded() -> None:
    load = unlike(Random(5), 500, 400, prompt=40, answer=20, spread=0.7)
    lengths = [len(request.ids) for request in load]
    assert 34 <= median(lengths) <= 46 and len(set(lengths)) > 50
    assert min(lengths) >= 1 and max(lengths) <= 160 and max(request.tokens for request in load) <= 80


def test_a_warm_up_is_short() -> None:
    (request,) = warming({"one": alike(Random(1), 500, 64, prompt=32, answer=32)})
    assert len(request.ids) == 32 and request.tokens == 4


def test_the_prefix_is_shared_within_a_round_and_new_in_the_next() -> None:
    together, later = prefix.loads(TERMS, 1).values()
    shared = {request.ids[: prefix.SHARED] for request in [*together, *later]}
    own = {request.ids[prefix.SHARED :] for request in [*together, *later]}
    assert len(shared) == 1 and len(own) == prefix.COUNT + 1
    assert prefix.loads(TERMS, 2)["1 later"][0].ids[: prefix.SHARED] not in shared


def test_every_piece_makes_loads_that_its_model_can_take() -> None:
    for piece in PIECES.values():
        for load in piece.loads(TERMS, 1).values():
            assert load and all(0 <= id < TERMS.vocab for request in load for id in request.ids)
            assert all(len(request.ids) + request.tokens <= 2048 for request in load)


def test_ratios_are_of_the_first_to_each_other_and_all_are_stopped() -> None:
    players = Paced(30), Paced(10), Paced(15)
    results = measure(of(*players, loads=2), TERMS, rounds=2, settle_s=0)
    pace = results.pace("load 0")
    assert results.loads == ["load 0", "load 1"]
    assert results.ratios("load 1", "p1", pace) == pytest.approx([3, 3])
    assert results.ratios("load 0", "p2", pace) == pytest.approx([2, 2])
    assert all(player.stopped for player in players)


def test_no_contender_always_goes_first() -> None:
    names = ["a", "b", "c"]
    assert {turned(names, number)[0] for number in range(3)} == set(names)
    assert all(sorted(turned(names, number)) == names for number in range(3))


def test_the_table_has_medians_in_line_and_says_what_was_measured() -> None:
    results = Results(of(), TERMS, about={"ours": "slots", "theirs": ""})
    for name, paces in (("ours", (30, 10, 20)), ("theirs", (5, 5, 5))):
        results.runs["l", name] = [Paced(pace).run([Request((1,), 10)]) for pace in paces]
    lines = list(table.lines(results))
    assert lines[1] == "tiny, float32, cpu, 1 thread, medians of 3 rounds"
    header, ours = (next(line for line in lines if line.startswith(start)) for start in ("load", "l  "))
    assert [*ours.split()][:5] == ["l", "ours", "20.0", "10.0", "30.0"]
    assert ours.index("20.0") + 4 == header.index("tokens/s") + len("tokens/s")
    assert "l: ours ÷ theirs: 4.00 × tokens/s (2.00 to 6.00), 4.00 × per CPU second (2.00 to 6.00)" in lines


def test_static_batches_are_padded_on_the_left() -> None:
    ids, mask = padded([Request((5, 6, 7), 1), Request((8,), 1)], "cpu")
    assert ids.tolist() == [[5, 6, 7], [0, 0, 8]] and mask.tolist() == [[1, 1, 1], [0, 0, 1]]


def test_a_streams_chunks_are_timed_where_they_show_text() -> None:
    told = Told([])
    for at, chunk in enumerate(
        ({"choices": [{"text": "a"}]}, {"choices": [{"text": ""}]}, {"usage": {"completion_tokens": 7}})
    ):
        take(told, chunk, float(at))
    assert told == Told([0.0], 7)
    assert body(Request((3, 4), 7))["prompt"] == [3, 4]


def loads(terms: Terms, number: int) -> dict[str, Load]:
    return {"three": unlike(Random(number), terms.vocab, 3, prompt=40, answer=6, spread=0.5)}


@pytest.mark.parametrize(
    "start",
    [Hearth, partial(Hearth, reuse=False, drafts=4), partial(Generate, batch=2)],
    ids=("ours", "drafts", "generate"),
)
def test_a_contender_computes_every_token_of_a_load(start: Callable[[Terms], Player]) -> None:
    piece = Piece("one", "", "tiny", loads, lambda terms: [Contender("it", partial(start, terms))])
    terms = replace(TERMS, threads=torch.get_num_threads(), profile=True)
    results = measure(piece, terms, rounds=1, settle_s=0)
    ((run,),) = results.runs.values()
    asked = loads(TERMS, 1)["three"]
    assert run.tokens == sum(request.tokens for request in asked)
    assert all(1 <= len(stamps) <= it.tokens for stamps, it in zip(run.stamps, asked, strict=True))
    assert sum(run.parts.values()) == pytest.approx(run.seconds if run.parts else 0)
    assert len(table.as_json(results)["figures"]) == 1


def built() -> None:
    try:
        library()
    except Unbuilt as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("seat", ["fused", "packed", "slots"])
def test_a_profile_tells_the_model_from_what_is_around_it(seat: str) -> None:
    if seat == "fused":
        built()
    player = Hearth(replace(TERMS, threads=torch.get_num_threads(), profile=True, seat=seat))
    run = player.run(loads(TERMS, 1)["three"])
    player.stop()
    assert {"schedule", "pack", "model", "sample", "commit and hand out"} <= run.parts.keys()
    assert run.parts["model"] > 0 and run.parts["sample"] > 0


@pytest.mark.parametrize("seat", ["packed", "slots"])
def test_our_engine_takes_the_seat_it_is_given(seat: str) -> None:
    terms = replace(TERMS, threads=torch.get_num_threads(), seat=seat)
    player = Hearth(terms)
    player.stop()
    assert player.about == seat and settled(terms) == terms


def test_a_contender_apart_is_another_process_and_tells_why_it_fails() -> None:
    player = Apart(partial(SimpleNamespace, about="lists", run=len, stop=list))
    assert player.about == "lists" and player.run([Request((1,), 1)] * 3) == 3
    player.stop()
    with pytest.raises(SystemExit, match="has no attribute 'about'"):
        Apart(partial(SimpleNamespace))
