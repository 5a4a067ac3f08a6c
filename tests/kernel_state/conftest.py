import sys
from pathlib import Path

# pytest's importlib mode puts no folder on the path; these helpers are for these tests only.
sys.path.insert(0, str(Path(__file__).parent))
