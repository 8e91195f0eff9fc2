"""The pages that are made from the code are those that are there."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_pages_are_up_to_date():
    made = subprocess.run([sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    text = (ROOT / "docs" / "architecture.md").read_text()
    assert text.count("```text") == 2 and len(text.split("trace: made by")[1].split("```")[1].splitlines()) < 20
