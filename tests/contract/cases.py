"""Every calibrator of the catalogue, and its variants, for the laws to hold."""

import gnncal
from gnncal.calibrators.catalogue import CALIBRATORS
from gnncal.homophily import Support


def _cases():
    for name, kind in CALIBRATORS.items():
        short = {"max_epochs": EPOCHS} if kind.needs_torch else {}
        yield name, lambda kind=kind, short=short: kind(**short)
        if "protocol" in kind._get_param_names():
            yield f"{name}, paper's protocol", lambda kind=kind: kind(protocol="paper")
    yield "vs without bias", lambda: gnncal.VectorScaling(bias=False)
    for estimator in ("agreement", "predictor", "cross-fitted"):
        yield f"hots, {estimator}", lambda e=estimator: gnncal.HoTS(homophily=e)
    yield "hots, clamped", lambda: gnncal.HoTS(homophily=Support(clamp_train_labels=True))
    yield "hots, out side", lambda: gnncal.HoTS(homophily=Support(side="out"))
    yield "hots, both sides", lambda: gnncal.HoTS(homophily=Support(side="both"))
    yield "hots, paper's text", gnncal.HoTS.paper
    yield "hots, paper's release", lambda: gnncal.HoTS.paper("release")
    yield (
        "cagcn, original",
        lambda: gnncal.CaGCN(
            link="log-shifted", margin_weight=0.5, initial="uniform", protocol="paper"
        ),
    )
    yield "gats, released", lambda: gnncal.GATS(positive=False, max_epochs=EPOCHS)
    yield "gets, frozen degrees", lambda: gnncal.GETS(train_degrees=False, max_epochs=EPOCHS)


EPOCHS = 6  # the laws hold after any number of them
CASES = dict(_cases())
