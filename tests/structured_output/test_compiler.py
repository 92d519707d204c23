"""For any logits the text satisfies its constraint; one that cannot be compiled is refused with a reason."""

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tokenizers import Regex, Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from inference.engine.sampling.sampler import Sampler, advance_matchers
from inference.engine.sequence import Sequence
from inference.errors import BadRequest, NotImplementedHere
from inference.sampling import Sampling
from inference.structured_output import GrammarChecker, GrammarCompiler
from inference.types import Constraint
from tests.engine.generation_requests import make_request
from tests.engine.sequences import RefusingSink
from tests.structured_output.conftest import RandomWriter, allowed_ids, make_tokenizer
from tests.structured_output.costly_schemas import combined_patterns

PERSON = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Person",
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "likes": {"type": "array", "items": {"enum": ["tea", "a b", 3, None]}, "maxItems": 3},
        "friend": {"$ref": "#/$defs/friend"},
    },
    "required": ["name", "age", "likes"],
    "additionalProperties": False,
    "$defs": {"friend": {"oneOf": [{"type": "null"}, {"const": "self"}]}},
}


def is_person(value: Any) -> bool:
    return (
        {"name", "age", "likes"} <= value.keys() <= {"name", "age", "likes", "friend"}
        and isinstance(value["name"], str)
        and len(value["name"]) <= 8
        and type(value["age"]) is int
        and 0 <= value["age"] <= 150
        and len(value["likes"]) <= 3
        and all(like in ("tea", "a b", 3, None) for like in value["likes"])
        and value.get("friend") in (None, "self")
    )


def schema(spec: Any) -> Constraint:
    return Constraint("json_schema", spec)


@pytest.mark.parametrize("kind", ["byte_level", "sentencepiece_bpe"])
def test_random_answers_are_valid_under_a_schema(kind: str) -> None:
    texts = list(RandomWriter(kind).texts(schema(PERSON), count=100))
    assert len(texts) > 95
    assert all(is_person(json.loads(text)) for text in texts)


def test_a_schema_may_be_a_string(writer: RandomWriter) -> None:
    texts = writer.texts(schema(json.dumps({"enum": [1, 2]})))
    assert {json.loads(text) for text in texts} == {1, 2}


def test_json_is_any_object(writer: RandomWriter) -> None:
    texts = list(writer.texts(Constraint("json"), count=60))
    assert len(texts) > 10
    assert all(isinstance(json.loads(text), dict) for text in texts)


@pytest.mark.parametrize("spec", [PERSON, {**PERSON, "x-guidance": {"whitespace_flexible": True}}])
def test_whitespace_between_json_tokens_is_bounded(writer: RandomWriter, spec: Any) -> None:
    blanks = [run for text in writer.texts(schema(spec)) for run in re.findall(r"\s+", without_strings(text))]
    assert any("\n" in run for run in blanks)
    assert all(re.fullmatch(r" |\n {0,24}", run) for run in blanks)


def without_strings(text: str) -> str:
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)


def test_a_regex_is_matched_whole(writer: RandomWriter) -> None:
    pattern = r"^[a-f]{2,4}-(?:x|yz)+\?$"
    texts = list(writer.texts(Constraint("regex", pattern)))
    assert texts and all(re.fullmatch(pattern, text) for text in texts)


def test_a_choice_is_one_of_the_list_and_each_is_possible(writer: RandomWriter) -> None:
    choices = ["a", "ab", 'say "q"\\', "line\nbreak", "ünï 🙂", "</s>", "[x](y)*"]
    assert set(writer.texts(Constraint("choice", choices), count=200)) == set(choices)


GRAMMARS = [
    'start: "a" DIGIT+ "!"?\nDIGIT: /[0-9]/',
    '?start: "a" DIGIT+ "!"?\nDIGIT: /[0-9]/',
    '!start: "a" DIGIT+ "!"?\nDIGIT: /[0-9]/',
    'root ::= "a" digit+ "!"?\ndigit ::= [0-9]',
    {"type": "grammar", "bnf": 'root ::= "a" [0-9]+ "!"?'},
    {"root": '"a" digit+ "!"?', "digit": "[0-9]"},
    {"grammars": [{"lark_grammar": 'start: "a" /[0-9]+/ "!"?'}]},
]


@pytest.mark.parametrize("spec", GRAMMARS)
def test_a_grammar_has_several_forms(writer: RandomWriter, spec: Any) -> None:
    texts = list(writer.texts(Constraint("grammar", spec)))
    assert texts and all(re.fullmatch(r"a[0-9]+!?", text) for text in texts)


def test_a_finished_grammar_allows_only_stop_tokens(writer: RandomWriter) -> None:
    matcher = writer.compiler.compile(Constraint("regex", "ab"))
    for id in writer.tokenizer.encode("ab"):
        assert not writer.ends & set(allowed_ids(matcher))
        matcher.advance(id)
    assert set(allowed_ids(matcher)) == writer.ends
    matcher.advance(min(writer.ends))
    assert set(allowed_ids(matcher)) == writer.ends


def test_a_matcher_that_allows_no_token_says_why(writer: RandomWriter) -> None:
    matcher = writer.compiler.compile(Constraint("regex", "ab"))
    assert matcher.token_bitmask().any() and not matcher.failure
    matcher.advance(writer.tokenizer.encode("b")[0])
    assert not matcher.token_bitmask().any() and matcher.failure


def test_a_copy_advances_independently(writer: RandomWriter) -> None:
    matcher = writer.compiler.compile(Constraint("choice", ["a", "b"]))
    other = matcher.copy()
    matcher.advance(writer.tokenizer.encode("a")[0])
    assert set(allowed_ids(matcher)) == writer.ends
    assert allowed_ids(other) == sorted(writer.tokenizer.encode("a") + writer.tokenizer.encode("b"))


def test_no_column_without_a_token_is_allowed(writer: RandomWriter) -> None:
    matcher = writer.compiler.compile(Constraint("regex", "(.|\n)*"))
    assert len(matcher.token_bitmask()) == (writer.vocab + 31) // 32
    assert max(allowed_ids(matcher)) < len(writer.tokenizer)


def test_a_matcher_that_got_a_forbidden_token_allows_no_more_tokens(writer: RandomWriter) -> None:
    matcher = writer.compiler.compile(Constraint("regex", "abc"))
    matcher.advance(writer.tokenizer.encode("x")[0])
    assert allowed_ids(matcher) == []


BAD = {
    "not an object": (schema([1]), "it must be a JSON object"),
    "not JSON": (schema("{"), "Expecting"),
    "a type that is none": (schema({"type": "nope"}), "Invalid type: nope"),
    "an empty enum": (schema({"enum": []}), "Unsatisfiable"),
    "a keyword not known": (schema({"type": "array", "uniqueItems": True}), "uniqueItems"),
    "a reference elsewhere": (schema({"$ref": "http://localhost/x.json"}), "http://localhost/x.json"),
    "a reference to itself": (schema({"$ref": "#"}), "no text of this model's tokens"),
    "a pattern not closed": (schema({"type": "string", "pattern": "("}), "unclosed group"),
    "a schema too long": (schema({"enum": ["x" * 70_000]}), "more than 65536"),
    "a regex too long": (Constraint("regex", "x" * 70_000), "more than 65536"),
    "a regex not closed": (Constraint("regex", "[a"), "unclosed character class"),
    "a regex that looks ahead": (Constraint("regex", "(?=a)b"), "look-around"),
    "a regex that is a number": (Constraint("regex", 5), "must be a string, got int"),
    "a count too high": (Constraint("regex", "x{100000}"), "too many expressions"),
    "no choice": (Constraint("choice", []), "at least one string"),
    "choices that are numbers": (Constraint("choice", [1, 2]), "at least one string"),
    "a rule that is missing": (Constraint("grammar", "start: nothing"), "nothing"),
    "a grammar without a start": (Constraint("grammar", ""), "root"),
    "a grammar of numbers": (Constraint("grammar", {"root": 5}), "rules by name"),
    "a grammar that is nothing but itself": (Constraint("grammar", "start: start"), "no text of"),
}


@pytest.mark.parametrize(("constraint", "reason"), BAD.values(), ids=BAD)
def test_a_bad_constraint_is_refused_with_its_reason(
    writer: RandomWriter, constraint: Constraint, reason: str
) -> None:
    with pytest.raises(BadRequest, match=re.escape(reason)) as caught:
        writer.compiler.compile(constraint, "guided")
    assert caught.value.field == "guided"
    assert len(caught.value.message) < 350


def test_an_error_names_the_field_that_sets_the_constraint(writer: RandomWriter) -> None:
    with pytest.raises(BadRequest, match=r"^ebnf is not a usable grammar") as caught:
        writer.compiler.compile(Constraint("grammar", "root ::= other", "ebnf"))
    assert caught.value.field == "ebnf"


def nested(depth: int) -> Any:
    spec: Any = {"type": "integer"}
    for _ in range(depth):
        spec = {"type": "array", "items": spec}
    return spec


def doubling(depth: int, key: str) -> Any:
    """A schema that would have 2 ** depth parts if its references were expanded."""
    pairs = {f"d{i}": {key: [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(depth)}
    return {"$defs": {**pairs, f"d{depth}": {"type": "object"}}, "$ref": "#/$defs/d0"}


HOSTILE = {
    "a very long string": schema({"type": "string", "minLength": 10**9}),
    "very many items": schema({"type": "array", "items": {"pattern": "^a+$"}, "minItems": 10**9}),
    "very many of anything": schema({"type": "object", "minProperties": 10**9}),
    "a huge number": schema({"type": "integer", "minimum": 10**300, "maximum": 10**301}),
    "a fine step": schema({"type": "number", "multipleOf": 1e-9}),
    "endless recursion": schema({"properties": {"a": {"$ref": "#"}}, "required": ["a"]}),
    "a little nesting": schema(nested(30)),
    "much nesting": schema(nested(400)),
    "nesting past Python's": schema(nested(50_000)),
    "doubling allOf": schema(doubling(30, "allOf")),
    "doubling anyOf": schema(doubling(30, "anyOf")),
    "many properties": schema(
        {"type": "object", "properties": {f"p{i}": {"type": "null"} for i in range(2_000)}}
    ),
    "products of branches": schema(
        {"allOf": [{"anyOf": [{"properties": {f"{i}.{j}": {}}} for j in range(6)]} for i in range(9)]}
    ),
    "powers of counts": Constraint("regex", "(((a{1,1000}){1,1000}){1,1000}){1,1000}"),
    "a huge count": Constraint("regex", "x{99999999}"),
    "many states": Constraint("regex", "(.*a){20}.{30}"),
    "nested stars": Constraint("regex", "((((a*)*)*)*)*b"),
    "nested brackets": Constraint("regex", "(" * 20_000 + "a" + ")" * 20_000),
    "nested brackets in a grammar": Constraint("grammar", "root ::= " + "(" * 20_000 + '"a"' + ")" * 20_000),
    "nested brackets in Lark": Constraint("grammar", "start: " + "(" * 20_000 + '"a"' + ")" * 20_000),
    "a chain of rules": Constraint(
        "grammar",
        "root ::= r0\n"
        + "\n".join(f"r{i} ::= r{i + 1}" for i in range(1_500))
        + '\nr1500 ::= "x"\nwide ::= '
        + "." * 30_000
        + " r0",
    ),
    "empty lines before a grammar": Constraint("grammar", "\n" * 60_000 + 'root ::= "a"'),
    "a grammar of left recursion": Constraint("grammar", 'start: start start | "a" | ""'),
    "many choices": Constraint("choice", [f"choice {i}" for i in range(4_000)]),
}


@pytest.mark.parametrize("constraint", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_constraint_costs_little_compiled_or_refused(
    writer: RandomWriter, constraint: Constraint
) -> None:
    started_at = time.process_time()
    try:
        matcher = writer.compiler.compile(constraint)
    except BadRequest:
        pass
    else:
        for _ in range(20):
            ids = allowed_ids(matcher)
            if not ids:
                break
            matcher.advance(ids[-1])
    assert time.process_time() - started_at < 3


def test_constrained_and_unconstrained_rows_share_a_step(writer: RandomWriter) -> None:
    """Random logits drive the real sampler; the unconstrained row gets the same tokens as alone."""
    constraint = schema(PERSON)
    rows = [new_sequence(writer, constraint, seed) for seed in range(8)]
    free, alone = new_sequence(writer, None, 99), new_sequence(writer, None, 99)
    sampler = Sampler(writer.vocab)
    noise = torch.Generator().manual_seed(4)
    for _ in range(250):
        logits = torch.randn(len(rows) + 1, writer.vocab, generator=noise) * 3
        ids = [choice.id for choice in sampler.sample_async(logits, [free, *rows]).wait()]
        advance_matchers([free, *rows], ids)
        for row, id in zip([free, *rows], ids, strict=True):
            row.token_ids.append(id)
        alone.token_ids.append(sampler.sample_async(logits[:1], [alone]).wait()[0].id)
    assert free.token_ids == alone.token_ids
    texts = [finished_text(writer, row) for row in rows]
    assert sum(text is not None for text in texts) >= 6
    assert all(is_person(json.loads(text)) for text in texts if text is not None)


def new_sequence(writer: RandomWriter, constraint: Constraint | None, seed: int) -> Sequence:
    matcher = writer.compiler.compile(constraint) if constraint else None
    request = make_request((1,), 999, Sampling(), stop_token_ids=writer.ends, seed=seed)
    return Sequence(seed, request, RefusingSink(), [1], matcher=matcher)


def finished_text(writer: RandomWriter, row: Sequence) -> str | None:
    end = next((i for i, id in enumerate(row.output_token_ids) if id in writer.ends), None)
    return None if end is None else writer.tokenizer.decode(row.output_token_ids[:end])


def test_a_unigram_tokenizer_is_decoded_token_by_token() -> None:
    texts = set(
        RandomWriter("sentencepiece_unigram").texts(Constraint("choice", ["yes", "no or maybe", "[1, 2]"]))
    )
    assert texts == {"yes", "no or maybe", "[1, 2]"}


def test_a_tokenizer_whose_token_texts_do_not_concatenate_is_refused() -> None:
    with pytest.raises(NotImplementedHere, match="tokens join to the text"):
        RandomWriter("speech").compiler.compile(Constraint("choice", ["yes"]))


def test_a_tokenizer_whose_tokens_have_no_text_is_refused() -> None:
    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0, "</s>": 1}, unk_token="<unk>"))
    tokenizer.decoder = decoders.Sequence([decoders.Replace(Regex(".+"), ""), decoders.Fuse()])
    textless = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>")
    with pytest.raises(NotImplementedHere, match="tokens join to the text"):
        GrammarCompiler(textless, 2, frozenset((1,))).compile(Constraint("json"))


def test_a_model_without_an_end_token_is_refused() -> None:
    with pytest.raises(NotImplementedHere, match="end token"):
        GrammarCompiler(make_tokenizer("byte_level"), 600, frozenset()).compile(Constraint("json"))


def test_logits_narrower_than_the_vocabulary_do_not_matter() -> None:
    tokenizer = make_tokenizer("byte_level")
    matcher = GrammarCompiler(tokenizer, 100, frozenset((2,))).compile(Constraint("regex", "ab"))
    assert len(matcher.token_bitmask()) == (len(tokenizer) + 31) // 32


@pytest.fixture
def checked_compiler() -> Iterator[GrammarCompiler]:
    tokenizer = make_tokenizer("byte_level")
    checker = GrammarChecker()
    yield GrammarCompiler(tokenizer, len(tokenizer), frozenset([tokenizer.eos_token_id]), checker)
    checker.close()


def test_patterns_that_combine_without_end_are_refused_with_the_bound(
    checked_compiler: GrammarCompiler,
) -> None:
    refused = (
        r"^guided_json is not a usable JSON schema: it takes more than 1 s to compile \(1\.\d s so far\)"
    )
    with pytest.raises(BadRequest, match=refused):
        checked_compiler.compile(schema(combined_patterns(24)), "guided_json", lambda: False)
    assert checked_compiler.compile(schema(PERSON), "", lambda: False).token_bitmask().any()


def test_a_constraint_is_quick_once_it_was_compiled_in_little_time(checked_compiler: GrammarCompiler) -> None:
    quick, invalid = Constraint("regex", "[ab]+"), Constraint("regex", "(")
    slow = schema({"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(2000)}})
    assert not checked_compiler.is_quick(quick)
    for constraint in (quick, slow):
        checked_compiler.compile(constraint, "", lambda: False)
    with pytest.raises(BadRequest):
        checked_compiler.compile(invalid, "", lambda: False)
    assert [checked_compiler.is_quick(each) for each in (quick, slow, invalid)] == [True, False, False]


def test_a_grammar_whose_steps_cost_too_much_is_refused() -> None:
    """A step that computes the states of 1800 lexemes would keep all other answers waiting."""
    numbers = range(1800)
    lexemes = "\n".join(f"T{n}: /.*[{chr(97 + n % 26)}{chr(98 + n % 25)}].*{n}/" for n in numbers)
    rule = " | ".join(f"T{n}" for n in numbers)
    tokenizer = make_tokenizer("byte_level")
    compiler = GrammarCompiler(tokenizer, len(tokenizer), frozenset([tokenizer.eos_token_id]))
    with pytest.raises(BadRequest, match="too many expressions"):
        compiler.compile(Constraint("grammar", f"start: ({rule})+\n{lexemes}"))
