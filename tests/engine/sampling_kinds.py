"""Sampling parameters of every kind."""

from inference.sampling import PenaltyWindow, Sampling, Watermark

KINDS = {
    "plain": Sampling(),
    "greedy": Sampling(greedy=True),
    "typical": Sampling(typical_p=0.7, tgi_frequency_penalty=0.9),
    "tail free": Sampling(tfs=0.9, penalty_window=PenaltyWindow((3, 4, 5), 1.8, 5, slope=2.0)),
    "top a": Sampling(top_a=0.3, temperature=1.5, watermark=Watermark()),
    "ordered": Sampling(
        top_p=0.8, temperature=3.0, repetition_penalty=1.5, warper_order=("top_p", "repetition")
    ),
    "never twice": Sampling(no_repeat_ngram_size=2, temperature=0.3),
    "banned": Sampling(greedy=True, bad_words_ids=((7,), (8, 9), (9, 10)), banned_first=frozenset((11,))),
    "allowed": Sampling(allowed_token_ids=frozenset(range(5, 15)), min_p=0.01),
    "window": Sampling(
        greedy=True, penalty_window=PenaltyWindow((6,), 1.4, 3, scope="expand", clamp_length=True)
    ),
}
