"""A watch says when labels disagree with the probabilities, and goes on where it was."""

import json

import numpy as np
import pytest

import gnncal

K = 3


def nodes(n, gap=0.0, seed=0):
    """Probabilities of three classes, and labels that agree with them but for the gap."""
    generator = np.random.default_rng(seed)
    confidence = generator.uniform(0.5, 0.98, size=n)
    probs = np.column_stack([(1 - confidence) / 2, confidence, (1 - confidence) / 2])
    right = generator.random(n) < confidence - gap
    return probs, np.where(right, 1, generator.choice([0, 2], size=n))


def test_labels_that_agree_raise_no_alarm_and_others_do():
    watch = gnncal.Watch(n_classes=K, positive=0)
    assert not watch.add(*nodes(1000)).is_alarm
    report = watch.add(*nodes(600, gap=0.15, seed=1))
    assert report.is_alarm
    assert report.sentence.startswith("Alarm. Confidence is too high: since about label ")
    assert 1000 < report.claims[0].alarm_at <= 1600
    assert {claim.limit for claim in report.claims} == {40}  # two claims share the rate


def test_underconfidence_is_found_too():
    report = gnncal.Watch(n_classes=K).add(*nodes(1500, gap=-0.15))
    assert "Confidence is too low" in report.sentence


def test_a_broken_promise_is_found_and_a_kept_one_is_not():
    probs, labels = nodes(1500)
    watch = gnncal.Watch(n_classes=K, positive="bad", act=0.9, class_names=["a", "bad", "c"])
    kept = watch.add(probs, labels, actions=np.where(probs[:, 1] > 0.92, "act", "review"))
    assert not kept.is_alarm
    broken = watch.add(probs, labels, actions=np.where(probs[:, 1] > 0.6, "act", "clear"))
    assert "The share of bad among the nodes acted on is too low" in broken.sentence
    assert "below the guarantee of 0.90" in broken.sentence
    selective = gnncal.Watch(n_classes=K, decide=0.95)
    actions = np.where(probs.max(1) > 0.6, "decide", "review")
    assert selective.add(probs, labels, actions=actions).claims[1].alarm_at


def test_a_saved_watch_goes_on_where_it_was(tmp_path):
    probs, labels = nodes(1234, gap=0.05)
    whole = gnncal.Watch(n_classes=K, positive=2, tolerance=0.01)
    whole.add(probs, labels)
    watch, path = gnncal.Watch(n_classes=K, positive=2, tolerance=0.01), tmp_path / "w.json"
    for start in range(0, 1234, 77):
        watch.add(probs[start : start + 77], labels[start : start + 77])
        watch.save(path)
        watch = gnncal.Watch.load(path)
    assert path.stat().st_size < 20_000
    for mine, theirs in zip(watch.report().claims, whole.report().claims, strict=True):
        assert mine.n_labels == theirs.n_labels
        assert mine.alarm_at == theirs.alarm_at
        assert mine.evidence == pytest.approx(theirs.evidence, rel=1e-6)


def test_the_state_stays_small_however_long_the_watch_lasts(tmp_path):
    watch = gnncal.Watch(n_classes=K)
    probs, labels = nodes(10_000)
    for _ in range(4):
        watch.add(probs, labels)
    watch.save(tmp_path / "w.json")
    assert (tmp_path / "w.json").stat().st_size < 40_000
    assert gnncal.Watch.load(tmp_path / "w.json").report().claims[0].n_labels == 40_000


def test_a_damaged_state_is_refused(tmp_path):
    path = tmp_path / "w.json"
    watch = gnncal.Watch(n_classes=K)
    watch.add(*nodes(120))
    watch.save(path)
    whole = path.read_text()
    texts = [whole[:length] for length in range(0, len(whole) - 1, 37)]
    texts.append(whole.replace('"n_labels": 120', '"n_labels": 121'))
    for text in (*texts, json.dumps({"about": "something else"})):
        path.write_text(text)
        with pytest.raises(gnncal.InputError, match=r"w\.json is not a file that a watch"):
            gnncal.Watch.load(path)
    with pytest.raises(gnncal.InputError, match="absent is not a file"):
        gnncal.Watch.load(tmp_path / "absent")


def test_the_state_never_replaces_a_file_of_others(tmp_path):
    path = tmp_path / "mine.json"
    path.write_text('{"mine": 1}')
    with pytest.raises(gnncal.InputError, match="does not replace it"):
        gnncal.Watch(n_classes=K).save(path)
    assert path.read_text() == '{"mine": 1}'


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n_classes": 1}, "n_classes is 1"),
        ({"act": 0.9}, "pass it as positive"),
        ({"positive": 7}, "7"),
        ({"false_alarms": 0}, "false_alarms is 0"),
        ({"tolerance": -0.1}, "tolerance is -0.1"),
        ({"positive_rate": 0.1}, "positive_rate is 0.1"),
        ({"positive_rate": (0, 0.1)}, "rate is 0"),
        ({"decide": 1.2}, "decide is 1.2"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(given, message):
    with pytest.raises(gnncal.InputError, match=message):
        gnncal.Watch(**{"n_classes": K, **given})


def test_nothing_is_taken_in_of_arrays_that_cannot_be_used():
    watch = gnncal.Watch(n_classes=K, positive=0, act=0.9)
    probs, labels = nodes(60)
    actions = np.full(60, "act")
    for bad, message in (
        ((probs[:, :2] / probs[:, :2].sum(1, keepdims=True), labels, actions), "2 columns"),
        ((probs, np.where(labels == 1, -1, labels), actions), "labels"),
        ((probs, labels, None), "actions is None"),
        ((probs, labels, np.full(60, "wait")), "actions is"),
    ):
        with pytest.raises(gnncal.InputError, match=message):
            watch.add(bad[0], bad[1], actions=bad[2])
    assert watch.report().claims[0].n_labels == 0
