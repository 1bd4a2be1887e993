"""What each block-model experiment states, for people who see the page and not the code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """An experiment in words."""

    title: str
    statement: str  # what the paper says
    experiment: str  # what is done here
    reading: str  # what to see, and how it compares with the paper


INTRODUCTION = (
    "HoTS gives every node of a graph its own temperature, from the entropy of its prediction and "
    "from its local homophily h, the share of neighbours that have its class. The formula comes "
    "from a model in which everything can be computed: the contextual stochastic block model "
    "(CSBM). Classes are equally likely, features are Gaussian around equidistant class means, a "
    "neighbour has a node's own class with probability h. A one-layer linear graph network "
    "averages a node's features with its neighbours', and the class-template scores s compare the "
    "average with the class means. Every statement below is sampled, measured and put beside what "
    "the theory or the paper says. The paper does not print the constants of its simulations; "
    "those of its released code are the starting point and are stated with each experiment. "
    "Intervals are 95 %: Student's over seeds, but in the first experiment from the Fisher "
    "information of all nodes, and of the third's correlations by bootstrap over seeds."
)

OTHER_SIZE = (
    "This page was made with other sizes or seeds than the full ones. Its tables and figures are "
    "its own; the texts under “What to see” describe gnncal csbm all at full size, and small "
    "samples need not show all that they say."
)

NOTATION = (
    "K classes, mean degree d, feature noise σ, ρ₀ the distance of a class mean from their centre; "
    "h̃ = (Kh - 1)/(K - 1); v = σ²/(d + 1); Γ(h) = ρ₀(1 + d h̃)/(d + 1), the signal; h₀, where Γ "
    "changes its sign."
)

SECTIONS = {
    "posterior": Section(
        title="The exact posterior",
        statement=(
            "Theorem 1: given the scores s and the homophily h, the class probabilities are "
            "softmax(Γ(h) s / v). Homophily acts through one number only, the inverse temperature "
            "Γ(h)/v. Where Γ(h) < 0 the order of the scores is reversed, which no positive "
            "temperature can do."
        ),
        experiment=(
            "Nodes are drawn in groups of equal h from the population-concentration model (degree "
            "and composition of a neighbourhood at their expected values). In each group "
            "temperature scaling is fitted to the labels, on s and on -s, and the better one kept."
        ),
        reading=(
            "The fitted inverse temperature is Γ(h)/v on both sides of h₀, its intervals hold the "
            "theorem's value as often as they should, and the calibration error of the posterior "
            "is what chance alone gives. Below h₀ the arg max of the scores does worse than "
            "guessing while the posterior does better. The class means are half as long as in the "
            "release, else high homophily would leave no mistakes to learn from."
        ),
    ),
    "necessity": Section(
        title="Homophily is necessary",
        statement=(
            "Proposition 1: if the optimal temperature varies with h among nodes of equal logits, "
            "no temperature computed from logits alone is optimal. To leading order the loss is "
            "half the curvature-weighted conditional variance of the optimal inverse temperature."
        ),
        experiment=(
            "Half of the nodes have h = 0.5 - spread, half h = 0.5 + spread. For each score vector "
            "the best logit-only temperature is found exactly, with P(h | s) known in closed form; "
            "the gap to the best (logit, h) temperature is averaged over scores."
        ),
        reading=(
            "The gap is exactly zero where h does not vary, grows with the square of the spread "
            "and meets the formula while the spread is small. Beyond, the quadratic formula "
            "understates it, as a local expansion may. Up to a spread of 0.15 a single temperature "
            "loses hardly more than the best logit-only rule (0.050 against 0.048 nats): the "
            "logits say little about h. At 0.35 they say more, and it loses 0.236 against 0.185."
        ),
    ),
    "sweep": Section(
        title="Temperature falls with homophily",
        statement=(
            "The Bayes temperature is v/Γ(h), about proportional to 1/h̃. The paper fits a "
            "temperature on graphs of homophily 0.05 to 0.95, twenty seeds each, and reports a "
            "Pearson correlation of -0.846 between h and the mean temperature at the eight values "
            "from 0.25 on."
        ),
        experiment=(
            "For each h and seed an undirected graph with independent edges is drawn, split "
            "20/10/70, and temperature scaling is fitted on the calibration nodes: to the "
            "class-template scores, and to the logits of a one-layer GCN trained for 500 epochs of "
            "Adam on that graph."
        ),
        reading=(
            "Both fall with h, as the paper says. The law v/Γ(h) itself has r near -0.87 with "
            "these constants, so a value like the paper's -0.846 shows the curvature of a "
            "hyperbola rather than noise. Up to h = 0.85 the temperatures fitted to template "
            "scores lie above T_Bayes: in a finite graph degrees and compositions fluctuate, which "
            "the population model leaves out, and the scores deserve less trust. At h = 0.95 they "
            "lie below it: calibration sets hold few mistakes, some none at all, and then the fit "
            "ends at the bound of T. A trained network has adapted its weights to its graph: where "
            "homophily is low it overfits and T exceeds one, where it is high 500 epochs leave it "
            "too timid and T is below one, nearly along a line. Our r is stronger than the paper's "
            "for both kinds of logits; the paper does not say which it used, nor with which "
            "constants. Arrows are means beyond the picture."
        ),
    ),
    "attenuation": Section(
        title="Why the exponent is learned",
        statement=(
            "Proposition 2: if ln T = a - u, with u = ln(|h̃| + ε), but u is seen with noise of "
            "standard deviation τ, least squares finds the exponent Var(u)/(Var(u) + τ²) instead "
            "of one. The paper's fit goes from 1.009 without noise to 0.182 at τ = 0.5."
        ),
        experiment=(
            "Homophily is uniform on 0.5 to 0.9. The exponent is fitted by least squares on ln T, "
            "by maximum likelihood on labels drawn at T = c/(h̃ + ε), and by maximum likelihood on "
            "the labels of the block model itself."
        ),
        reading=(
            "The formula holds for least squares. The cross-entropy fit, of which the proposition "
            "promises nothing, stays close to it and a little below at large noise. On the block "
            "model's own labels the exponent starts at about 0.9 and not at one: with ten "
            "neighbours the node's own feature still counts, and T = σ²/((1 + d h̃)ρ₀) is flatter "
            "than 1/h̃. The paper's two numbers agree with the formula."
        ),
    ),
    "entropy": Section(
        title="Two approximations",
        statement=(
            "The numerator of HoTS replaces the length of the centred logits by √(2K ln K (1 - "
            "e)), e the normalised entropy, with a remainder of order 1 - e (3/2 for two classes). "
            "Its denominator replaces logit Φ(x) by π x/√3, which turns the matching temperature "
            "T_match = δ/logit q(h), q(h) = Φ(Γ(h)/√v), into one over h̃."
        ),
        experiment=(
            "Random directions of centred logits at growing length for several K; the line against "
            "the exact function; and the log loss of each temperature rule on two-class nodes."
        ),
        reading=(
            "The orders are as stated. The proxy is good to some 15 % while typical logits are "
            "below one and saturates beyond: networks with logits of five or ten are outside of "
            "the expansion, HoTS then uses it as a monotone measure, as the paper says. The line "
            "is within 14 % up to x = 2. T_match is calibrated within homophily groups but gives "
            "all nodes of a group the same confidence; it loses more than a single temperature "
            "does. What HoTS takes from it is the form, not the values."
        ),
    ),
    "kl": Section(
        title="Neighbours are nearly independent",
        statement=(
            "Given the centre node, the logits of its neighbours share only the nodes that two of "
            "them aggregate. The Gaussian KL between their joint law and independence is of order "
            "K²d²/n. The paper measures slopes of -1.01 in n, 2.08 in d, 1.81 in K and 1.97 for K "
            "≥ 8."
        ),
        experiment=(
            "Undirected graphs; for sampled centres the matrix R of shared inputs is computed "
            "exactly, S_jj'/√(d_j d_j') with the nodes' own degrees so that I + R is a correlation "
            "matrix, and the KL is -(K - 1)/2 ln det(I + R): centred logits have rank K - 1."
        ),
        reading=(
            "The three sweeps fall on one line of slope one. Counting rank K - 1 the slope in K is "
            "two over the whole range; the paper's 1.81, rising to 1.97, is close to what the same "
            "data give when every class counts as a dimension (rank K). At a fixed number of nodes "
            "a class the KL grows in proportion to K, as a law in K² must, and not as one in K. "
            "The slope in d is a little below two, because two neighbours that are adjacent share "
            "both of their own features, a term that grows like d and not d². Counting shared "
            "neighbours only, against the paper's definition, brings it to two and closer to the "
            "paper's."
        ),
    ),
    "hots": Section(
        title="What HoTS recovers",
        statement=(
            "HoTS turns the law into T = T_base + β √(2K ln K (1 - e)) / (|h̃| + ε)^α with three "
            "fitted numbers and an estimate of h."
        ),
        experiment=(
            "Nodes of six levels of homophily live in one graph. The avoidable loss is that of "
            "temperature scaling minus that of the best temperature of each level, found on the "
            "test nodes. Three worlds: the theorem's own, template scores on a sampled graph, and "
            "a trained one-layer GCN on it. Grey bars are told something about the true h, blue "
            "ones estimate it."
        ),
        reading=(
            "Told the true h, HoTS recovers most of the avoidable loss; without its entropy term "
            "it comes closer still, for the Bayes temperature does not depend on the entropy. "
            "Noise on h costs much: ± 0.3 leaves little. Of the estimates that need no label, "
            "support recovers about two thirds and agreement less than half, on template scores as "
            "on a trained network. The cross-fitted predictor finds nothing, for features say "
            "nothing about h here. More than all is possible: the best temperature of a level "
            "knows h and nothing else, while the realised share of equal neighbours, which the "
            "paper calls oracle, is computed from the node's true label. On a sampled graph "
            "T_Bayes is not the best any more, because degrees and compositions fluctuate."
        ),
    ),
    "leak": Section(
        title="The leak in the paper's predictor",
        statement=(
            "The paper estimates h by a small GCN trained on the labels of training and "
            "calibration nodes, then fits the temperature on those calibration nodes."
        ),
        experiment=(
            "Features of 128 dimensions, homophily uniform on 0.2 to 0.95, independent of the "
            "features. The paper's predictor, its cross-fitted version (a calibration node is "
            "estimated by predictors that never saw its label) and soft support, on calibration "
            "and on test nodes. AUC: how well the estimate tells correct predictions from wrong."
        ),
        reading=(
            "On calibration nodes the predictor has memorised its targets (the peaks near 0, 1/2 "
            "and 1 are shares among one or two labelled neighbours); on test nodes it knows "
            "nothing. HoTS, fitted where the estimate looks trustworthy, trusts it where it is "
            "not: loss and calibration error on test nodes rise above those of plain temperature "
            "scaling. Cross-fitting removes nearly all of the harm. Support looks alike on both "
            "kinds of nodes and lowers the loss, here even below that of the true h, because it "
            "sees whether the neighbours agree with this very prediction; it does not lower the "
            "ECE: sharper probabilities, not more even ones."
        ),
    ),
}
