"""Every calibrator of the catalogue, and its variants, for the laws to hold."""

import gnncal
from gnncal.calibrators.catalogue import CALIBRATORS


def _cases():
    for name, kind in CALIBRATORS.items():
        yield name, kind
        if "protocol" in kind._get_param_names():
            yield f"{name}, paper's protocol", lambda kind=kind: kind(protocol="paper")
    yield "vs without bias", lambda: gnncal.VectorScaling(bias=False)
    for estimator in ("agreement", "predictor", "cross-fitted"):
        yield f"hots, {estimator}", lambda e=estimator: gnncal.HoTS(homophily=e)
    yield "hots, clamped", lambda: gnncal.HoTS(clamp_train_labels=True)
    yield "hots, out side", lambda: gnncal.HoTS(side="out")
    yield "hots, paper's text", gnncal.HoTS.paper
    yield "hots, paper's release", lambda: gnncal.HoTS.paper("release")


CASES = dict(_cases())
# Fits that start from random weights or folds are only reproducible at fixed parameters.
RANDOM = [
    name for name in CASES if any(w in name for w in ("predictor", "fitted", "text", "release"))
]
