"""Refuse modules that have grown past the ceiling: split them by their reasons to exist."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CEILING = 500
ENDINGS = {".py", ".ts", ".tsx"}


def main() -> int:
    """Check every source file that git knows or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    sources = (Path(name) for name in listed if Path(name).suffix in ENDINGS)
    lengths = {path: path.read_text().count("\n") for path in sources if path.is_file()}
    long = {path: length for path, length in lengths.items() if length > CEILING}
    for path, length in sorted(long.items()):
        print(f"{path}: {length} lines; the ceiling is {CEILING}", file=sys.stderr)
    return 1 if long else 0


if __name__ == "__main__":
    sys.exit(main())
