"""Bodies that are no request, by what is wrong with them."""

DEEP = 50_000


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


RAW = {
    "empty": b"",
    "truncated": b'{"messages": [{"role": "user", "con',
    "not json": b"hello",
    "not utf-8": b'{"model": "m", "content": "\xff\xfe"}',
    "null": b"null",
    "a list": b"[]",
    "a number": b"42",
    "a string": b'"x"',
    "nan": b'{"model": "m", "content": "a", "sampling_params": {"temperature": NaN}}',
    "infinity": b'{"model": "m", "content": "a", "sampling_params": {"temperature": 1e999}}',
    "deep list": nested(DEEP).encode(),
    "deep content": ('{"model": "m", "content": ' + nested(DEEP) + "}").encode(),
    "deep schema": (
        '{"model": "m", "content": "a", "messages": [{"role": "user", "content": "a"}], "response_format": '
        '{"type": "json_schema", "json_schema": ' + '{"items":' * 90 + "1" + "}" * 90 + "}}"
    ).encode(),
    "lone surrogate": b'{"model": "m", "content": "\\ud800", '
    b'"messages": [{"role": "user", "content": "a\\udfff"}]}',
    "null byte": b'{"model": "m", "content": "a\\u0000b", '
    b'"messages": [{"role": "user", "content": "a\\u0000b"}]}',
    "huge integer": b'{"model": "m", "content": "a", "sampling_params": {"max_tokens": ' + b"9" * 400 + b"}}",
    "duplicate keys": b'{"model": "m", "content": "a", "content": 1, "messages": 2}',
    "huge key": b'{"' + b"k" * 1_000_000 + b'": 1}',
}
