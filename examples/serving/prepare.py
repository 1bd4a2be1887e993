"""Train, calibrate and certify a model, and write the folder that the service loads.

python examples/serving/prepare.py --out run
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))  # the other examples

from example_graph import load_data
from gnncal.decisions import Policy, hold_out
from gnncal.torch import CalibratedModel
from train_torch import train


def main() -> None:
    """Fit the calibrator on half of the validation nodes, certify a threshold on the other half."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the service")
    parser.add_argument("--accuracy", type=float, default=0.8, help="share of right decisions")
    options = parser.parse_args()

    data = load_data()
    model = train(data)
    fit_nodes, held_out = hold_out(data.val_mask)
    data.val_mask = torch.zeros_like(data.val_mask)
    data.val_mask[fit_nodes] = True
    calibrated = CalibratedModel.fit(model, data)
    policy = Policy(accuracy=options.accuracy)
    probs = calibrated.predict(data)
    policy.fit(probs, data.y, calibration_nodes=held_out, train_nodes=data.train_mask)
    print(policy.report_.sentence)

    calibrated.save(options.out)
    with torch.inference_mode():
        logits = calibrated.model.eval()(data.x, data.edge_index)  # cached.py answers from these
    np.savez(options.out / "graph.npz", x=data.x, edge_index=data.edge_index, logits=logits)
    settings = {
        "n_features": data.num_features,
        "n_classes": int(data.y.max()) + 1,
        # JSON has no infinity; without a certified threshold every node is reviewed.
        "threshold": policy.act_threshold_ if math.isfinite(policy.act_threshold_) else None,
    }
    (options.out / "settings.json").write_text(json.dumps(settings))
    print(f"saved to {options.out}")


if __name__ == "__main__":
    main()
