"""The command line: words in, words out, no computation."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line, or say how to install what it needs."""
    try:
        from tamis.cli.commands import app
    except ImportError as error:
        if (error.name or "").split(".")[0] not in ("typer", "click", "rich"):
            raise
        sys.stderr.write("error: the command line needs typer and rich: pip install 'tamis[cli]'\n")
        sys.exit(1)
    app()
