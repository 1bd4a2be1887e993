"""`gnncal watch` night after night: scores and labels from tables, late labels, full disks."""

import errno
import json
import os
import re
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

import gnncal
from tests.cli.terminal import run

NAMES = ["fine", "fraud"]
N = 1500
FIRST_DAY = date(2024, 3, 1)


@pytest.fixture
def place(tmp_path):
    """A calibrator, and scores of N payments, 25 a day; the labels agree with the scores."""
    generator = np.random.default_rng(0)
    logits = np.column_stack([np.zeros(800), generator.normal(-2, 1, 800)])
    labels = (generator.random(800) < gnncal.calibrators.softmax(logits)[:, 1]).astype(int)
    fitted = gnncal.calibrators.TemperatureScaling().fit(logits, labels)
    fitted.save(tmp_path / "c.safetensors", class_names=NAMES)
    p = np.round(generator.beta(1, 5, N), 4)
    days = [FIRST_DAY + timedelta(days=i // 25) for i in range(N)]
    scored = enumerate(zip(days, p, strict=True))
    rows = [f"a{i},{day},{1 - q:.4f},{q:.4f}\n" for i, (day, q) in scored]
    (tmp_path / "scores.csv").write_text("id,date,p0,p1\n" + "".join(rows))
    truth = [NAMES[int(is_fraud)] for is_fraud in generator.random(N) < p]
    return tmp_path, {f"a{i}": (day, y) for i, (day, y) in enumerate(zip(days, truth, strict=True))}


def write_labels(path, labels):
    path.write_text("id,label\n" + "".join(f"{name},{y}\n" for name, y in labels))


def watch(folder, *more, log="log.csv", scores="scores.csv"):
    tables = ("--scores", folder / scores, "--labels", folder / "labels.csv")
    return run("watch", folder / "c.safetensors", folder / log, *tables, *more)


def test_labels_in_any_order_give_the_same_log_and_the_same_verdict(place):
    folder, truth = place
    labels = [(name, y) for name, (_, y) in truth.items()]
    chargebacks_first = sorted(labels, key=lambda each: each[1] != "fraud")
    shuffled = [labels[i] for i in np.random.default_rng(1).permutation(N)]
    found = []
    for order in (labels, chargebacks_first, shuffled, labels[::-1]):
        write_labels(folder / "labels.csv", order)
        result = watch(folder, "--json")
        assert result.exit_code == 0, result.output
        found.append(((folder / "log.csv").read_text(), json.loads(result.stdout)["claims"]))
        for name in ("log.csv", "log.csv.watch.json"):
            (folder / name).unlink()
    assert all(each == found[0] for each in found)
    assert [line.partition(",")[0] for line in found[0][0].splitlines()[1:]] == list(truth)


def nightly(folder, truth, last, *more):
    """Run each thirtieth night; chargebacks come after three days, other labels after 30."""
    lines = (folder / "scores.csv").read_text().splitlines(keepends=True)
    for day in range(29, last, 30):
        today = FIRST_DAY + timedelta(days=day)
        seen = [line for line in lines[1:] if date.fromisoformat(line.split(",")[1]) <= today]
        (folder / "today.csv").write_text(lines[0] + "".join(seen))
        came = [
            (today - each, name, y)
            for name, (each, y) in truth.items()
            if today - each >= timedelta(days=3 if y == "fraud" else 30)
        ]
        write_labels(folder / "labels.csv", [each[1:] for each in sorted(came)])
        yield watch(folder, *more, scores="today.csv")


def test_late_labels_of_an_unchanged_model_raise_no_alarm_once_they_are_mature(place):
    folder, truth = place
    for result in nightly(folder, truth, 110, "--mature-after", "30d"):
        assert result.exit_code == 0, result.output
        assert result.stderr == ""
    logged = [line.split(",")[0] for line in (folder / "log.csv").read_text().splitlines()[1:]]
    ripe = FIRST_DAY + timedelta(days=59 - 30)  # the newest score is of day 59
    assert logged == [name for name, (day, _) in truth.items() if day <= ripe]
    (folder / "log.csv").unlink()
    (folder / "log.csv.watch.json").unlink()
    assert 6 in [result.exit_code for result in nightly(folder, truth, 60)]  # chargebacks first


def test_young_scores_wait_and_enter_the_log_once_in_the_order_of_the_scores(place):
    folder, truth = place
    write_labels(folder / "labels.csv", [(n, y) for n, (_, y) in truth.items() if y == "fraud"])
    n_fraud = sum(y == "fraud" for _, y in truth.values())
    n_waiting = []
    for age in ("2000h", "20d", "20d", "1d", "0d"):
        found = json.loads(watch(folder, "--mature-after", age, "--json").stdout)
        n_waiting.append(found["n_young"])
        n_logged = found["claims"][0]["n_labels"]
        assert n_logged + found["n_young"] == n_fraud
    assert n_waiting[0] == n_fraud > n_waiting[1] == n_waiting[2] > n_waiting[3] > 0
    assert n_waiting[-1] == 0
    logged = [line.split(",")[0] for line in (folder / "log.csv").read_text().splitlines()[1:]]
    assert logged == [name for name, (_, y) in truth.items() if y == "fraud"]


def test_a_date_in_the_future_makes_no_other_score_mature(place):
    folder, truth = place
    write_labels(folder / "labels.csv", [(name, y) for name, (_, y) in truth.items()])
    with (folder / "scores.csv").open("a") as file:
        file.write("odd,9999-12-31,0.9,0.1\n")
    found = watch(folder, "--mature-after", "3000000d", "--json")
    assert json.loads(found.stdout)["n_young"] == N


@pytest.mark.parametrize("kind", ["parquet", "npz"])
def test_dates_are_read_from_every_kind_of_table(place, kind):
    folder, _ = place
    days = np.array(["2024-03-01T10:00", "2024-03-20T10:00", "2024-04-01T10:00"], "datetime64[ns]")
    names, p = np.array(["a", "b", "c"]), np.array([0.1, 0.2, 0.3])
    if kind == "npz":
        probs = np.column_stack([1 - p, p])
        table = {"node_ids": names, "prediction": [0, 0, 0], "probs": probs, "scored": days}
        np.savez(folder / "s.npz", **table)
    else:
        pyarrow = pytest.importorskip("pyarrow")
        table = pyarrow.table({"id": names, "scored": days, "p0": 1 - p, "p1": p})
        pytest.importorskip("pyarrow.parquet").write_table(table, folder / "s.parquet")
    write_labels(folder / "labels.csv", [("c", "fine"), ("b", "fine"), ("a", "fraud")])
    asked = ("--mature-after", "10d", "--date", "scored", "--json")
    result = watch(folder, *asked, scores=f"s.{kind}")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["n_young"] == 1
    logged = (folder / "log.csv").read_text().splitlines()[1:]
    assert [line.partition(",")[0] for line in logged] == ["a", "b"]


def test_first_labels_of_one_class_are_a_warning_where_others_were_predicted(place):
    folder, truth = place
    frauds = [(name, y) for name, (_, y) in truth.items() if y == "fraud"]
    write_labels(folder / "labels.csv", frauds[:20])
    assert "20 are fraud, but at most about" in watch(folder).stderr
    every = [(name, y) for name, (_, y) in truth.items()]
    write_labels(folder / "labels.csv", every)
    assert watch(folder, log="other.csv").stderr == ""


@pytest.mark.parametrize(
    ("asked", "scores", "message"),
    [
        (("--mature-after", "soon"), "scores.csv", "expected days or hours, such as 30d or 12h"),
        (("--mature-after", "9" * 400 + "d"), "scores.csv", "expected days or hours"),
        (("--date", "date"), "scores.csv", "--date is for --mature-after"),
        (("--mature-after", "30d", "--date", "day"), "scores.csv", "expected id and day"),
        (("--mature-after", "30d"), "bad.csv", "date of id 'a1' is '1 May'; expected a date"),
    ],
)
def test_a_date_or_an_age_that_cannot_be_read_changes_nothing(place, asked, scores, message):
    folder, _ = place
    write_labels(folder / "labels.csv", [("a0", "fine"), ("a1", "fine")])
    (folder / "bad.csv").write_text("id,date,p0,p1\na0,2024-05-01,1,0\na1,1 May,1,0\n")
    before = sorted(folder.iterdir())
    result = watch(folder, *asked, scores=scores)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert sorted(folder.iterdir()) == before


def rare(folder, seed):
    """A calibrator fitted on 4,000 payments with 2% fraud, and scores of 15,000 others."""
    generator = np.random.default_rng(seed)
    z = generator.normal(-4, 0.4, 19_000)
    p = 1 / (1 + np.exp(-z))
    logits, sums = np.column_stack([0 * z, z])[:4000], np.cumsum(p[:4000])
    labels = np.diff(np.floor(sums), prepend=0)  # the fit has the true rate, whatever the seed
    result = gnncal.calibrate(
        logits, labels.astype(int), calibration_nodes=range(4000), method="svs", positive=1
    )
    result.calibrator.save(folder / "rare.safetensors", class_names=NAMES)
    later = np.column_stack([0 * z, z])[4000:]
    return result.calibrator.predict_proba(later)[:, 1], p[4000:], generator


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_43_percent_more_of_a_rare_class_is_an_alarm_and_an_unchanged_rate_is_none(place, seed):
    folder, _ = place
    predicted, p, generator = rare(folder, seed)
    for factor, exit_code in ((1.0, 0), (1.43, 6)):
        labels = generator.random(p.size) < factor * p
        log = folder / f"{factor}.csv"
        rows = zip(predicted.tolist(), labels.tolist(), strict=True)
        lines = [f"{1 - q},{q},{NAMES[y]}\n" for q, y in rows]
        log.write_text("p0,p1,label\n" + "".join(lines))
        found = run("watch", folder / "rare.safetensors", log, "--positive", "fraud", "--json")
        assert found.exit_code == exit_code, found.stdout
        if exit_code:
            sentence = json.loads(found.stdout)["claims"][1]["sentence"]
            mean, share = re.findall(r"(?:is|was) (0\.\d+)", sentence)
            assert float(share) > float(mean)
    stated = run(
        *("watch", folder / "rare.safetensors", log, "--positive", "fraud", "--tolerance", "0.02"),
        *("--state", folder / "stated.json"),
    )
    assert stated.exit_code == 0  # what is stated counts for every claim


def logged(n, gap, seed=0):
    generator = np.random.default_rng(seed)
    p = generator.uniform(0.5, 1, n)
    labels = generator.random(n) < p - gap
    rows = zip(p.tolist(), labels.tolist(), strict=True)
    return "".join(f"{1 - a:.6f},{a:.6f},{NAMES[b]}\n" for a, b in rows)


@pytest.mark.parametrize("later", [0.0, -0.2])
def test_an_alarm_is_about_labels_before_it_and_keeps_its_direction(place, later):
    folder, _ = place
    call = ("watch", folder / "c.safetensors", folder / "log.csv", "--json")
    (folder / "log.csv").write_text("p0,p1,label\n" + logged(200, 0) + logged(300, 0.3, seed=1))
    first = json.loads(run(*call).stdout)
    with (folder / "log.csv").open("a") as file:
        file.write(logged(3000, later, seed=2))
    for found in (first, json.loads(run(*call).stdout)):
        sentence, at = found["sentence"], found["claims"][0]["alarm_at"]
        assert "too high" in sentence
        begun = re.search(r"(?:since|from) (?:about label (\d+)|the first label)", sentence)
        assert int(begun[1] or 1) <= at == first["claims"][0]["alarm_at"]
        mean, accuracy = map(float, re.findall(r"(?:is|was) (\d\.\d+)", sentence))
        assert mean > accuracy


def test_the_state_advances_only_when_the_page_is_written(place, monkeypatch):
    pytest.importorskip("plotly", reason="pip install 'gnncal[report]' to test pages")
    folder, _ = place
    log, page, state = (folder / name for name in ("log.csv", "w.html", "log.csv.watch.json"))
    call = ("watch", folder / "c.safetensors", log, "--page", page)
    log.write_text("p0,p1,label\n" + logged(100, 0))
    assert run(*call).exit_code == 0
    before = state.read_bytes()
    with log.open("a") as file:
        file.write(logged(600, 0.4, seed=1))
    write = Path.write_bytes

    def full(self, content):
        if b"<html" in content[:500]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(self, content)

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.write_bytes", full)
        failed = run(*call)
    assert failed.exit_code == 2
    assert "No space left on device" in failed.stderr
    assert state.read_bytes() == before
    alarm = run(*call)
    assert alarm.exit_code == 6
    assert "600 new labels" in alarm.stdout


def test_a_full_disk_leaves_the_log_as_it_was(place):
    resource = pytest.importorskip("resource")
    folder, truth = place
    write_labels(folder / "labels.csv", [(name, y) for name, (_, y) in truth.items()][:500])
    assert watch(folder).exit_code == 0
    before = (folder / "log.csv").read_bytes()
    write_labels(folder / "labels.csv", [(name, y) for name, (_, y) in truth.items()])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, limits[1]))
    try:
        result = watch(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert result.exit_code == 2
    assert "log.csv: File too large" in result.stderr
    assert (folder / "log.csv").read_bytes() == before
    assert f"{N - 500:,} new labels" in watch(folder).stdout


@pytest.mark.parametrize("with_tables", [False, True])
@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_a_log_that_is_no_file_is_called_what_it_is(place, kind, with_tables):
    folder, _ = place
    log = folder / "log"
    log.mkdir() if kind == "folder" else os.mkfifo(log)
    write_labels(folder / "labels.csv", [("a0", "fine")])
    result = (
        watch(folder, log="log") if with_tables else run("watch", folder / "c.safetensors", log)
    )
    assert result.exit_code == 2
    what = "a folder" if kind == "folder" else "a pipe or a device"
    assert result.stderr == f"error: {log} is {what}; pass the log as a CSV file.\n"
    assert not (folder / "log.watch.json").exists()
