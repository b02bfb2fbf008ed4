"""Makes a picture, or the first pages of a PDF, small enough for a model:
`python -I picture_reduce.py SIDE < picture > JPEGs`.

Runs as a child process that imports nothing of ours, with little memory, little time and no right
to write. What a camera noted, such as the place, is left out. The first line that it writes says in
JSON why there is no picture, or how many bytes each one has.
"""

import io
import json
import resource
import sys
from itertools import islice

from PIL import Image, ImageOps, UnidentifiedImageError
from pypdfium2 import PdfDocument, PdfiumError, PdfPage

try:
    from pillow_heif import register_heif_opener
except ImportError:  # installed before it was a part of the extra
    register_heif_opener = None

MEMORY_BYTES, CPU_S = 2_000_000_000, 20
MOST_PIXELS, MOST_PAGES, QUALITY = 100_000_000, 4, 85
DAMAGED = "it is damaged, or of a kind that is not shown"
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "HEIF", "AVIF")


def reduce_all(data: bytes, side: int) -> tuple[dict[str, object], bytes]:
    """The picture, or each page, one behind the other."""
    said, made = reduce(data, side)
    if not said:
        return {"sizes": [len(made)]}, made
    if b"%PDF-" not in data[:1024]:
        return said, b""
    try:
        pages = [_draw(page, side) for page in islice(PdfDocument(data), MOST_PAGES)]
    except (PdfiumError, ValueError, MemoryError):
        return {"why": DAMAGED}, b""
    return {"sizes": [len(one) for one in pages]}, b"".join(pages)


def _draw(page: PdfPage, side: int) -> bytes:
    return _pack(page.render(scale=side / max(*page.get_size(), 1)).to_pil().convert("RGB"))


def reduce(data: bytes, side: int) -> tuple[dict[str, object], bytes]:
    """At most `side` pixels wide and high, upright, on white; of a moving one the first."""
    Image.MAX_IMAGE_PIXELS = MOST_PIXELS
    if register_heif_opener:
        register_heif_opener(thumbnails=False)
    Image.init()
    known = [one for one in FORMATS if one in Image.OPEN]
    try:
        with Image.open(io.BytesIO(data), formats=known) as found:
            if found.width * found.height > MOST_PIXELS:
                return {"why": f"it has {found.width} x {found.height} pixels"}, b""
            found.draft("RGB", (side, side))
            picture = ImageOps.exif_transpose(found)
            picture.thumbnail((side, side))
            picture = picture.convert("RGBA")
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, EOFError, MemoryError,
            Image.DecompressionBombError):  # fmt: skip
        return {"why": DAMAGED}, b""
    made = Image.new("RGB", picture.size, "white")
    made.paste(picture, mask=picture.getchannel("A"))
    return {}, _pack(made)


def _pack(picture: Image.Image) -> bytes:
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=QUALITY)
    return file.getvalue()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    for forbidden in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(forbidden, (0, 0))
    said, shown = reduce_all(sys.stdin.buffer.read(), int(sys.argv[1]))
    sys.stdout.buffer.write(json.dumps(said).encode() + b"\n" + shown)
