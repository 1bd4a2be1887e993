"""The laboratory's verbs, which are imported when they run."""

from gnncal.cli import Command

BENCH = Command(
    "Run the paper's experiments; make tables and figures.",
    "gnncal_lab.commands.bench:app",
    (
        "bench run --datasets Cora,Texas --seeds 3 --methods few --out my-results",
        "bench paper results --datasets Cora",
        "bench tables my-results",
        "bench figures my-results",
        "bench report my-results --out leaderboard.html",
        "bench diagnose my-results",
        "bench perturb --datasets Cora --seeds 3 --out my-results",
    ),
)
BLOCK_MODEL = Command(
    "Calibrate a simulated graph with all methods; write a report.",
    "gnncal_lab.commands.block_model:block_model",
    ("block-model --nodes 2000",),
)
CSBM = Command(
    "Run an experiment on the contextual stochastic block model.",
    "gnncal_lab.commands.csbm:csbm",
    ("csbm sweep --quick", "csbm all"),
)
