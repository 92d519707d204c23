"""What an adapter changes for token ids: the embeddings of all tokens or of some, and the logits of some."""

from torch import Tensor


class EmbeddingDelta:
    """Adds the low-rank embeddings A[:, id]ᵀ Bᵀ.

    a  (r, V)
    b  (d, r), with the scale folded in, and that of the embedding layer
    """

    def __init__(self, a: Tensor, b: Tensor) -> None:
        self.a_t, self.b_t = a.T.contiguous(), b.T

    @property
    def nbytes(self) -> int:
        return self.a_t.nbytes + self.b_t.nbytes

    def apply(self, input: Tensor, output: Tensor) -> Tensor:
        return output.addmm_(self.a_t[input], self.b_t)


class TokenRows:
    """The adapter's own embeddings (n, d) of some tokens, token_ids (n,)."""

    def __init__(self, token_ids: Tensor, rows: Tensor) -> None:
        self.token_ids, self.rows = token_ids, rows

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes


class TokenEmbeddings(TokenRows):
    """Replaces the embeddings of the tokens. The rows have the scale of the embedding layer."""

    def apply(self, input: Tensor, output: Tensor) -> Tensor:
        is_token = input[:, None] == self.token_ids  # (N, n)
        replaced = self.rows[is_token.int().argmax(1)]
        return replaced.where(is_token.any(1)[:, None], output)


class TokenLogits(TokenRows):
    """Replaces the logits of the tokens, in an output layer that is tied to the embedding."""

    def apply(self, input: Tensor, output: Tensor) -> Tensor:
        return output.index_copy_(1, self.token_ids, input @ self.rows.T)
