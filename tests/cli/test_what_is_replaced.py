"""No verb removes or replaces what this program did not make: all verbs that write, one by one."""

import json
import os
import shutil
import stat
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from scipy.special import softmax
from typer.testing import CliRunner

from gnncal import read_bundle
from gnncal.__main__ import app
from gnncal_lab.bench import logits as logits_module
from gnncal_lab.bench import perturbation
from gnncal_lab.commands import bench, block_model
from gnncal_lab.datasets import Dataset
from gnncal_lab.pages import reliability
from gnncal_lab.pages.csbm.experiment import Experiment
from tests.gnncal_lab.bench.graphs import frozen_bundle, write_bundles
from tests.test_bundles import write_npz, write_parquet

pytest.importorskip("torch", reason="pip install 'gnncal[neural]' to test all verbs")
pytest.importorskip("duckdb", reason="pip install 'gnncal[scale]' to test all verbs")
pytest.importorskip("matplotlib", reason="pip install 'gnncal[plot]' to test all verbs")

pytestmark = [
    pytest.mark.filterwarnings("ignore::gnncal.GnncalWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
MARKER = ".gnncal.json"
PRECIOUS = b"years of work"
MOST_NAMES = 3  # of a verb that writes dozens of files


@dataclass(frozen=True)
class Verb:
    """How a verb is called; INPUT and OUT stand for the folders of both, ABOVE for OUT's."""

    command: str
    makes: str = "folder"  # or "file", or "records", which are only added to
    out: str = "out"  # below the test's own folder
    needs: str = ""  # a folder of the input that the output lies in


WRITES = {
    "demo": Verb("demo --out OUT"),
    "block-model": Verb("block-model --nodes 500 --out OUT"),
    "calibrate": Verb("calibrate INPUT/in.npz --method ts --out OUT"),
    "apply": Verb("apply INPUT/c.safetensors INPUT/in.npz --out OUT"),
    "update": Verb("update INPUT/c.safetensors INPUT/in.npz --out OUT"),
    "decide": Verb("decide INPUT/in.npz --method ts --accuracy 0.3 --out OUT"),
    "sets": Verb("sets INPUT/in.npz --method ts --out OUT"),
    "csbm": Verb("csbm entropy --quick --out OUT"),
    "scale": Verb("scale INPUT/nodes.parquet INPUT/edges.parquet --method ts --out OUT"),
    "export": Verb("export INPUT/c.safetensors --to torch --out OUT", "file", "c.pt2"),
    "report": Verb("report INPUT/in.npz --methods ts --out OUT", "file", "page.html"),
    "check": Verb("check INPUT/c.safetensors INPUT/same.npz --page OUT", "file", "check.html"),
    "watch": Verb("watch INPUT/c.safetensors INPUT/log.csv --state OUT", "file", "watch.json"),
    "bench run": Verb(
        "bench run --bundles INPUT/bundles --methods ts --protocol paper --again --out OUT",
        "records",
    ),
    "bench diagnose": Verb(
        "bench diagnose OUT --bundles INPUT/bundles", "records", needs="records"
    ),
    "bench perturb": Verb("bench perturb --datasets Texas --seeds 1 --out OUT", "records"),
    "bench tables": Verb("bench tables INPUT/records --reference ts --out OUT"),
    "bench figures": Verb("bench figures ABOVE", "folder", "figures", needs="records"),
    "bench report": Verb("bench report INPUT/records --out OUT", "file", "board.html"),
}
READS = {"evaluate", "label", "methods", "card", "explain", "bench paper"}
SLOW = {"demo", "block-model", "csbm", "bench figures"}
FOLDERS = [
    pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name
    for name, verb in WRITES.items()
    if verb.makes == "folder"
]
RECORDS = [
    pytest.param(name, marks=pytest.mark.slow)
    for name, verb in WRITES.items()
    if verb.makes == "records"
]
FILES = [name for name, verb in WRITES.items() if verb.makes == "file"]


def test_every_verb_of_the_program_is_looked_at():
    program = typer.main.get_command(app)
    verbs = {*program.list_commands(typer.Context(program))} - {"bench"}
    verbs |= {f"bench {name}" for name in typer.main.get_command(bench.app).commands}
    assert verbs == set(WRITES) | READS


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """One input for each verb."""
    from gnncal.calibrators import TemperatureScaling
    from tests.scale.graphs import make_example

    place = tmp_path_factory.mktemp("inputs")
    write_npz(place / "in.npz")
    make_example(n_nodes=200).write(place)
    bundle = frozen_bundle(0)
    TemperatureScaling().fit(bundle.logits, bundle.labels).save(place / "c.safetensors")
    same = {"logits": bundle.logits, "edge_index": bundle.graph.edge_index}
    np.savez(place / "same.npz", **same)
    np.savez(place / "p.npz", probs=softmax(read_bundle(place / "in.npz").logits, axis=1))
    (place / "log.csv").write_text("prediction,confidence,label\n0,0.9,0\n")
    write_bundles(place / "bundles", datasets=("A",), seeds=(0,))
    command = f"bench run --bundles {place}/bundles --methods uncalibrated,ts --out {place}/records"
    assert CliRunner().invoke(app, command.split()).exit_code == 0
    return place


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Few methods in the demo, and a data set that needs no download."""
    every = block_model._methods
    few = ("uncalibrated", "ts", "structural", "structural-free", block_model.ORACLE)
    monkeypatch.setattr(
        block_model, "_methods", lambda h: {n: m for n, m in every(h).items() if n in few}
    )
    monkeypatch.setattr(
        block_model, "_write_report", lambda path, bundle: path.write_text("a report")
    )
    monkeypatch.setattr(reliability, "save_reliability", lambda rows, path: path.write_text("one"))
    monkeypatch.setattr(Experiment, "figure", lambda self, record, image_format: b"an image")
    bundle = frozen_bundle(5)
    dataset = Dataset("Texas", bundle.graph, bundle.labels)
    logits_module.load_dataset.cache_clear()
    monkeypatch.setattr(logits_module, "load", lambda name, root=None: dataset)
    monkeypatch.setattr(perturbation, "RATES", (0.0,))
    yield
    logits_module.load_dataset.cache_clear()


@pytest.fixture(scope="module")
def results():
    """Results that were made already, by name of the verb."""
    return {}


class Place:
    """A folder of its own for a verb, with what the user keeps beside the output."""

    def __init__(self, name: str, inputs: Path, folder: Path) -> None:
        self.verb, self.inputs, self.folder = WRITES[name], inputs, folder
        shutil.rmtree(folder, ignore_errors=True)
        self.out = folder / "place" / self.verb.out
        if self.verb.needs:
            rooted = self.verb.makes == "records"
            target = self.out if rooted else self.out.parent
            shutil.copytree(inputs / self.verb.needs, target, dirs_exist_ok=True)
        self.out.parent.mkdir(parents=True, exist_ok=True)
        for beside in (f".{self.verb.out}.partial", ".gnncal-0123456789abcdef"):
            self.put(self.out.with_name(beside) / "mine")
        self.before = entries(self.folder)

    def put(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(PRECIOUS)
        return path

    def run(self, out: Path | None = None) -> Any:
        words = [word.replace("INPUT", str(self.inputs)) for word in self.verb.command.split()]
        words = [word.replace("OUT", str(out or self.out)) for word in words]
        words = [word.replace("ABOVE", str(self.out.parent)) for word in words]
        done = CliRunner().invoke(app, words)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done

    def assert_refused(self, done: Any) -> None:
        assert done.exit_code == 2, done.output
        assert done.stderr.splitlines()[-1].startswith("error: "), done.stderr

    def names(self) -> list[str]:
        """What the verb has written, and nothing that was there before."""
        new = [path for path in entries(self.out) if self.out / path not in self.earlier()]
        return sorted(str(path) for path in new)

    def earlier(self) -> set[Path]:
        return {self.folder / path for path in self.before}


def entries(folder):
    """Everything below a folder: the bytes of files, the targets of links, pipes as such."""
    found = {}
    for path in folder.rglob("*"):
        kind = path.lstat().st_mode
        if stat.S_ISLNK(kind):
            found[path.relative_to(folder)] = ("link", os.readlink(path))
        elif stat.S_ISREG(kind):
            found[path.relative_to(folder)] = path.read_bytes()
        elif stat.S_ISFIFO(kind):
            found[path.relative_to(folder)] = "pipe"
    return found


def survives(before, after):
    return {name: after.get(name) for name in before} == before


@pytest.fixture
def made(results, inputs, tmp_path, tmp_path_factory):
    """A function that gives a place with the result of a verb in it."""

    def make(name):
        if name not in results:
            results[name] = Place(name, inputs, tmp_path_factory.mktemp("made") / "x")
            done = results[name].run()
            assert done.exit_code == 0, done.output
        place = Place(name, inputs, tmp_path / "x")
        shutil.copytree(results[name].folder, place.folder, dirs_exist_ok=True)
        return place

    return make


@pytest.mark.parametrize("name", [*FOLDERS, *(name for name in FILES if name != "export")])
def test_a_second_run_over_its_own_result_works_and_leaves_the_neighbours_alone(name, made):
    place = made(name)
    done = place.run()
    assert done.exit_code == 0, done.output
    kept = {path: value for path, value in place.before.items() if "mine" in path.name}
    assert survives(kept, entries(place.folder))
    new = {path.name for path in place.out.parent.iterdir()} - {place.out.name}
    assert new == {path.parts[1] for path in place.before} - {place.out.name}


@pytest.mark.parametrize("name", FOLDERS)
def test_files_of_the_user_survive_in_a_folder_of_results(name, made):
    place = made(name)
    place.put(place.out / "weights" / "model.pt")
    place.put(place.out / "metrics.json.bak")
    (place.out / "link").symlink_to(place.put(place.folder / "elsewhere"))
    (place.out / "empty").mkdir()
    before = entries(place.folder)
    mine = [Path("place", place.verb.out, *n.split("/")) for n in ("weights/model.pt", "link")]
    done = place.run()
    after = entries(place.folder)
    assert survives({path: before[path] for path in mine}, after)
    assert (place.out / "empty").is_dir()
    assert (place.out / "metrics.json.bak").read_bytes() == PRECIOUS
    if done.exit_code:
        place.assert_refused(done)
        assert after == before


@pytest.mark.parametrize("name", [*FOLDERS, *RECORDS])
def test_what_has_the_name_of_a_result_is_not_replaced(name, made, inputs, tmp_path):
    names = [each for each in made(name).names() if each != MARKER]
    for taken in names if len(names) <= MOST_NAMES else (names[0], names[-1]):
        place = Place(name, inputs, tmp_path / "second")
        path = place.out / taken
        path.parent.mkdir(parents=True, exist_ok=True)
        place.put(path)
        before = entries(place.folder)
        place.run()
        assert survives(before, entries(place.folder)), taken


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("calibrate", "probabilities.parquet"),
        ("update", "probabilities.parquet"),
        ("apply", "decisions.npz"),
        ("decide", "decisions.parquet"),
        ("sets", "decisions.parquet"),
    ],
)
def test_a_users_file_with_the_name_of_a_result_is_refused_before_any_work(
    name, taken, made, monkeypatch
):
    place = made(name)
    place.put(place.out / taken)
    before = entries(place.folder)
    monkeypatch.setattr("gnncal.files.bundle._read_arrays", None)  # whoever reads on fails
    done = place.run()
    place.assert_refused(done)
    assert f"has {taken}, which gnncal did not write" in done.stderr
    assert entries(place.folder) == before


@pytest.mark.parametrize("name", FOLDERS)
def test_a_result_that_the_user_changed_is_not_replaced(name, made):
    place = made(name)
    path = place.out / place.names()[-1]
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))  # of the same size
    before = entries(place.folder)
    place.assert_refused(place.run())
    assert entries(place.folder) == before


@pytest.mark.parametrize("state", ["finished", "unfinished: the files are of two runs"])
@pytest.mark.parametrize("name", [name for name, verb in WRITES.items() if verb.makes == "folder"])
def test_a_foreign_marker_removes_no_file_that_no_result_can_have(name, state, inputs, tmp_path):
    can_overwrite = name in ("calibrate", "apply", "update", "decide", "sets", "scale")
    for taken in ("notes.txt", "policy-of-ours.safetensors", "probabilities/notes.txt", "link"):
        place = Place(name, inputs, tmp_path / "x")
        elsewhere = place.put(place.out.parent / "elsewhere")
        place.put(place.out / taken)
        if taken == "link":
            (place.out / taken).unlink()
            (place.out / taken).symlink_to(elsewhere)
        listed = [taken, str(elsewhere), "../elsewhere", "probabilities/../../elsewhere"]
        files = dict.fromkeys(listed, sha256(PRECIOUS).hexdigest())
        marker = {"made_by": "gnncal", "command": name, "state": state, "files": files}
        (place.out / MARKER).write_text(json.dumps(marker))
        before = entries(place.folder)
        for more in ("", " --overwrite")[: 1 + can_overwrite]:
            place.verb = replace(place.verb, command=WRITES[name].command + more)
            place.assert_refused(done := place.run())
            assert f"{taken}, which gnncal did not write" in done.stderr
            assert entries(place.folder) == before


def test_other_tables_take_the_place_of_earlier_ones(made):
    place = made("bench tables")
    earlier = {name for name in place.names() if "against" in name}
    place.verb = replace(place.verb, command=place.verb.command.replace(" ts ", " uncalibrated "))
    done = place.run()
    assert done.exit_code == 0, done.output
    assert earlier
    assert not earlier & set(place.names())


@pytest.mark.parametrize("name", ["calibrate", "scale"])
@pytest.mark.parametrize("where", ["cwd", "home", "above", "tilde", "root"])
def test_no_result_is_put_where_people_work(name, where, inputs, tmp_path, monkeypatch):
    place = Place(name, inputs, tmp_path / "x")
    work = place.folder / "work"
    place.put(work / "thesis" / "mine")
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(work / "thesis"))
    before = entries(tmp_path)
    places = {"cwd": Path(), "home": work / "thesis", "above": Path("..")}
    out = (places | {"tilde": Path("~"), "root": Path("/")})[where]
    place.assert_refused(place.run(out))
    assert entries(tmp_path) == before
    assert sorted(path.name for path in work.iterdir()) == ["thesis"]


@pytest.mark.parametrize("name", ["calibrate", "apply", "decide", "scale", "bench tables"])
def test_the_folder_of_the_input_is_refused(name, inputs, tmp_path):
    mine = tmp_path / "inputs"
    shutil.copytree(inputs, mine)
    place = Place(name, mine, tmp_path / "x")
    before = entries(tmp_path)
    done = place.run(mine / "records" if name == "bench tables" else mine)
    place.assert_refused(done)
    assert "the input" in done.stderr
    assert entries(tmp_path) == before


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_gnncal_did_not_write_is_not_replaced(name, inputs, tmp_path):
    place = Place(name, inputs, tmp_path / "x")
    place.put(place.out)
    before = entries(tmp_path)
    place.assert_refused(place.run())
    assert entries(tmp_path) == before


def test_a_pipe_is_refused(inputs, tmp_path):
    place = Place("report", inputs, tmp_path / "x")
    os.mkfifo(place.out)
    place.assert_refused(place.run())
    assert stat.S_ISFIFO(place.out.lstat().st_mode)


@pytest.mark.parametrize("name", ["report", "export"])
def test_the_input_itself_is_refused_as_output(name, inputs, tmp_path):
    mine = tmp_path / "inputs"
    shutil.copytree(inputs, mine)
    place = Place(name, mine, tmp_path / "x")
    before = entries(tmp_path)
    done = place.run(mine / {"report": "in.npz", "export": "c.safetensors"}[name])
    place.assert_refused(done)
    assert "is the input itself" in done.stderr
    assert entries(tmp_path) == before


@pytest.mark.parametrize("verb", sorted(READS))
def test_verbs_that_only_read_write_nothing(verb, inputs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    label = f"label {inputs}/in.npz --probabilities {inputs}/p.npz --positive cat --act 0.3 -n 3"
    words = {
        "evaluate": f"evaluate {inputs}/in.npz",
        "methods": "methods",
        "card": f"card {inputs}/c.safetensors",
        "explain": f"explain {inputs}/c.safetensors {inputs}/same.npz --node 3",
        "label": label,
        "bench paper": f"bench paper {Path(__file__).parents[2] / 'results'} --datasets Cora",
    }[verb]
    done = CliRunner().invoke(app, words.split())
    assert done.exit_code == 0, done.output
    assert list(tmp_path.iterdir()) == []


def test_inputs_of_a_run_are_never_replaced_by_its_outputs(tmp_path):
    """The calibrator, the policy, the probabilities, the log, the state and the bundle."""
    source = write_npz(tmp_path / "in.npz")
    decided = "decide SOURCE --method ts --positive cat --act 0.5 --out d"
    invoke(tmp_path, "calibrate SOURCE --method ts --out c")
    invoke(tmp_path, decided)
    invoke(tmp_path, "watch c/calibrator.safetensors log.csv --state s", log=True)
    before = entries(tmp_path)
    for words in (
        "apply d/calibrator.safetensors SOURCE --policy d/policy.safetensors --out d",
        "apply c/calibrator.safetensors SOURCE --out c",
        "apply c/calibrator.safetensors SOURCE --policy d/policy.safetensors --out d --overwrite",
        "update c/calibrator.safetensors SOURCE --out c --overwrite",
        "decide SOURCE --probabilities c/probabilities.npz --out c --overwrite",
        "report SOURCE --out in.npz --overwrite",
        "check c/calibrator.safetensors SOURCE --page c/calibrator.safetensors --overwrite",
        "watch c/calibrator.safetensors log.csv --state log.csv",
        "watch c/calibrator.safetensors log.csv --state new --page new",
        "watch c/calibrator.safetensors log.csv --state s --page s --overwrite",
        "watch c/calibrator.safetensors log.csv --state s --page log.csv --overwrite",
        "export c/calibrator.safetensors --to torch --out c/calibrator.safetensors --overwrite",
    ):
        done = invoke(tmp_path, words, expected=2)
        assert "the input" in done.stderr or "ends like" in done.stderr, (words, done.stderr)
        assert entries(tmp_path) == before, words
    assert source.is_file()


def test_a_part_of_the_input_is_not_replaced_by_a_page(tmp_path):
    folder = write_parquet(tmp_path / "in")
    done = invoke(tmp_path, f"report {folder} --out {folder}/nodes.parquet --overwrite", expected=2)
    assert "is a part of the input" in done.stderr


def invoke(folder, words, *, expected=None, log=False):
    """Run a command in a folder; SOURCE is in.npz there."""
    if log:
        (folder / "log.csv").write_text("prediction,confidence,label\n0,0.9,0\n")
    plain = {"apply", "update", "decide", "report", "check", "watch", "export", "calibrate"}
    plain |= {"ts", "cat", "0.5", "torch"}
    given = [
        word if word in plain or word[:1] in "-/" else str(folder / word)
        for word in words.replace("SOURCE", "in.npz").split()
    ]
    done = CliRunner().invoke(app, given)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert expected is None or done.exit_code == expected, done.output
    return done


@pytest.mark.parametrize("name", FILES)
def test_overwrite_replaces_a_file_that_was_named(name, inputs, tmp_path):
    if name in ("watch", "bench report"):
        pytest.skip("has no such option for this file")
    place = Place(name, inputs, tmp_path / "x")
    place.put(place.out)
    words = place.verb.command.replace("INPUT", str(inputs)).replace("OUT", str(place.out)).split()
    assert CliRunner().invoke(app, [*words, "--overwrite"]).exit_code == 0
    assert place.out.read_bytes() != PRECIOUS


def test_decide_takes_the_folder_of_calibrate_only_if_that_is_asked_for(inputs, made):
    place = made("calibrate")
    words = ["decide", f"{inputs}/in.npz", "--method", "ts", "--accuracy", "0.3", "--out"]
    done = CliRunner().invoke(app, [*words, str(place.out)])
    place.assert_refused(done)
    assert "--overwrite" in done.stderr
    assert CliRunner().invoke(app, [*words, str(place.out), "--overwrite"]).exit_code == 0
    assert "probabilities.npz" not in {path.name for path in place.out.iterdir()}


@pytest.mark.parametrize("name", ["calibrate", "scale"])
def test_a_folder_without_a_marker_is_refused_with_what_to_do(name, made):
    place = made(name)
    (place.out / MARKER).unlink()
    done = place.run()
    place.assert_refused(done)
    assert "choose a new or an empty one as --out" in done.stderr
