"""Simulates how rules of routing spread conversations with shared prefixes over replicas of one model.

    python -m scripts.simulate_routing [--replicas 4 16] [--rate 12] [--seconds 40]

Prints for each number of replicas and each rule: the share of prompt tokens that a prefix cache had, the time
until the first token, and the tokens of answers a second. Equal seeds give equal tables. It runs no model.
"""

import argparse

from scripts.simulate_routing.conversations import LoadOptions, make_conversations
from scripts.simulate_routing.rules import RULES
from scripts.simulate_routing.simulation import Figures, Simulation

WARM_UP_S = 20.0
HEADER = "| replicas | rule | hit rate | first token p50 | p99 | tokens/s |\n|---|---|---|---|---|---|"


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--replicas", type=int, nargs="+", default=[4, 16], help="1 to 256")
    parser.add_argument("--rate", type=float, default=12.0, help="requests a second for each replica")
    parser.add_argument("--seconds", type=float, default=40.0, help="simulated after the warm-up")
    parser.add_argument("--cache-tokens", type=int, default=200_000, help="prefix cache of a replica")
    parser.add_argument("--systems", type=int, default=256, help="number of system prompts")
    parser.add_argument("--zipf", type=float, default=1.0, help="exponent of their popularity")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def simulate(rule: str, num_replicas: int, options: argparse.Namespace) -> Figures:
    ends_at = WARM_UP_S + options.seconds
    load = LoadOptions(options.rate * num_replicas, options.systems, options.zipf)
    simulation = Simulation(
        RULES[rule](num_replicas, options.seed), options.cache_tokens, warm_up_s=WARM_UP_S, ends_at=ends_at
    )
    return simulation.run(make_conversations(load, ends_at, options.seed))


def table_row(num_replicas: int, rule: str, figures: Figures, seconds: float) -> str:
    columns = (
        f"{num_replicas}",
        rule,
        f"{figures.hit_rate:.0%}",
        f"{figures.percentile(0.5):.3f} s",
        f"{figures.percentile(0.99):.2f} s",
        f"{figures.output_tokens / seconds:,.0f}",
    )
    return f"| {' | '.join(columns)} |"


def main() -> None:
    options = parse_options()
    print(HEADER)
    for num_replicas in options.replicas:
        for rule in RULES:
            figures = simulate(rule, num_replicas, options)
            print(table_row(num_replicas, rule, figures, options.seconds), flush=True)


if __name__ == "__main__":
    main()
