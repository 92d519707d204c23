"""The bytes that a token of a byte-level tokenizer stands for.

Its vocabulary has a visible character for each byte: itself for the printable ones of Latin-1, and the
characters from U+0100 on, in order, for the others (https://github.com/openai/gpt-2, encoder.py). The decoder
`ByteLevel` of the tokenizers package joins the bytes of all tokens; a token with another character, which was
added to the vocabulary, stands for itself.
"""

PRINTABLE = (*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1))
OTHERS = sorted(set(range(256)) - set(PRINTABLE))
BYTE_VALUES = {chr(value): value for value in PRINTABLE} | {
    chr(256 + place): value for place, value in enumerate(OTHERS)
}


def bytes_of(token: str) -> bytes:
    try:
        return bytes(map(BYTE_VALUES.__getitem__, token))
    except KeyError:
        return token.encode()
