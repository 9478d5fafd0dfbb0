"""A PDF in two columns, as journals set it."""

import io
import random

from reportlab.lib.pagesizes import A4
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas

WORDS = (
    *("in", "a", "trial", "of", "this", "toy", "drug", "adults", "with", "renal", "impairment"),
    *("were", "given", "half", "the", "usual", "dose", "every", "eight", "hours", "because"),
    *("it", "is", "excreted", "slowly", "and", "severe", "thrombocytopenia", "was", "observed"),
)
LINES, LEADING, SIZE = 62, 11, 8
COLUMNS = (50, 310)
WORDS_A_LINE, WIDTH = 12, 215


def pdf_of(pages: int) -> bytes:
    """Generate a PDF with two columns of text and counts such as 10^9/L on each page."""
    stream = io.BytesIO()
    canvas = Canvas(stream, pagesize=A4)
    draw = random.Random(0)
    for page in range(pages):
        canvas.setFont("Helvetica", SIZE)
        canvas.drawString(COLUMNS[0], 810, "Journal of Examples 2024")
        canvas.drawString(COLUMNS[1], 30, str(page + 1))
        for left in COLUMNS:
            for line in range(LINES):
                text = canvas.beginText(left, 790 - LEADING * line)
                text.setFont("Helvetica", SIZE)
                words = draw.choices(WORDS, k=WORDS_A_LINE)
                while stringWidth(" ".join(words), "Helvetica", SIZE) > WIDTH:
                    words.pop()
                text.textOut(" ".join(words))
                if line % 10 == 5:
                    text.textOut(" 10")
                    text.setFont("Helvetica", 0.6 * SIZE)
                    text.setRise(0.4 * SIZE)
                    text.textOut("9")
                    text.setFont("Helvetica", SIZE)
                    text.setRise(0)
                    text.textOut("/L")
                canvas.drawText(text)
        canvas.showPage()
    canvas.save()
    return stream.getvalue()
