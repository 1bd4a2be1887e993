"""Run every experiment on the block model and store its findings, which fill docs/theory.md.

python benchmarks/theory.py     # minutes; also draws the figures of the page
"""

from __future__ import annotations

import json
from pathlib import Path

from gnncal_lab.pages.csbm.experiments import NAMES, get_experiment

ROOT = Path(__file__).parents[1]
DRAWN = ("sweep", "leak", "limit", "sufficiency")


def main() -> None:
    """Run, store and draw."""
    stored = {}
    for name in NAMES:
        experiment = get_experiment(name)
        record = experiment.run()
        findings = [[f.quantity, f.ours, f.reference] for f in experiment.findings(record)]
        stored[name] = {"constants": experiment.constants(record), "findings": findings}
        if name in DRAWN:
            image = experiment.figure(record, image_format="png")
            (ROOT / "docs" / "images" / f"csbm_{name}.png").write_bytes(image)
        print(name, flush=True)
    text = json.dumps(stored, indent=1, ensure_ascii=False)
    (ROOT / "benchmarks" / "results" / "theory.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
