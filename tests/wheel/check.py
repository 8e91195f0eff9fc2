"""Build the wheel and try it in fresh environments: with core dependencies alone, then with each extra.

    python tests/wheel/check.py [EXTRA ...]

Constraints, such as on the build of torch, go into PIP_CONSTRAINT as ever.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
SMOKE = Path(__file__).with_name("smoke.py")
SIZE = 800_000  # bytes; half of that was wanted, but the sources alone are 720 kB when packed


def run(*command: object) -> None:
    subprocess.run([str(part) for part in command], check=True, cwd=tempfile.gettempdir())


def main(only: list[str]) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    with tempfile.TemporaryDirectory(prefix="tamis-wheel-") as folder:
        try_all(Path(folder), extras, only)


def try_all(folder: Path, extras: dict[str, list[str]], only: list[str]) -> None:
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
    (wheel,) = folder.glob("*.whl")
    print(f"{wheel.name}: {wheel.stat().st_size / 1000:.0f} kB")
    assert wheel.stat().st_size < SIZE
    with zipfile.ZipFile(wheel) as file:
        assert {name.split("/")[0].split("-")[0] for name in file.namelist()} == {"tamis"}  # no experiments
    for extra in ["", *extras]:
        if only and extra not in only:
            continue
        began, place = time.perf_counter(), folder / f"env-{extra}"
        venv.create(place, with_pip=True)
        python = place / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", f"{wheel}[{extra}]" if extra else wheel)
        run(python, SMOKE, *([extra] if extra else []))
        print(f"{extra or 'core dependencies alone'}: works ({time.perf_counter() - began:.0f} s)", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
