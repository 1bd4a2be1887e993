"""
Calibrate a graph in Parquet
============================

Your nodes and edges are Parquet tables, and the graph may not fit in memory. ``gnncal.scale`` reads
and writes Parquet with DuckDB or Spark. Its probabilities equal those of ``gnncal.calibrate``.
"""

# %%
# Two tables
# ----------
# ``nodes.parquet`` has the id, the label if known, the split, and one logit column for each class.
# ``edges.parquet`` has the ids of sender and receiver. Ids may be text.

from pathlib import Path
from tempfile import mkdtemp

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import gnncal

task = gnncal.example()  # handwritten digits, linked to similar ones
logits, labels, graph = task.logits, task.labels, task.graph
split = np.full(len(labels), "test", dtype="<U5")
split[task.calibration_nodes], split[task.train_nodes] = "val", "train"

folder = Path(mkdtemp())
ids = np.array([f"image-{i}" for i in range(len(labels))])
columns = {"id": ids, "label": labels, "split": split}
columns |= {f"z{k}": logits[:, k] for k in range(10)}
pq.write_table(pa.table(columns), folder / "nodes.parquet")
senders, receivers = graph.edge_index
pq.write_table(pa.table({"src": ids[senders], "dst": ids[receivers]}), folder / "edges.parquet")

# %%
# One call
# --------
# Paths may be files, folders or patterns such as ``nodes/*.parquet``. Data beyond ``memory_limit``
# are written to disk. The command is ``gnncal scale nodes.parquet edges.parquet --out calibrated``.

summary = gnncal.scale.calibrate(
    folder / "nodes.parquet",
    folder / "edges.parquet",
    folder / "calibrated",
    method="structural",
    memory_limit="1GiB",
    threads=1,
)
print(summary)

# %%
# The result
# ----------
# The folder has Parquet files, the calibrator and the metrics. It appears when the run is complete.

print(sorted(path.name for path in (folder / "calibrated").iterdir()))
table = pq.read_table(folder / "calibrated" / "probabilities")
print(table.slice(0, 5).to_pandas())

# %%
# The histogram shows the confidence of all nodes before and after calibration.

figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
ax.hist(
    gnncal.calibrators.softmax(logits).max(axis=1), bins=40, range=(0, 1), alpha=0.5, label="before"
)
ax.hist(table["confidence"].to_numpy(), bins=40, range=(0, 1), alpha=0.5, label="after")
ax.set(xlabel="confidence", ylabel="nodes")
ax.legend()
plt.show()

# %%
# The same graph in memory
# ------------------------
# ``gnncal.calibrate`` gives the same confidence up to rounding.

result = gnncal.calibrate(logits, labels, graph, **task.splits)
confidence = dict(zip(table["id"].to_pylist(), table["confidence"].to_pylist(), strict=True))
difference = [
    confidence[name] - p for name, p in zip(ids, result.probabilities.max(1), strict=True)
]
print(f"largest difference in confidence: {np.abs(difference).max():.1e}")
