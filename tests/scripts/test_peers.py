"""The comparison with other engines: what is asked is what is said, and who fails is told of."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.bench import bandwidth, table
from scripts.bench.contender import Contender, Lost, Player
from scripts.bench.load import Load, Request, Run
from scripts.bench.models import bytes_read, letters, parameters
from scripts.bench.peers import PEERS
from scripts.bench.peers.made import made
from scripts.bench.peers.peer import PRECISIONS
from scripts.bench.peers.piped import Piped
from scripts.bench.piece import Piece, Results
from scripts.bench.pieces import peers
from scripts.bench.rounds import measure
from scripts.bench.terms import Terms
from scripts.bench.tree import Tree

TERMS = Terms("tiny", "float32", "cpu", threads=1)
DRIVER = """
import json, sys
print(json.dumps({"about": "echo"}), flush=True)
for line in sys.stdin:
    load = json.loads(line)
    answer = {"stamps": [[1.0] for _ in load], "seconds": 1.0, "tokens": len(load[0][0])}
    print(json.dumps(answer), flush=True)
    if len(load) > 1:
        sys.exit(3)
"""


class Steady:
    about = "made up"

    def __init__(self, fails: int = 10**9) -> None:
        self.fails, self.runs = fails, 0

    def run(self, load: Load) -> Run:
        self.runs += len(load) > 1
        if self.runs >= self.fails:
            raise Lost("Traceback\n  it broke")
        return Run(2.0, [[1.0, 2.0] for _ in load], 10, cpu=1.0, peak_mb=5)

    def stop(self) -> None:
        pass


def measured(*players: Player, rounds: int = 2) -> Results:
    named = [Contender(f"p{number}", lambda player=player: player) for number, player in enumerate(players)]
    made = {"one": [Request((1, 2), 10)], "two": [Request((1, 2), 10)] * 2}
    piece = Piece(
        "made", "", "tiny", lambda *_: made, lambda _: named, {"one": lambda _: 7.0}, lambda _: (14.0, "told")
    )
    return measure(piece, TERMS, rounds, settle_s=0)


def test_the_mixed_load_is_of_the_lengths_that_are_told() -> None:
    load = peers.loads(TERMS, 1)["mixed"]
    assert [(len(request.ids), request.tokens) for request in load] == list(peers.MIXED)
    assert (len(load), peers.PROMPTS, peers.ANSWERS) == (16, 5331, 2185)
    assert f"{peers.PROMPTS} tokens of prompts" in peers.PEERS_PIECE.about


def test_only_the_loads_that_are_asked_for_are_computed_and_prompts_are_new_in_each_round() -> None:
    only = replace(TERMS, only=("decode", "prefill"))
    first, second = peers.loads(only, 1), peers.loads(only, 2)
    assert [*first] == ["decode", "prefill"] and first["decode"] != second["decode"]


def test_paces_are_of_what_a_load_is_there_to_show() -> None:
    run = Run(4.0, [[1.0, 2.0, 4.0]], 7, cpu=1.0)
    assert peers.decoded(run) == pytest.approx(2) and peers.read(run) == pytest.approx(1024)


def test_a_peer_that_fails_at_a_load_is_told_of_and_goes_on_with_the_others() -> None:
    results = measured(Steady(), Steady(fails=3))
    assert results.lost == {("two", "p1"): "it broke"}
    assert [len(results.runs[load, "p1"]) for load in ("one", "two")] == [2, 1]
    lines = list(table.lines(results))
    assert "p1, two: it broke" in lines and results.ratios("two", "p1", results.pace("two")) == [1]


def test_what_cannot_be_prepared_does_not_start() -> None:
    def prepare() -> None:
        raise Lost("no such model")

    contenders = [Contender("ours", Steady), Contender("other", Steady, prepare)]
    piece = Piece("made", "", "tiny", lambda *_: {"one": [Request((1,), 2)]}, lambda _: contenders)
    results = measure(piece, TERMS, rounds=1, settle_s=0)
    assert [*results.about] == ["ours"] and results.lost == {("start", "other"): "no such model"}


def test_the_end_of_our_own_server_ends_the_measurement() -> None:
    with pytest.raises(Lost):
        measured(Steady(fails=1), Steady())


def test_how_near_the_limit_is_told_for_loads_of_one_answer() -> None:
    lines = list(table.lines(measured(Steady())))
    assert "limit of one answer: 14.0 tokens/s, told" in lines
    assert "one, p0: 50 % of the limit (50 to 50)" in lines and not any("two, p0:" in line for line in lines)
    assert next(line for line in lines if line.startswith("start  p0")).split()[-1] == "5"


def test_only_installed_peers_that_have_the_precision_take_part(tmp_path: Path) -> None:
    terms = replace(TERMS, peers=str(tmp_path), quantise="int8")
    assert [contender.name for contender in peers.contenders(terms)] == ["hearth"]
    assert [contender.name for contender in peers.contenders(replace(terms, quantise="none"))] == [
        *("hearth", "generate", "continuous")
    ]
    assert all(set(peer.forms) <= set(PRECISIONS) for peer in PEERS.values())


def test_what_a_peer_needs_is_made_once_and_nothing_half_done_stays(tmp_path: Path) -> None:
    terms = replace(TERMS, peers=str(tmp_path))
    first = made(terms, "file", lambda path: ("sh", "-c", f"echo 1 > {path}"))
    assert first.read_text() == "1\n" and made(terms, "file", lambda path: ("false",)) == first
    with pytest.raises(Lost, match="could not be made"):
        made(terms, "other", lambda path: ("sh", "-c", f"echo 1 > {path}; exit 1"))
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["tiny-file"]


def test_a_driver_is_told_loads_and_its_end_is_a_loss() -> None:
    player = Piped([sys.executable, "-c", DRIVER])
    run = player.run([Request((1, 2, 3), 1)])
    assert (player.about, run.tokens, run.stamps) == ("echo", 3, [[1.0]]) and run.peak_mb > 1
    player.run([Request((1,), 1)] * 2)
    with pytest.raises(Lost, match="code 3"):
        player.run([Request((1,), 1)])
    player.stop()


def test_a_trees_peak_is_of_all_its_processes() -> None:
    worked = "sum(range(10_000_000))"  # longer than the kernel's unit of time
    grown = f"import sys; held = bytearray(30_000_000); {worked}; print(flush=True); sys.stdin.read()"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grown!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as ran:
        assert ran.stdout and ran.stdin
        ran.stdout.readline()
        tree = Tree(ran.pid)
        assert tree.peak_mb() > 30 and tree.worked() > 0
        ran.stdin.close()
    assert tree.peak_mb() == 0


def test_the_memorys_speed_is_measured_with_a_compiler_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandwidth, "BYTES", 1 << 24)
    assert bandwidth.read(1) > 1e8 and bandwidth.by_torch(1) > 1e8


def test_the_bytes_of_a_token_are_those_of_the_weights_as_we_keep_them() -> None:
    assert bytes_read("77m", "none") == 2 * parameters("77m")
    assert bytes_read("tiny", "none") == 2 * (parameters("tiny") - 512 * 32)
    assert bytes_read("77m", "int4") < 0.75 * bytes_read("77m", "int8") < 0.45 * bytes_read("77m", "none")


def test_the_tokenizer_of_a_shape_has_as_many_tokens_as_the_shape() -> None:
    tokenizer = letters(1000)
    assert len(tokenizer) == 1000 and tokenizer.convert_tokens_to_ids("<|endoftext|>") == 996
