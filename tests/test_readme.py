import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_example_s_output_is_real() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "readme", "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
