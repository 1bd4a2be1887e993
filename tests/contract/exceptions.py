"""Which calibrators a law of ``gnncal.testing`` cannot hold for, each with the reason.

A method's name stands for all of its variants, a variant's name for that one only.
"""

RANDOM_NETWORK = "it draws initial weights, dropout and the nodes it holds out"
RANDOM_PREDICTOR = "it draws the homophily predictor's initial weights and folds"
HOLDS_OUT = "held-out nodes decide when to stop, so the loss of all calibration nodes may rise"

ORDER_DECIDES = {
    "cagcn": RANDOM_NETWORK,
    "gats": RANDOM_NETWORK,
    "gets": RANDOM_NETWORK,
    "wats": RANDOM_NETWORK,
    "hots, predictor": RANDOM_PREDICTOR,
    "hots, cross-fitted": RANDOM_PREDICTOR,
    "hots-paper": RANDOM_PREDICTOR,
    "hots, paper's release": RANDOM_PREDICTOR,
}

EXCEPTIONS = {
    "renumbering nodes commutes with fitting": ORDER_DECIDES,
    "relabelling classes commutes with fitting": ORDER_DECIDES,
    "a constant added to a row of logits changes nothing": {
        "vs": "its weights scale the constant differently in each class",
        "matrix": "its weights scale the constant differently in each class",
        "order-invariant": "its network reads the logits themselves",
        "cagcn": "its network reads the logits themselves",
        "gats": "its attention compares the logits themselves",
        "simi-mailbox": "its similarity compares the logits themselves",
        "gets": "its experts read the logits themselves",
    },
    "the calibration loss never rises when converged": {
        "cagcn": HOLDS_OUT,
        "gats": HOLDS_OUT,
        "gets": HOLDS_OUT,
        "wats": HOLDS_OUT,
        "simi-mailbox": "its loss also has the gap of confidence, so the cross-entropy may rise",
    },
    "a planted temperature is recovered": {
        "uncalibrated": "it learns nothing",
        "isotonic": "a step curve approaches a smooth one only slowly",
        "irm": "a step curve approaches a smooth one only slowly",
        "histogram": "a histogram approaches a smooth curve only slowly",
        "spline": "it corrects the top class only",
        "hots-alpha1": "beta >= 0.01 and alpha = 1 always bend with homophily",
        "gets": "its thousands of weights overfit the nodes that the law has",
    },
}

# The same for conformal scores and for metrics, by the name in their table.
OF_SCORES = {
    "a more probable class of a node alone never scores worse": {
        "snaps": "nodes with similar features may know better than the node alone",
        "snaps, similar nodes alone": "nodes with similar features may know better",
    },
}
OF_METRICS: dict[str, dict[str, str]] = {}
