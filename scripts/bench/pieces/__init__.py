"""The pieces by name. To add one, write a file with a Piece and name it here."""

from collections.abc import Mapping

from scripts.bench.piece import Piece
from scripts.bench.pieces.http import HTTP
from scripts.bench.pieces.loads import LOADS
from scripts.bench.pieces.mixed import MIXED
from scripts.bench.pieces.outside import OUTSIDE
from scripts.bench.pieces.peers import PEERS_PIECE
from scripts.bench.pieces.prefix import PREFIX
from scripts.bench.pieces.speculation import SPECULATION

PIECES: Mapping[str, Piece] = {
    piece.name: piece for piece in (HTTP, PREFIX, SPECULATION, LOADS, MIXED, OUTSIDE, PEERS_PIECE)
}
