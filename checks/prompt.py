"""Do the prompts that are allowed leave room for an answer in the context that was found?"""

from checks.finding import Finding


def check(longest: int, context: int) -> Finding:
    """`longest`: tokens that a prompt may have. The refusal is in TGI's words."""
    need = f"{longest} tokens"
    if longest < context:
        return Finding("prompt", need, f"a context of {context} tokens", True)
    have = f"`max_input_tokens`({longest}) must be < `max_total_tokens`({context})"
    return Finding("prompt", need, have, False, f"MAX_INPUT_TOKENS = {context - 1}, or 0")
