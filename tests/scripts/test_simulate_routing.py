"""The simulation of routing: equal seeds give equal figures, and rules that know prefixes have more hits."""

import argparse
from collections.abc import Mapping
from functools import cache

import pytest

from inference.remote.members.member_load import Prompt
from scripts.simulate_routing.__main__ import simulate, table_row
from scripts.simulate_routing.conversations import (
    LoadOptions,
    SimulatedConversation,
    SimulatedTurn,
    make_conversations,
)
from scripts.simulate_routing.replica import PROMPT_TOKEN_S, STEP_S
from scripts.simulate_routing.rules import RULES, Random
from scripts.simulate_routing.simulation import Figures, Simulation

OPTIONS = argparse.Namespace(rate=8.0, seconds=5.0, cache_tokens=200_000, systems=16, zipf=1.0, seed=1)


@cache
def figures_of_rules() -> Mapping[str, Figures]:
    return {rule: simulate(rule, 3, OPTIONS) for rule in RULES}


def test_equal_seeds_give_equal_figures() -> None:
    rule = "least wait (Hearth)"
    assert simulate(rule, 3, OPTIONS) == figures_of_rules()[rule]


def test_conversations_share_the_blocks_of_their_system_prompt_and_no_others() -> None:
    conversations = list(make_conversations(LoadOptions(50.0, 1, 1.0), 5.0, seed=0))
    first, second = (set(each.turns[-1].computed.hashes) for each in conversations[:2])
    shared = first & second
    assert shared and shared < first and shared < second
    turns = max((each.turns for each in conversations), key=len)
    assert len(turns) > 1 and set(turns[0].prompt.hashes) < set(turns[1].prompt.hashes)


def test_an_idle_replica_needs_one_step_for_a_prompt_and_reuses_it() -> None:
    prompt = Prompt(4 * 640, tuple(range(10)))
    turn = SimulatedTurn(prompt, 1, prompt, pause_s=1.0)
    simulation = Simulation(Random(1, 0), 10_000, warm_up_s=0.0, ends_at=10.0)
    figures = simulation.run([SimulatedConversation(0.0, (turn, turn))])
    first, second = figures.first_token_s
    assert first == pytest.approx(STEP_S + 640 * PROMPT_TOKEN_S)
    assert second == pytest.approx(STEP_S + PROMPT_TOKEN_S)  # the last token is always computed
    assert figures.hit_rate == pytest.approx(639 / 1280) and figures.output_tokens == 2


def test_a_request_that_still_waits_at_the_end_counts_as_late() -> None:
    prompt = Prompt(4 * 64_000)
    simulation = Simulation(Random(1, 0), 10_000, warm_up_s=0.0, ends_at=2.0)
    figures = simulation.run([SimulatedConversation(0.5, (SimulatedTurn(prompt, 1, prompt, 1.0),))])
    assert figures.first_token_s == [1.5]


@pytest.mark.parametrize("rule", ["longest prefix (Ray)", "cache-aware (SGLang)", "least wait (Hearth)"])
def test_rules_that_know_prefixes_have_more_hits_than_chance(rule: str) -> None:
    assert figures_of_rules()[rule].hit_rate > figures_of_rules()["random"].hit_rate + 0.1


def test_a_row_has_every_column() -> None:
    figures = Figures([0.1] * 98 + [2.0, 3.0], prompt_tokens=200, cached_tokens=50, output_tokens=4000)
    assert table_row(2, "rule", figures, 2.0) == "| 2 | rule | 25% | 0.100 s | 3.00 s | 2,000 |"


def test_fronts_that_learn_from_replicas_have_more_hits_than_fronts_apart() -> None:
    figures = figures_of_rules()
    apart, learning = (figures[f"least wait, 4 fronts{each}"].hit_rate for each in (" apart", " (Hearth)"))
    assert learning > apart + 0.02
