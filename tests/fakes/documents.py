"""Documents of all kinds, whole and broken, made here; each says that the rent is 900 euros."""

import io
import json
import zipfile
from base64 import b64encode
from collections.abc import Sequence
from datetime import date, time

import docx
import openpyxl
import pptx
import pypdf
from docx.oxml import parse_xml
from openpyxl.comments import Comment
from PIL import Image
from pypdf.annotations import Text
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


def make_form() -> bytes:
    """A PDF that somebody has filled in and commented on."""
    file, made = io.BytesIO(), io.BytesIO()
    canvas = Canvas(file)
    canvas.drawString(72, 750, "Application")
    canvas.acroForm.textfield(name="Tenant", value="Ann Jönsson", x=72, y=700, width=200, height=20)
    canvas.acroForm.checkbox(name="Pets", checked=True, x=72, y=650)
    canvas.acroForm.checkbox(name="Smoker", checked=False, x=72, y=600)
    canvas.save()
    writer = pypdf.PdfWriter(clone_from=file)
    writer.add_annotation(0, Text(text=RENT, rect=(50, 450, 70, 470)))
    writer.write(made)
    return made.getvalue()


def make_price_list() -> bytes:
    """A document of Word's with tabs in place of a table."""
    made, file = docx.Document(), io.BytesIO()
    made.add_paragraph("Tea\t2\t8.40")
    made.add_paragraph(RENT)
    made.save(file)
    return file.getvalue()


TEXT_BOX = """<mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"
  xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">
  <mc:Choice Requires="wps"><w:r><w:t>Harbour Street 4</w:t></w:r></mc:Choice>
  <mc:Fallback><w:r><w:t>Harbour Street 4</w:t></w:r></mc:Fallback></mc:AlternateContent>"""


def make_letter() -> bytes:
    """A document of Word's with a letterhead in a text box, a line below its pages, and a comment."""
    made, file = docx.Document(), io.BytesIO()
    section = made.sections[0]
    section.header.paragraphs[0].text = "Ann Ltd, "
    section.header.paragraphs[0]._p.append(parse_xml(TEXT_BOX))
    section.footer.paragraphs[0].text = "IBAN DE89\t3704"
    noted = made.add_paragraph(RENT)
    made.add_comment(noted.runs, text="too much?", author="Bob")
    made.save(file)
    return file.getvalue()


def make_noted_sheet() -> bytes:
    """A sheet of Excel's with a comment."""
    made, file = openpyxl.Workbook(), io.BytesIO()
    cell = made.create_sheet("Rent")["B2"]
    cell.parent.append(["Monday", time(9, 30), date(2026, 3, 1)])
    cell.value, cell.comment = RENT, Comment("per month", "Bob")
    made.save(file)
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
    assert slide.notes_slide.notes_text_frame
    slide.notes_slide.notes_text_frame.text = "Say hello first"
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

LOCKED_WORD = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600 + "EncryptedPackage".encode("utf-16-le") + b"\0" * 600
"""The beginning of what Word, Excel and PowerPoint write with a password."""
MAIL = (
    "From: Bob <bob@example.com>\r\nTo: ann@example.org\r\nSubject: =?utf-8?Q?Miete_M=C3=A4rz?=\r\nMIME-Version: 1.0\r\n"
    "Content-Type: multipart/mixed; boundary=b\r\n\r\n"
    "--b\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    f"{b64encode(f'Grüße. {RENT}'.encode()).decode()}\r\n"
    "--b\r\nContent-Type: application/pdf\r\nContent-Disposition: attachment; filename=plan.pdf\r\n\r\nx\r\n--b--\r\n"
)
NOTEBOOK = json.dumps(
    {
        "cells": [
            {
                "cell_type": "code",
                "execution_count": 1,
                "metadata": {},
                "source": ["rent = 900"],
                "outputs": [
                    {"output_type": "stream", "name": "stdout", "text": [RENT]},
                    {"output_type": "display_data", "data": {"image/png": "iVBORw0K" * 9_000}, "metadata": {}},
                ],
            }
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
)
