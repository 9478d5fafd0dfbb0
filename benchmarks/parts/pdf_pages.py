"""Read a generated PDF in two columns, as journals set it, and measure time and memory."""

import io
import random
import time
from pathlib import Path
from typing import Any

from reportlab.lib.pagesizes import A4
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas

from briefcontext.knowledge.sources.pdf import read_pdf

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


def read_pages(pages: int = 200) -> dict[str, Any]:
    """Return the seconds, the peak memory in MB and the words of reading a generated PDF.

    The peak is that of the process, so measure in a new one.
    """
    content = pdf_of(pages)
    start = time.perf_counter()
    (document,) = read_pdf(io.BytesIO(content), "generated.pdf")
    seconds = time.perf_counter() - start
    status = Path("/proc/self/status").read_text()
    peak = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    words = len(document.page_content.split())  # type: ignore[union-attr]
    return {"seconds": seconds, "peak MB": int(peak) / 1024, "words": words}


if __name__ == "__main__":
    print(read_pages())
