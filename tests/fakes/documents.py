"""Documents of all kinds, whole and broken, made here; each says that the rent is 900 euros."""

import io
import zipfile
from collections.abc import Sequence

import docx
import openpyxl
import pptx
import pypdf
from PIL import Image
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

RENT = "The rent is 900 euros"
CONTAINER = (
    '<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="c.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
)
PACKAGE = (
    '<package xmlns="http://www.idpf.org/2007/opf" version="2.0" unique-identifier="i"><metadata'
    ' xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>B</dc:title></metadata><manifest><item id="a"'
    ' href="a.xhtml" media-type="application/xhtml+xml"/></manifest><spine><itemref idref="a"/></spine></package>'
)
PAGE = f"<html><body><h1>Contract</h1><p>{RENT}.</p></body></html>"


def make_pdf(pages: Sequence[str] = (f"{RENT}.", "Signed by both.")) -> bytes:
    file = io.BytesIO()
    canvas = Canvas(file)
    for page in pages:
        for number, line in enumerate(page.splitlines()):
            canvas.drawString(72, 750 - 14 * number, line)
        canvas.showPage()
    canvas.save()
    return file.getvalue()


def make_scan(pages: int) -> bytes:
    """A PDF whose pages are red pictures."""
    file = io.BytesIO()
    canvas = Canvas(file, pagesize=(300, 400))
    for _ in range(pages):
        canvas.drawImage(ImageReader(Image.new("RGB", (30, 40), "red")), 0, 0, 300, 400)
        canvas.showPage()
    canvas.save()
    return file.getvalue()


def lock_pdf(pdf: bytes) -> bytes:
    writer, file = pypdf.PdfWriter(clone_from=io.BytesIO(pdf)), io.BytesIO()
    writer.encrypt("secret")
    writer.write(file)
    return file.getvalue()


def make_docx() -> bytes:
    made, file = docx.Document(), io.BytesIO()
    made.add_heading("Contract", 1)
    made.add_paragraph(f"{RENT}.")
    made.save(file)
    return file.getvalue()


def make_xlsx() -> bytes:
    made, file = openpyxl.Workbook(), io.BytesIO()
    assert made.active is not None
    made.active.title = "Costs"
    made.active.append(["What", RENT])
    made.active.append(["Chairs", 12.5])
    made.save(file)
    return file.getvalue()


def make_pptx() -> bytes:
    made, file = pptx.Presentation(), io.BytesIO()
    slide = made.slides.add_slide(made.slide_layouts[5])
    assert slide.shapes.title
    slide.shapes.title.text = RENT
    made.save(file)
    return file.getvalue()


def make_epub() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("mimetype", "application/epub+zip")
        made.writestr("META-INF/container.xml", CONTAINER)
        made.writestr("c.opf", PACKAGE)
        made.writestr("a.xhtml", PAGE.replace("<html>", '<html xmlns="http://www.w3.org/1999/xhtml">'))
    return file.getvalue()


def make_bomb(size: int = 1_500_000_000) -> bytes:
    """A small file of Word's that would fill the memory."""
    file = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(make_docx())) as plain,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made,
    ):
        for name in plain.namelist():
            data = plain.read(name)
            if name != "word/document.xml":
                made.writestr(name, data)
                continue
            begin, end = data.split(RENT.encode())
            with made.open(name, "w", force_zip64=True) as entry:
                entry.write(begin)
                for _ in range(size // 1_000_000):
                    entry.write(b"A" * 1_000_000)
                entry.write(end)
    return file.getvalue()


DOCUMENTS = {
    "contract.pdf": make_pdf,
    "contract.docx": make_docx,
    "costs.xlsx": make_xlsx,
    "talk.pptx": make_pptx,
    "book.epub": make_epub,
    "page.html": PAGE.encode,
    "notes.md": f"# Notes\n{RENT}".encode,
}
