"""Where the data files that travel with the package are: RELEASE_MANIFEST.json and manifests/."""

from __future__ import annotations

from pathlib import Path

from quarry_harness.errors import EnvironmentProblem

_PACKAGE = Path(__file__).resolve().parent


def resource(name: str) -> Path:
    """Returns the path of a data file, such as "RELEASE_MANIFEST.json" or "manifests/models.toml".

    An installed package carries them in its folder `_data`, a checkout has them at its top level. Raises
    EnvironmentProblem where neither has the file.
    """
    for folder in (_PACKAGE / "_data", _PACKAGE.parent):
        path = folder / name
        if path.exists():
            return path
    raise EnvironmentProblem(
        f"{name}: this data file of quarry-harness is missing from {_PACKAGE / '_data'} and from {_PACKAGE.parent}.",
        "Install the package again: pip install --force-reinstall quarry-harness",
    )
