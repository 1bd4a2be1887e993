import sys
from pathlib import Path

# The site's own modules live beside its pages, not in the package.
sys.path.insert(0, str(Path(__file__).parents[2] / "docs"))
