"""The nodes as expressions: the same columns for every input, and what each logit row says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import add, or_
from typing import Any

from gnncal.data.probability import LOWEST_SHIFTED_LOGIT, entropy_of_sums
from gnncal.scale.columns import LIST_COLUMN, SPLITS, Layout

REASONS = {  # why a row of the nodes cannot be used, in the order in which they are looked for
    "null id": "the id is null",
    "logits": "a logit is null, NaN or infinite, or the list has another length",
    "label": "the label is not a class",
    "split": "the split is not train, val or test",
    "unlabelled": "the split is val but there is no label",
}


def names(prefix: str, n_classes: int) -> list[str]:
    """Column names such as z0..zK-1."""
    return [f"{prefix}{k}" for k in range(n_classes)]


def total(values: Sequence[Any]) -> Any:
    """Return the sum of expressions."""
    return balanced(add, values)


def balanced(combine: Callable[[Any, Any], Any], values: Sequence[Any]) -> Any:
    """Combine expressions in pairs, so that the depth grows with the logarithm of their number."""
    if len(values) == 1:
        return values[0]
    middle = len(values) // 2
    return combine(balanced(combine, values[:middle]), balanced(combine, values[middle:]))


def exact(value: float) -> Any:
    """Return a float64 constant to the last bit; engines read a plain 1.25 as a decimal."""
    import ibis

    return ibis.literal(repr(float(value))).cast("float64")


def at_class(column: Any, values: Mapping[int, Any]) -> Any:
    """Return the value of the class that a column names; null if it has no value."""
    return column.cases(*values.items())


def canonical(raw: Any, layout: Layout, *, fits: bool) -> Any:
    """id, label, split, z0..zK-1 and ``reason``: null, or why the row cannot be used."""
    import ibis

    K = layout.n_classes
    if layout.logits:
        logits = [raw[name] for name in layout.logits]
    else:
        right_length = (raw[LIST_COLUMN].length() == K).fill_null(False)
        logits = [ibis.ifelse(right_length, raw[LIST_COLUMN][k], None) for k in range(K)]
    logits = [value if value.type().is_float32() else value.cast("float64") for value in logits]
    label, is_class = _label(raw, layout)
    split, needs_label = ibis.null("string"), ibis.literal(False)
    if layout.has_split:
        split = raw["split"].cast("string")
        needs_label = (split == "val").fill_null(False) & fits
    # z - z is NaN for NaN and infinity. DuckDB 2.0 answers isnan() from a file's statistics, which
    # leave NaN out.
    unusable = balanced(or_, [z.isnull() | (z - z != 0.0) for z in logits])
    reason = ibis.cases(
        (raw["id"].isnull(), "null id"),
        (unusable, "logits"),
        (~is_class, "label"),
        (split.notnull() & split.notin(SPLITS), "split"),
        (needs_label & (label < 0), "unlabelled"),
    )
    return raw.select(
        id=raw["id"],
        label=label,
        split=split,
        reason=reason,
        **dict(zip(names("z", K), logits, strict=True)),
    )


def described(clean: Any, n_classes: int) -> Any:
    """Add what the node's own logits say."""
    import ibis

    zs = names("z", n_classes)
    topped = clean.mutate(top=ibis.greatest(*(clean[z] for z in zs)))
    shifted = shifted_logits(topped, range(n_classes))
    weighed = topped.mutate(
        prediction=ibis.cases(*((topped[z] == topped["top"], k) for k, z in enumerate(zs))).cast(
            "int32"
        ),
        mass=total([s.exp() for s in shifted]),
        # Mean of the shifted logits under their own softmax, times the mass.
        energy=total([s.exp() * ibis.greatest(s, LOWEST_SHIFTED_LOGIT) for s in shifted]),
    )
    entropy = entropy_of_sums(weighed["mass"], weighed["energy"], n_classes)
    return weighed.mutate(entropy=entropy).drop("energy")


def shifted_logits(table: Any, classes: range) -> list[Any]:
    """Logits minus the largest one, as float64; exp of it never overflows."""
    top = table["top"].cast("float64")
    return [table[f"z{k}"].cast("float64") - top for k in classes]


def probabilities(table: Any, classes: range) -> list[Any]:
    """softmax(z) of some classes, as expressions that read the column ``mass``."""
    return [s.exp() / table["mass"] for s in shifted_logits(table, classes)]


def probability_at(table: Any, column: Any, classes: range) -> Any:
    """The probability of the class that a column names, or null if it is not among ``classes``."""
    logit = at_class(column, {k: table[f"z{k}"] for k in classes}).cast("float64")
    return (logit - table["top"].cast("float64")).exp() / table["mass"]


def _label(raw: Any, layout: Layout) -> tuple[Any, Any]:
    """Return the class (int32, -1 where unknown), and whether the entry can be a label."""
    import ibis

    if not layout.has_label:
        return ibis.literal(-1, "int32"), ibis.literal(True)
    value = raw["label"]
    if value.type().is_string():
        code = value.cases(*((n, k) for k, n in enumerate(layout.class_names or [])), else_=-2)
        code = ibis.ifelse(value.isnull(), -1, code)
    else:
        number = value.cast("float64")
        # NaN is what pandas has where a number is missing. It is looked for as among the logits.
        is_nan = (number - number != 0.0) & (number.abs() != float("inf"))
        whole = (number >= -1) & (number < layout.n_classes) & (number == number.floor())
        code = ibis.cases((value.isnull() | is_nan, -1), (whole, number), else_=-2)
    return code.cast("int32"), code >= -1
