"""ColBERT: a text as one vector for each of its tokens, of which signs are kept. Of other models a
text is one vector.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

    Vectors = NDArray[float32]

QUERY, DOCUMENT = 1, 2  # the token after [CLS] that says which it is; written as text it is split
TOKENS, CHUNKS, MAX_CHARS = 96, 8, 8_000
WIDTH = 384  # numbers of a vector
KEPT = 256  # whose signs are kept of each pair of tokens; more find nothing more
NEARER = 0.065  # MaxSim above that of the others: half of what answers is, chit-chat is not


class TextVectors(NamedTuple):
    """What is kept of a text. `pairs`: `Embedder.kept` bits for each two neighbouring tokens;
    `pooled`: WIDTH bits for the whole.
    """

    pairs: bytes
    pooled: bytes


class EmbedderError(Exception):
    """The model cannot be read, or can make nothing of a text."""


class TextModel(Protocol):
    """One on this machine, called in a thread. `name` tells its vectors from those of another.
    Raises EmbedderError.
    """

    name: str

    def embed_query(self, text: str) -> "Vectors":
        """One row of WIDTH numbers a token, of length 1."""
        ...

    def embed_text(self, speaker: str, text: str) -> TextVectors:
        """What is kept of what somebody said."""
        ...


MadeVectors = list[tuple[int, TextVectors | None]]


class Embedder(Protocol):
    """`kind`: "local", or "openai" for a server. `name` tells vectors of one model from those of
    another. `kept`: how many numbers of a vector leave their sign; `nearer`: how much above the
    others' a text's fit is that answers. Raises EmbedderError.
    """

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def kept(self) -> int: ...

    @property
    def nearer(self) -> float: ...

    async def embed_query(self, text: str) -> "Vectors":
        """One row of at least WIDTH numbers a token, of length 1."""
        ...

    async def embed_texts(self, rows: Sequence[tuple[int, str, str]]) -> MadeVectors:
        """Of rows by id, speaker and text; None: the model can make none of it."""
        ...

    async def aclose(self) -> None:
        """What it is at work on is not waited for."""
        ...


class ColBert:
    """The model in one file: `onnx_size` bytes of ONNX, then its tokenizer as JSON. Raises
    EmbedderError, also without the extra `memory`.
    """

    def __init__(self, path: Path, onnx_size: int) -> None:
        self.name = f"{path.stem} {KEPT}"
        with _raise_embedder_error(path.name):
            self._open(path, onnx_size)

    def _open(self, path: Path, onnx_size: int) -> None:
        import onnxruntime  # lazy: the extra memory
        import tokenizers  # lazy: the extra memory

        data = path.read_bytes()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = False  # it would keep what the longest text took
        self._session = onnxruntime.InferenceSession(
            data[:onnx_size], options, providers=["CPUExecutionProvider"]
        )
        self._session.disable_fallback()
        vars(self._session).pop("_model_bytes", None)  # for a fallback it keeps the file in memory
        self._inputs = {one.name for one in self._session.get_inputs()}
        self._tokenizer = tokenizers.Tokenizer.from_str(data[onnx_size:].decode())
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def embed_query(self, text: str) -> "Vectors":
        """See Embedder."""
        with _raise_embedder_error("a question"):
            begin, *words, end = self._tokenizer.encode(text).ids
            return self._run([begin, *words[: TOKENS - 2], end], QUERY)

    def embed_text(self, speaker: str, text: str) -> TextVectors:
        """See Embedder. A long text is read in pieces, each with its speaker; of one that is still
        longer, the beginning.
        """
        with _raise_embedder_error(f"a text of {len(text)} characters"):
            return pack(self._embed_pieces(speaker, text))

    def _embed_pieces(self, speaker: str, text: str) -> list["Vectors"]:
        head = self._tokenizer.encode(f"{speaker}:", add_special_tokens=False).ids[: TOKENS // 4]
        body = self._tokenizer.encode(text[:MAX_CHARS], add_special_tokens=False).ids
        space = TOKENS - 2 - len(head)
        pieces = [body[at : at + space] for at in range(0, max(len(body), 1), space)][:CHUNKS]
        begin, end = self._tokenizer.encode("").ids[:2]
        return [self._run([begin, *head, *piece, end], DOCUMENT) for piece in pieces]

    def _run(self, ids: Sequence[int], marker: int) -> "Vectors":
        import numpy as np  # lazy: the extra memory

        tokens = np.array([[ids[0], marker, *ids[1:]]], np.int64)
        given = {
            "input_ids": tokens,
            "attention_mask": np.ones_like(tokens),
            "token_type_ids": np.zeros_like(tokens),
        }
        feed = {name: value for name, value in given.items() if name in self._inputs}
        found = np.asarray(self._session.run(None, feed)[0])[0]
        return found / np.linalg.norm(found, axis=1, keepdims=True)


@contextmanager
def _raise_embedder_error(what: str) -> Iterator[None]:
    """The runtimes raise anything."""
    try:
        yield
    except Exception as error:
        raise EmbedderError(f"{what}: {error}") from error


def pack(pieces: Sequence["Vectors"], kept: int = KEPT) -> TextVectors:
    """Neighbouring tokens are averaged in pairs; of each number, its sign."""
    import numpy as np  # lazy: the extra memory

    pairs = [one[at : at + 2].mean(0) for one in pieces for at in range(0, len(one), 2)]
    bits = np.packbits(np.array(pairs)[:, :kept] > 0, axis=1)
    pooled = np.mean(pairs, axis=0)[:WIDTH]
    return TextVectors(bits.tobytes(), np.packbits(pooled > 0).tobytes())


def unpack(packed: bytes, width: int) -> "Vectors":
    """1 and -1, so many a row."""
    import numpy as np  # lazy: the extra memory

    bits = np.unpackbits(np.frombuffer(packed, np.uint8).reshape(-1, width // 8), axis=1)
    return bits.astype(np.float32) * 2 - 1
