"""The same questions to the last release with the first algorithm."""

import runpy
from pathlib import Path

runpy.run_path(str(Path(__file__).with_name("qwen-agent.py")), run_name="__main__")
