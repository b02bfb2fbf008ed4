"""Makes a picture small enough for a model: `python -I picture_reduce.py SIDE < picture > JPEG`.

Runs as a child process that imports nothing of ours, with little memory, little time and no right
to write. What a camera noted, such as the place, is left out. The first line that it writes says in
JSON why there is no picture, or how large it is.
"""

import io
import json
import resource
import sys

from PIL import Image, ImageOps, UnidentifiedImageError

try:
    from pillow_heif import register_heif_opener
except ImportError:  # installed before it was a part of the extra
    register_heif_opener = None

MEMORY_BYTES, CPU_S = 2_000_000_000, 20
MOST_PIXELS, QUALITY = 100_000_000, 85
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "HEIF", "AVIF")


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
        return {"why": "it is damaged, or of a kind that is not shown"}, b""
    made = Image.new("RGB", picture.size, "white")
    made.paste(picture, mask=picture.getchannel("A"))
    file = io.BytesIO()
    made.save(file, "JPEG", quality=QUALITY)
    return {"width": made.width, "height": made.height}, file.getvalue()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    for forbidden in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(forbidden, (0, 0))
    said, shown = reduce(sys.stdin.buffer.read(), int(sys.argv[1]))
    sys.stdout.buffer.write(json.dumps(said).encode() + b"\n" + shown)
