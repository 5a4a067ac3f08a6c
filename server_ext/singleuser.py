"""``devcluster-singleuser``: JupyterHub's single-user server, started some seconds sooner.

Where ``rfc3987_syntax`` is installed, :mod:`jsonschema` imports it to check the formats
``iri`` and ``iri-reference``, and it builds its grammar at import: 3.5 s of the 8 s that
a server took to start on a two-core machine. No schema of the server uses these
formats, so it does without them.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the server as ``jupyterhub-singleuser`` does."""
    # None in sys.modules makes an import fail, which jsonschema takes for "not installed".
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    from jupyterhub.singleuser import main as singleuser

    singleuser()


if __name__ == "__main__":
    main()
