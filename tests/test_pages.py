"""The pages that follow from the code are up to date."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_generated_pages_are_up_to_date():
    check = subprocess.run([sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert check.returncode == 0, check.stderr


def test_architecture_lists_every_package_once():
    text = (ROOT / "docs" / "architecture.md").read_text().split("## How a fit runs")[0]
    rows = re.findall(r"^\| (`.*?) \|", text, re.M)
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    parts = [path for path in (ROOT / "src" / "tamis").iterdir() if not path.name.startswith("__")]
    assert sorted(listed) == sorted({path.stem for path in parts if path.is_dir() or path.suffix == ".py"})
