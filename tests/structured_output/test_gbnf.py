"""The order of rules, and that it changes nothing of a grammar but the order."""

import pytest
from llguidance.gbnf_to_lark import GrammarParser
from llguidance.gbnf_to_lark import gbnf_to_lark as convert_in_order

from inference.structured_output.gbnf import gbnf_to_lark, references_first

GRAMMAR = """root ::= list "!" | root-2 # two
list ::= "[" (item ",")* item? "]"
root-2 ::= item{2,3} root?
item ::= digit+ | list
digit ::= [0-9]
lonely ::= lonely | "x"
"""


def test_a_rule_comes_after_those_that_it_refers_to() -> None:
    names = list(references_first(GrammarParser().parse(GRAMMAR)))
    assert names.index("digit") < names.index("item") < names.index("root-2") < names.index("root")
    assert sorted(names) == ["digit", "item", "list", "lonely", "root", "root-2"]


def test_a_grammar_has_the_rules_of_llguidances_own_conversion() -> None:
    rules = sorted(filter(None, gbnf_to_lark(GRAMMAR).splitlines()))
    assert rules == sorted(filter(None, convert_in_order(GRAMMAR).splitlines()))


@pytest.mark.parametrize("text", ["root ::= (", "a ::= b", 'a ::= "x"', "root ::= a"])
def test_an_invalid_grammar_has_the_reason_of_llguidance(text: str) -> None:
    with pytest.raises(Exception) as expected:
        convert_in_order(text)
    with pytest.raises(Exception) as raised:
        gbnf_to_lark(text)
    assert str(raised.value) == str(expected.value)
