"""One self-contained page with every block-model experiment: text, tables, inlined figures."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from html import escape
from string import Template
from typing import Any

from gnncal_lab.pages.csbm.experiment import Experiment

INTRODUCTION = (
    "HoTS (homophily-aware temperature scaling) computes a temperature for each node of a graph, "
    "from the entropy of its prediction and its homophily h, the share of its neighbours that have "
    "its class. The paper derives HoTS from the contextual stochastic block model (CSBM), a random "
    "graph whose class probabilities can be computed exactly. In the CSBM, classes are equally "
    "likely, features are normally distributed around equidistant class means, and a neighbour has "
    "the node's class with probability h. A one-layer linear network averages the features of a "
    "node and its neighbours. The class-template scores s compare this average with the class "
    "means. Each experiment below tests a statement of the paper on samples of the CSBM. The paper "
    "does not print the constants of its simulations. Ours start from the released code and are "
    "printed with each experiment. Intervals are 95% intervals from Student's t over seeds. "
    "Experiment 1 uses the Fisher information of all nodes instead, and the correlations of "
    "experiment 3 use a bootstrap over seeds."
)

OTHER_SIZE = (
    "This page was made with small samples or another number of seeds. The tables and figures show "
    "these samples. The texts under “Result” describe gnncal csbm all at full size, so they may "
    "differ from the tables."
)

NOTATION = (
    "K: number of classes. n: number of nodes. d: mean degree. σ: standard deviation of features. "
    "ρ₀: distance of a class mean from the centre of all class means. h̃ = (Kh - 1)/(K - 1): "
    "normalised homophily. v = σ²/(d + 1): variance of a score. Γ(h) = ρ₀(1 + d h̃)/(d + 1): "
    "signal, the mean score of the node's class. h₀: homophily at which Γ changes sign. T: "
    "temperature. T_Bayes = v/Γ(h). TS: one temperature for all nodes. ε: small constant. "
    "Support: mean probability that the neighbours give to a node's predicted class. Agreement: "
    "share of neighbours with the same predicted class."
)

PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tests of the theory of HoTS</title>
<style>
body { font: 17px/1.55 Georgia, "Times New Roman", serif; color: #222; background: #fff;
       max-width: 62rem; margin: 3rem auto; padding: 0 1.5rem; }
h1, h2, nav, table, .constants { font-family: "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 2rem; line-height: 1.2; }
h2 { font-size: 1.35rem; margin: 3.5rem 0 .6rem; padding-top: 1.2rem; border-top: 1px solid #ccc; }
nav { font-size: .9rem; margin: 1.5rem 0; }
nav a { color: #3377aa; text-decoration: none; margin-right: 1.1rem; white-space: nowrap; }
p { margin: .7rem 0; }
.label { font-weight: bold; color: #3377aa; }
.statement { border-left: 4px solid #88bbdd; padding: .1rem 0 .1rem 1rem; }
.constants { font-size: .82rem; color: #666; }
img { width: 100%; height: auto; margin: 1rem 0 .4rem; }
img.narrow { width: 66%; display: block; margin-left: auto; margin-right: auto; }
table { border-collapse: collapse; font-size: .85rem; width: 100%; margin: .8rem 0; }
th { text-align: left; border-bottom: 1.5px solid #222; padding: .3rem .8rem .3rem 0; }
td { border-bottom: 1px solid #e5e5e5; padding: .25rem .8rem .25rem 0; vertical-align: top; }
td:nth-child(2) { white-space: nowrap; font-variant-numeric: tabular-nums; }
code { font-size: .85em; background: #f3f3f3; padding: .1em .3em; }
@media print { h2 { break-before: page; border: none; } nav { display: none; } }
</style>
</head>
<body>
<h1>Tests of the theory of HoTS on graphs with known probabilities</h1>
<p>$introduction</p>
$size<p class="constants">$notation</p>
<nav>$links</nav>
$sections
<p class="constants">gnncal $version, <code>$command</code></p>
</body>
</html>
""")
SECTION = Template("""<h2 id="$name">$number. $title</h2>
<p class="statement">$statement</p>
<p><span class="label">Method.</span> $procedure</p>
<img $shape src="data:image/svg+xml;base64,$image" alt="$title">
<p class="constants">$constants. <code>gnncal csbm $name</code></p>
<table><tr><th>quantity</th><th>measured [95% interval]</th>
<th>theory, paper or other comparison</th></tr>
$rows</table>
<p><span class="label">Result.</span> $reading</p>
""")
ROW = Template("<tr><td>$quantity</td><td>$ours</td><td>$reference</td></tr>\n")


def csbm_page(
    results: Sequence[tuple[Experiment, Any]], *, version: str, command: str, full_size: bool = True
) -> str:
    """Return the page of these experiments and their records, in this order."""
    links = [
        f'<a href="#{experiment.name}">{i}. {experiment.title}</a>'
        for i, (experiment, _) in enumerate(results, 1)
    ]
    return PAGE.substitute(
        introduction=escape(INTRODUCTION),
        size="" if full_size else f"<p><strong>{escape(OTHER_SIZE)}</strong></p>\n",
        notation=escape(NOTATION),
        links=" ".join(links),
        sections="\n".join(_section(i, *result) for i, result in enumerate(results, 1)),
        version=escape(version),
        command=escape(command),
    )


def _section(number: int, experiment: Experiment, record: Any) -> str:
    rows = [
        ROW.substitute(
            quantity=escape(line.quantity),
            ours=escape(line.ours),
            reference=escape(line.reference),
        )
        for line in experiment.findings(record)
    ]
    return SECTION.substitute(
        name=experiment.name,
        number=number,
        title=escape(experiment.title),
        statement=escape(experiment.statement),
        procedure=escape(experiment.procedure),
        reading=escape(experiment.reading),
        constants=escape(experiment.constants(record)),
        shape='class="narrow"' if experiment.n_panels == 1 else "",
        image=b64encode(experiment.figure(record, image_format="svg")).decode(),
        rows="".join(rows),
    )
