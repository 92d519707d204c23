"""Converts llama.cpp's grammars (GBNF) to Lark with llguidance's converter, in bounded time.

The converter repeats a pass over all rules until no further one becomes a terminal, which a rule can only be
after those that it refers to: in the order of a text, a chain of 3,000 rules took 3,000 passes, or 23 s. Here
each rule comes after the rules that it refers to, and two passes are enough.
"""

from collections.abc import Iterator, Mapping

from llguidance.gbnf_to_lark import ASTNode, GrammarParser, RuleNode, RuleRefNode, resolve


def gbnf_to_lark(text: str) -> str:
    """Raises an Exception with the reason for an invalid grammar: llguidance has no narrower class."""
    rules = references_first(GrammarParser().parse(text))
    in_order = list(rules.values())
    resolve(rules)
    return "\n".join(["%llguidance {}\n", *map(str, in_order)])


def references_first(rules: Mapping[str, RuleNode]) -> dict[str, RuleNode]:
    """The rules, each after those that it refers to; of rules that refer to each other, one comes first."""
    ordered: dict[str, RuleNode] = {}
    visited: set[str] = set()

    def unvisited(names: Iterator[str]) -> str | None:
        return next((name for name in names if name in rules and name not in visited), None)

    path: list[tuple[str, Iterator[str]]] = []
    starts = iter(rules)
    while (name := unvisited(path[-1][1] if path else starts)) or path:
        if name is None:
            name, _ = path.pop()
            ordered[name] = rules[name]
        else:
            visited.add(name)
            path.append((name, references(rules[name])))
    return ordered


def references(rule: RuleNode) -> Iterator[str]:
    """The names in a rule."""
    waiting: list[ASTNode] = [rule]
    while waiting:
        node = waiting.pop()
        if isinstance(node, RuleRefNode):
            yield node.name
        waiting += node.children()
