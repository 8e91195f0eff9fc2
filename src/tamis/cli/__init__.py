"""The command line: words in, words out, no computation."""

from __future__ import annotations

import json
import signal
import sys
from typing import Any


def main() -> None:
    """Run the command line, or print how to install what it needs."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # temporary files go, as with Ctrl-C
    try:
        sys.exit(_run())
    except KeyboardInterrupt:
        sys.stderr.write("error: stopped; nothing was written\n")
        sys.exit(1)


def _run() -> int:
    try:
        from tamis.cli.commands import app
    except ImportError as error:
        if (error.name or "").split(".")[0] not in ("typer", "click", "rich"):
            raise
        sys.stderr.write("error: the command line needs typer and rich: pip install 'tamis[cli]'\n")
        return 1
    try:
        return app(standalone_mode=False) or 0
    except Exception as error:
        if not hasattr(error, "exit_code"):
            raise
        return _refused(error)


def _refused(error: Any) -> int:
    """Print the message of the parser about bad usage, as JSON with --json; return the exit code."""
    if "--json" in sys.argv:
        sys.stdout.write(json.dumps({"error": error.format_message()}, ensure_ascii=False) + "\n")
    else:
        error.show()
    return int(error.exit_code)
