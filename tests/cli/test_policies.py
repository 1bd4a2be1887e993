"""`gnncal decide --positive` and `gnncal apply --policy`: decisions about one class from a file."""

import json

import numpy as np
import pytest

import gnncal
from gnncal.decisions import Costs, Policy, cross_fit, hold_out
from tests.cli.test_decide import names, run
from tests.test_bundles import N as N_ROWS
from tests.test_bundles import write_npz, write_parquet

N = 3000


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Two classes, a tenth of the nodes positive, a model that is class-weighted."""
    generator = np.random.default_rng(0)
    labels = (generator.random(N) < 0.1).astype(int)
    z = 2.5 * labels + generator.normal(size=N)
    part = np.arange(N) % 5
    return write_npz(
        tmp_path_factory.mktemp("policies") / "in.npz",
        logits=np.column_stack([0 * z, z]),
        labels=labels,
        edge_index=generator.integers(N, size=(2, 3 * N)),
        train_mask=part == 0,
        val_mask=(part == 1) | (part == 2),
        test_mask=part > 2,
        x=None,
        node_ids=None,
        class_names=np.array(["fine", "fraud"]),
    )


def decide(source, out, *arguments):
    return run("decide", source, "--positive", "fraud", *arguments, "--out", out)


def test_the_command_does_what_the_library_does(tmp_path, source):
    asked = ("--act", "0.5", "--clear", "0.97", "--recall", "0.8", "--hold-out", "0.5")
    result = decide(source, tmp_path / "o", *asked)
    assert result.exit_code == 0, result.output
    bundle = gnncal.read_bundle(source)
    fit_nodes, held = hold_out(bundle.calibration_nodes, labels=bundle.labels)
    calibrator = gnncal.calibrators.Structural(keep_predictions=False).fit(
        *(bundle.logits, bundle.labels, bundle.graph),
        calibration_nodes=fit_nodes,
        train_nodes=bundle.train_nodes,
    )
    probs = calibrator.predict_proba(bundle.logits, bundle.graph)
    policy = Policy(positive="fraud", act=0.5, clear=0.97, recall=0.8)
    policy.fit(
        *(probs, bundle.labels),
        calibration_nodes=held,
        class_names=bundle.class_names,
        decision_nodes=bundle.test_nodes,
    )
    written = np.load(tmp_path / "o" / "decisions.npz")
    outside = np.arange(N) % 5 > 2
    np.testing.assert_array_equal(written["action"][outside], policy.decide(probs[outside]))
    assert (written["action"][~outside] == "").all()
    np.testing.assert_allclose(written["probability"], probs[:, 1])
    assert names(tmp_path / "o") == [
        "calibrator.safetensors",
        "decisions.npz",
        "policy.safetensors",
        "summary.json",
    ]
    loaded = gnncal.load(tmp_path / "o" / "policy.safetensors")
    assert loaded.act_threshold_ == policy.act_threshold_
    summary = json.loads((tmp_path / "o" / "summary.json").read_text())
    assert summary["method"] == "structural-free"
    counts = [int((written["action"] == name).sum()) for name in ("act", "clear", "review")]
    forecast = summary["policy"]["forecast"]
    assert list(forecast["counts"].values()) == counts
    assert {each["what"] for each in summary["policy"]["test"]["checks"]} <= {
        "act",
        "clear",
        "recall",
    }
    for words in ("Act where P(fraud) is at least", "to review", "Observed: precision"):
        assert words in " ".join(result.stdout.split())


def test_costs_and_budgets_are_said_with_what_was_found(tmp_path, source):
    priced = decide(source, tmp_path / "o", "--costs", "missed=50, false-alarm=20,review=3")
    assert priced.exit_code == 0, priced.output
    assert "doing nothing" in " ".join(priced.stdout.split())
    assert "Observed: cost" in " ".join(priced.stdout.split())
    assert "nodes. Forecast on the same nodes" in " ".join(priced.stdout.split())
    saved = gnncal.load(tmp_path / "o" / "policy.safetensors")
    assert isinstance(saved.costs, Costs)
    assert saved.costs.false_alarm == 20
    limited = decide(source, tmp_path / "o", "--budget", "60", "--json")
    actions = np.load(tmp_path / "o" / "decisions.npz")["action"]
    assert (actions == "review").sum() == 60
    estimates = json.loads(limited.stdout)["policy"]["forecast"]["estimates"]
    assert estimates["precision"]["low"] <= estimates["precision"]["expected"]


def test_an_uncertified_policy_ends_with_three_and_a_partly_certified_one_does_not(
    tmp_path, source
):
    nothing = decide(source, tmp_path / "o", "--act", "0.9999")
    assert nothing.exit_code == 3
    assert nothing.output.count("No threshold certifies a precision of 99.99% for acting") == 1
    assert (np.load(tmp_path / "o" / "decisions.npz")["action"] != "act").all()
    some = decide(source, tmp_path / "o", "--act", "0.9999", "--recall", "0.7")
    assert some.exit_code == 0
    gated = ("--act", "0.9999", "--recall", "0.7", "--fail-if", "uncertified>0")
    assert decide(source, tmp_path / "o", *gated).exit_code == 4


def test_a_saved_policy_decides_about_new_nodes(tmp_path, source):
    decide(source, tmp_path / "o", "--recall", "0.8")
    bundle = gnncal.read_bundle(source)
    new = write_npz(
        tmp_path / "new.npz",
        logits=bundle.logits[:500],
        labels=None,
        edge_index=np.empty((2, 0), np.int64),
        train_mask=None,
        val_mask=None,
        test_mask=None,
        x=None,
        node_ids=None,
        class_names=None,
    )
    calibrator = tmp_path / "o" / "calibrator.safetensors"
    policy = tmp_path / "o" / "policy.safetensors"
    result = run("apply", calibrator, new, "--policy", policy, "--out", tmp_path / "n")
    assert result.exit_code == 0, result.output
    assert "Of 500 nodes" in " ".join(result.stdout.split())
    written = np.load(tmp_path / "n" / "decisions.npz")
    probs = np.load(tmp_path / "n" / "probabilities.npz")["probs"]
    np.testing.assert_array_equal(written["action"], gnncal.load(policy).decide(probs))
    assert names(tmp_path / "n") == ["decisions.npz", "probabilities.npz", "summary.json"]
    refused = run("apply", calibrator, new, "--policy", calibrator, "--out", tmp_path / "m")
    assert refused.exit_code == 2
    assert "--policy expects policy.safetensors" in refused.stderr
    assert not (tmp_path / "m").exists()


def test_a_policy_is_judged_by_its_own_class_where_names_are_numbers(tmp_path, source):
    with np.load(source) as file:
        arrays = {**file, "class_names": np.array(["1", "0"])}
    np.savez(tmp_path / "in.npz", **arrays)
    decided = ("--positive", "0", "--recall", "0.8", "--out", tmp_path / "o")
    assert run("decide", tmp_path / "in.npz", *decided).exit_code == 0
    files = [tmp_path / "o" / f"{name}.safetensors" for name in ("calibrator", "policy")]
    result = run(
        "apply", files[0], tmp_path / "in.npz", "--policy", files[1], "--out", tmp_path / "n"
    )
    assert result.exit_code == 0, result.output
    summary = json.loads((tmp_path / "n" / "summary.json").read_text())
    assert gnncal.load(files[1]).positive_ == 1  # the second column is called 0
    assert summary["positive"]["class"] == 1


def test_a_refreshed_policy_is_that_of_the_library_on_the_graph_of_today(tmp_path):
    """Nodes come in another order and with other probabilities; ids say which they are."""
    source = write_parquet(tmp_path / "in")
    asked = ("--positive", "dog", "--recall", "0.5", "--hold-out", "0.5")
    assert run("decide", source, *asked, "--out", tmp_path / "o").exit_code == 0
    bundle = gnncal.read_bundle(source)
    order = np.random.default_rng(0).permutation(bundle.logits.shape[0])
    row = np.argsort(order)
    today = write_npz(
        tmp_path / "today.npz",
        logits=0.5 * bundle.logits[order],
        labels=None,
        edge_index=row[bundle.graph.edge_index],
        **dict.fromkeys(("train_mask", "val_mask", "test_mask", "x")),
        node_ids=bundle.node_ids[order],
        class_names=np.array(bundle.class_names),
    )
    files = [tmp_path / "o" / f"{name}.safetensors" for name in ("calibrator", "policy")]
    result = run(
        *("apply", files[0], today, "--policy", files[1], "--refresh", "--out", tmp_path / "n")
    )
    assert result.exit_code == 0, result.output
    probs = np.load(tmp_path / "n" / "probabilities.npz")["probs"]
    expected = gnncal.load(files[1]).refresh(probs, ids=bundle.node_ids[order])
    written = gnncal.load(tmp_path / "n" / "policy.safetensors")
    assert written.clear_threshold_ == expected.clear_threshold_
    assert written.clear_threshold_ != gnncal.load(files[1]).clear_threshold_
    np.testing.assert_array_equal(
        np.load(tmp_path / "n" / "decisions.npz")["action"], expected.decide(probs)
    )


@pytest.mark.parametrize("option", [("--refresh",), ("--costs", "missed=9,false_alarm=1")])
def test_what_only_a_policy_has_is_refused_without_one(tmp_path, source, option):
    result = run("apply", source, source, *option, "--out", tmp_path / "n")
    assert result.exit_code == 2
    assert f"{option[0]} needs a policy" in result.stderr


def test_parquet_has_a_column_of_actions(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    source = write_parquet(tmp_path / "in")
    result = run(
        *("decide", source, "--positive", "dog", "--recall", "0.5"),
        *("--out", tmp_path / "o"),
    )
    assert result.exit_code == 0, result.output
    table = parquet.read_table(tmp_path / "o" / "decisions.parquet")
    expected = ["id", "prediction", "confidence", "probability", "action"]
    assert table.column_names == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--act", "0.9"), "act is asked for, with positive=None"),
        (("--positive", "fraud"), "nothing is asked for"),
        (("--positive", "frauds", "--act", "0.9"), "did you mean 'fraud'?"),
        (("--positive", "7", "--act", "0.9"), "positive is 7"),
        (("--positive", "fraud", "--act", "1.2"), "act is 1.2"),
        (
            ("--positive", "fraud", "--act", "0.9", "--accuracy", "0.9"),
            "about all classes",
        ),
        (("--positive", "fraud", "--costs", "missed=1"), "expected missed=500,false_alarm=20"),
        (("--positive", "fraud", "--costs", "missed=1,miss=2"), "--costs has 'miss=2'"),
        (("--positive", "fraud", "--costs", "missed=1,false_alarm=x"), "has no array 'x'"),
        (("--positive", "fraud", "--costs", "missed=1,false_alarm=-2"), "expected a number from 0"),
        (("--positive", "fraud", "--budget", "0"), "budget is 0"),
        (("--positive", "fraud", "--budget", "7.5"), "budget is 7.5"),
        (("--positive", "fraud", "--costs", "missed=1e200,false_alarm=1"), "to 1e+15"),
        (("--positive", "fraud", "--budget", "9", "--recall", "0.9"), "a budget clears"),
        (("--hold-out", "0.5", "--probabilities", "p.npz"), "leave --hold-out out"),
        (("--positive", "fraud", "--act", "0.9", "--region", "0.2"), "pass --probabilities"),
    ],
)
def test_bad_options_end_with_one_line_and_nothing_written(tmp_path, source, arguments, message):
    result = run("decide", source, *arguments, "--out", tmp_path / "o")
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "o").exists()


def test_a_policy_of_another_calibrator_guarantees_nothing(tmp_path, source):
    decide(source, tmp_path / "o", "--recall", "0.8")
    run("calibrate", source, "--method", "ts", "--out", tmp_path / "other")
    policy, other = tmp_path / "o" / "policy.safetensors", tmp_path / "other"
    arguments = (other / "calibrator.safetensors", source, "--policy", policy)
    result = run("apply", *arguments, "--out", tmp_path / "n")
    assert result.exit_code == 3
    assert "it guarantees nothing" in " ".join(result.stderr.split())
    assert "at least 80%" not in " ".join(result.stdout.split())
    assert "guaranteed" not in " ".join(result.stdout.split())
    summary = json.loads((tmp_path / "n" / "summary.json").read_text())
    assert summary["policy"]["n_uncertified"] == 1
    refused = run("apply", *arguments, "--refresh", "--out", tmp_path / "m")
    assert refused.exit_code == 2
    assert "--refresh needs the calibrator of the policy" in refused.stderr


def test_a_refresh_that_loses_every_guarantee_ends_with_three(tmp_path):
    """The model is wrong nearly everywhere today, so that nothing is certified any more."""
    source = write_parquet(tmp_path / "in")
    asked = ("--accuracy", "0.3", "--confidence-level", "0.8", "--hold-out", "0.5")
    assert run("decide", source, *asked, "--out", tmp_path / "o").exit_code == 0
    bundle = gnncal.read_bundle(source)
    today = write_npz(
        tmp_path / "today.npz",
        logits=-bundle.logits,
        labels=None,
        edge_index=np.empty((2, 0), np.int64),
        **dict.fromkeys(("train_mask", "val_mask", "test_mask", "x")),
        node_ids=bundle.node_ids,
        class_names=np.array(bundle.class_names),
    )
    files = [tmp_path / "o" / f"{name}.safetensors" for name in ("calibrator", "policy")]
    arguments = ("apply", files[0], today, "--policy", files[1], "--refresh")
    assert run(*arguments, "--out", tmp_path / "n").exit_code == 3
    gated = run(*arguments, "--fail-if", "uncertified>0", "--out", tmp_path / "m")
    assert gated.exit_code == 3


def test_amounts_come_from_a_column(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    source = write_parquet(tmp_path / "in")
    table = parquet.read_table(source / "nodes.parquet")
    amounts = np.random.default_rng(0).gamma(1, 100, table.num_rows)
    parquet.write_table(table.append_column("amount", pa.array(amounts)), source / "nodes.parquet")
    asked = ("--positive", "dog", "--costs", "missed=amount,false_alarm=30", "--budget", "5")
    result = run("decide", source, *asked, "--out", tmp_path / "o", "--json")
    assert result.exit_code == 0, result.output
    policy = gnncal.load(tmp_path / "o" / "policy.safetensors")
    np.testing.assert_array_equal(policy.costs.missed, amounts)
    counts = json.loads(result.stdout)["policy"]["forecast"]["counts"]
    assert counts["review"] == 5
    lacking = run("decide", source, "--positive", "dog", "--costs", "missed=sum,false_alarm=3")
    assert "lacks the column sum" in lacking.stderr


def test_every_label_serves_twice_unless_some_are_held_out(tmp_path, source):
    result = decide(source, tmp_path / "o", "--recall", "0.8", "--method", "ts")
    assert result.exit_code == 0, result.output
    assert "cross-fitting: tested in experiments, not proven" in " ".join(result.stdout.split())
    summary = json.loads((tmp_path / "o" / "summary.json").read_text())
    assert summary["n_threshold_nodes"] == summary["n_calibrator_nodes"] == 1200
    bundle, calibrator = gnncal.read_bundle(source), gnncal.calibrators.TemperatureScaling()
    given = {"calibration_nodes": bundle.calibration_nodes, "train_nodes": bundle.train_nodes}
    probs, seen = cross_fit(calibrator, bundle.logits, bundle.labels, **given)
    policy = Policy(positive="fraud", recall=0.8)
    policy.fit(
        *(probs, bundle.labels),
        calibration_nodes=bundle.calibration_nodes,
        class_names=bundle.class_names,
        decision_nodes=bundle.test_nodes,
        cross_fitted=seen,
    )
    loaded = gnncal.load(tmp_path / "o" / "policy.safetensors")
    assert loaded.clear_threshold_ == policy.clear_threshold_
    refused = run(
        *("apply", tmp_path / "o" / "calibrator.safetensors", source, "--refresh"),
        *("--policy", tmp_path / "o" / "policy.safetensors", "--out", tmp_path / "n"),
    )
    assert refused.exit_code == 2
    assert "--hold-out" in refused.stderr


def test_nodes_to_label_certify_acting_in_their_region(tmp_path, source):
    run("calibrate", source, "--free", "--out", tmp_path / "c")
    probs = tmp_path / "c" / "probabilities.npz"
    asked = ("--positive", "fraud", "--act", "0.5", "-n", "50", "--probabilities", probs)
    result = run("label", source, *asked, "--json")
    assert result.exit_code == 0, result.output
    plan = json.loads(result.stdout)
    p = np.load(probs)["probs"][plan["nodes"], 1]
    assert len(plan["nodes"]) == 50
    assert p.min() >= np.float32(plan["region"])
    same = run("label", source, *asked)
    assert [int(line) for line in same.stdout.split()] == plan["nodes"]


def test_a_watch_leaves_the_calibrators_own_standard_error_alone(tmp_path, source):
    """A fit is never exact: without a tolerance labels end in an alarm though nothing changes."""
    run("calibrate", source, "--method", "ts", "--out", tmp_path / "c")
    log = tmp_path / "log.csv"
    log.write_text("p0,p1,label\n0.9,0.1,0\n")
    calibrator, state = tmp_path / "c" / "calibrator.safetensors", tmp_path / "s.json"
    result = run("watch", calibrator, log, "--state", state)
    assert result.exit_code == 0, result.output
    fitted = gnncal.load(calibrator)
    by_labels = 0.6 / sum(fitted.fit_report_.nodes_per_class) ** 0.5
    assert 0.001 < fitted.standard_error_ < 0.05
    expected = max(fitted.standard_error_, by_labels)
    assert gnncal.Watch.load(state).tolerance == pytest.approx(expected, abs=1e-4)


def with_column(source, path, **columns):
    with np.load(source) as file:
        np.savez(path, **file, **columns)
    return path


def test_by_a_column_each_value_has_a_policy_of_its_own_nodes(tmp_path, source):
    country = np.where(np.arange(N) % 7 < 4, "north", "south")
    country[(np.arange(N) % 5 > 2) & (np.arange(N) % 11 == 0)] = "west"  # no validation node
    grouped = with_column(source, tmp_path / "in.npz", country=country)
    asked = ("--recall", "0.7", "--by", "country", "--json")
    result = decide(grouped, tmp_path / "o", *asked)
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert list(summary["groups"]) == ["north", "south"]
    written = np.load(tmp_path / "o" / "decisions.npz")
    actions = written["action"]
    assert set(actions[country == "west"]) == {"review"}
    for file, name in summary["policies"].items():
        policy = gnncal.load(tmp_path / "o" / file)
        inside = (country == name) & (actions != "")
        p = written["probability"][inside]
        np.testing.assert_array_equal(policy.decide(np.column_stack([1 - p, p])), actions[inside])
        assert summary["groups"][name]["clear_threshold"] == policy.clear_threshold_
    said = decide(grouped, tmp_path / "o", *asked[:-1], "--overwrite")
    assert "country north: Clear where P(fraud)" in " ".join(said.stdout.split())
    assert "no calibration nodes with country west: these nodes go to review" in said.stderr
    missing = decide(source, tmp_path / "m", *asked[:-1])
    assert missing.exit_code == 2
    assert "has no array 'country'" in missing.stderr


def test_a_users_file_with_the_name_of_a_policy_of_a_group_is_refused_before_any_work(
    tmp_path, source
):
    grouped = with_column(source, tmp_path / "in.npz", country=np.arange(N) % 2)
    assert decide(source, tmp_path / "o", "--recall", "0.7").exit_code == 0
    (tmp_path / "o" / "policy-1.safetensors").write_text("of the user")
    asked = ("--recall", "0.7", "--by", "country", "--probabilities", tmp_path / "none.npz")
    refused = decide(grouped, tmp_path / "o", *asked)
    assert refused.exit_code == 2
    assert "policy-1.safetensors, which gnncal did not write" in " ".join(refused.stderr.split())


def test_rows_in_question_are_decided_and_written_and_the_budget_is_theirs(tmp_path, source):
    chosen = np.arange(N) % 5 == 3
    marked = with_column(source, tmp_path / "in.npz", new=chosen)
    result = decide(marked, tmp_path / "o", "--budget", "20", "--only", "new", "--json")
    assert result.exit_code == 0, result.output
    written = np.load(tmp_path / "o" / "decisions.npz")
    np.testing.assert_array_equal(written["node_ids"], np.flatnonzero(chosen))
    assert (written["action"] == "review").sum() == 20
    assert json.loads(result.stdout)["n_others"] == chosen.sum()
    sets = run("sets", marked, "--only", "new", "--method", "ts", "--out", tmp_path / "s")
    assert sets.exit_code == 0, sets.output
    assert len(np.load(tmp_path / "s" / "decisions.npz")["sets"]) == chosen.sum()


def test_a_policy_says_which_calibrator_it_was_certified_with_and_when(tmp_path, source):
    decide(source, tmp_path / "o", "--recall", "0.7")
    policy = gnncal.load(tmp_path / "o" / "policy.safetensors")
    assert policy.made_["calibrator"]["checksum"] == policy.calibrator_
    assert policy.made_["date"].startswith("20")
    summary = json.loads((tmp_path / "o" / "summary.json").read_text())
    assert summary["policy"]["made"] == policy.made_


def test_a_budget_by_amounts_takes_those_of_the_nodes_of_today(tmp_path, source):
    """The amounts of the fit belong to other nodes, even where there are as many."""
    amount = np.random.default_rng(0).gamma(1, 100, N)
    priced = with_column(source, tmp_path / "in.npz", amount=amount)
    costs = ("--costs", "missed=amount,false_alarm=30")
    assert decide(priced, tmp_path / "o", *costs, "--budget", "50").exit_code == 0
    files = [tmp_path / "o" / f"{name}.safetensors" for name in ("calibrator", "policy")]
    today = with_column(source, tmp_path / "today.npz", amount=amount[::-1], new=np.arange(N) < 900)
    asked = ("apply", files[0], today, "--policy", files[1], "--out", tmp_path / "n")
    refused = run(*asked)
    assert refused.exit_code == 2
    assert "differ from node to node; pass those of INPUT" in refused.stderr
    result = run(*asked, *costs, "--only", "new")
    assert result.exit_code == 0, result.output
    written = np.load(tmp_path / "n" / "decisions.npz")
    p = written["probability"]
    saved = np.minimum(p * amount[::-1][:900], (1 - p) * 30)
    reviewed = written["action"] == "review"
    assert 0 < reviewed.sum() < 100
    assert saved[reviewed].min() >= saved[~reviewed].max() - 1e-3


@pytest.mark.parametrize(
    ("option", "kind"),
    [
        ("--by", "npz"),
        ("--by", "parquet"),
        ("--costs", "npz"),
        ("--costs", "parquet"),
        ("--only", "npz"),
    ],
)
def test_the_column_of_the_labels_never_chooses_actions(tmp_path, source, kind, option):
    name = "labels" if kind == "npz" else "label"
    if kind == "parquet":
        source = write_parquet(tmp_path / "in")
    elif option == "--only":
        with np.load(source) as file:
            arrays = {**file, "labels": file["labels"] == 1}
        np.savez(source := tmp_path / "in.npz", **arrays)
    asked = ("--costs", f"missed={name},false_alarm=1")
    if option != "--costs":
        asked = ("--act", "0.5", option, name)
    result = run("decide", source, "--positive", "1", *asked, "--out", tmp_path / "o")
    assert result.exit_code == 2
    assert "holds the labels, which must not choose actions" in " ".join(result.stderr.split())
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("kind", ["list", "struct", "binary", "2-D"])
def test_a_column_of_groups_has_one_plain_value_for_each_node(tmp_path, kind):
    if kind == "2-D":
        source = write_npz(tmp_path / "in.npz", team=np.zeros((N_ROWS, 2), int))
    else:
        team = {
            "list": [[1, 2]] * N_ROWS,
            "struct": [{"a": 1}] * N_ROWS,
            "binary": [b"a"] * N_ROWS,
        }[kind]
        source = write_parquet(tmp_path / "in", team=team)
    result = run("decide", source, "--accuracy", "0.3", "--by", "team", "--out", tmp_path / "o")
    assert result.exit_code == 2, result.output
    assert "expected one text, number or date for each node" in " ".join(result.stderr.split())
    assert not (tmp_path / "o").exists()


def test_nodes_that_joined_after_the_fit_are_counted_where_a_guarantee_is_stated(tmp_path):
    source = write_parquet(tmp_path / "in")
    asked = ("--positive", "dog", "--recall", "0.5", "--hold-out", "0.5", "--out", tmp_path / "o")
    assert run("decide", source, *asked).exit_code == 0
    bundle = gnncal.read_bundle(source)
    known = np.isin(
        np.arange(N_ROWS), [*bundle.calibration_nodes, *bundle.train_nodes, *bundle.test_nodes[3:]]
    )
    files = [tmp_path / "o" / f"{name}.safetensors" for name in ("calibrator", "policy")]
    ids = np.where(known, bundle.node_ids, [f"new {i}" for i in range(N_ROWS)])
    today = write_npz(
        tmp_path / "today.npz",
        logits=bundle.logits,
        labels=None,
        edge_index=bundle.graph.edge_index,
        **dict.fromkeys(("train_mask", "val_mask", "test_mask", "x")),
        node_ids=ids,
        class_names=np.array(bundle.class_names),
    )
    n_new = int((~known).sum())
    call = ("apply", files[0], today, "--policy", files[1])
    for more, words in (((), "no guarantee covers them"), (("--refresh",), "only if")):
        result = run(*call, *more, "--out", tmp_path / "n")
        assert result.exit_code == 0, result.output
        said = " ".join(result.stderr.split())
        assert f"{n_new} of {N_ROWS} nodes to decide joined the graph after the fit: " in said
        assert words in said
    assert "joined" not in run(*call[:2], source, *call[3:], "--out", tmp_path / "m").stderr


def test_a_refresh_on_an_excerpt_is_refused_and_nothing_written(tmp_path):
    source = write_parquet(tmp_path / "in")
    asked = ("--positive", "dog", "--recall", "0.5", "--hold-out", "0.5", "--out", tmp_path / "o")
    assert run("decide", source, *asked).exit_code == 0
    bundle, part = gnncal.read_bundle(source), np.arange(0, N_ROWS, 2)
    excerpt = write_npz(
        tmp_path / "excerpt.npz",
        logits=bundle.logits[part],
        labels=None,
        edge_index=np.empty((2, 0), np.int64),
        **dict.fromkeys(("train_mask", "val_mask", "test_mask", "x")),
        node_ids=bundle.node_ids[part],
        class_names=np.array(bundle.class_names),
    )
    files = [tmp_path / "o" / f"{name}.safetensors" for name in ("calibrator", "policy")]
    call = ("apply", files[0], excerpt, "--policy", files[1], "--refresh")
    result = run(*call, "--out", tmp_path / "n")
    assert result.exit_code == 2
    assert "the whole graph" in " ".join(result.stderr.split())
    assert not (tmp_path / "n").exists()
