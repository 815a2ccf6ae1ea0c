"""bAbI: reader, recipe on stories of our own, shipped network, benchmark."""

import gzip
import json
import sys
import tarfile

import keras
import numpy as np
import pytest
from conftest import ROOT

from keras_attention import __main__, recipes
from keras_attention.datasets import babi
from keras_attention.recipes import babi as recipe

sys.path.insert(0, str(ROOT / "benchmarks"))
import babi as benchmark

STORY = "Mary went to the kitchen. John went to the garden. Where is Mary?"


def lines(questions):
    """Questions in the published format, each a story of its own."""
    for story, question, answer, supporting in questions:
        numbered = [*story, f"{question}\t{answer}\t{supporting[0] + 1}"]
        yield from (f"{number} {line}" for number, line in enumerate(numbered, start=1))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of two tasks, one of them packed, of stories of our own."""
    folder = tmp_path_factory.mktemp("babi")
    for task, number in ((1, 40), (4, 30)):
        for seed, part in enumerate(("train", "test")):
            content = "\n".join(lines(babi.generate(number, seed + task))) + "\n"
            if task == 1:
                (folder / f"qa1_walks_{part}.txt").write_text(content)
            else:
                with gzip.open(folder / f"qa4_{part}.txt.gz", "wt") as file:
                    file.write(content)
    return folder


def test_reading_the_published_format():
    found = babi.read(
        [
            "1 Mary moved to the bathroom.",
            "2 Where is Mary? \tbathroom\t1",
            "3 Mary took the milk there.",
            "4 What is Mary carrying?\tmilk,Football\t1 3",
            "1 John sat.",
            "2 Who sat?\tJohn\t1",
        ]
    )
    assert found[0] == (["Mary moved to the bathroom."], "Where is Mary?", "bathroom", [0])
    assert found[1].answer == "milk,football"
    assert found[1].supporting == [0, 1]
    assert len(found[0].story) == 1
    assert found[2] == (["John sat."], "Who sat?", "john", [0])


def test_loading(folder, monkeypatch):
    assert babi.tasks(folder) == [1, 4]
    train, test = babi.load(4, folder)
    assert (len(train), len(test)) == (30, 30)
    assert train == [q._replace(answer=q.answer.lower()) for q in babi.generate(30, 4)]
    assert [len(part) for part in babi.load(1, folder, limit=7)] == [7, 7]
    monkeypatch.setenv(babi.FOLDER, str(folder))
    assert babi.find() == folder


def test_what_is_missing_is_said(folder, tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="Expected files qa1_"):
        babi.find(tmp_path)
    with pytest.raises(FileNotFoundError, match="Expected a file qa2_"):
        babi.load(2, folder)
    with pytest.raises(ValueError, match="Expected a task from 1 to 20"):
        babi.load(21, folder)
    monkeypatch.delenv(babi.FOLDER, raising=False)
    monkeypatch.setattr(babi, "BESIDE", ())
    monkeypatch.setattr(babi, "ORIGIN", f"file://{tmp_path}/nothing.tar.gz")
    with pytest.raises(OSError, match=r"Could not download .*KERAS_ATTENTION_BABI=FOLDER"):
        babi.find()


def test_the_published_archive(folder, tmp_path, monkeypatch):
    """An archive of the published one's shape, fetched by Keras from a file."""
    archive = tmp_path / "babi_small.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for language in ("en-10k", "en"):
            for part in ("train", "test"):
                name = f"tasks_1-20_v1-2/{language}/qa1_single-supporting-fact_{part}.txt"
                tar.add(folder / f"qa1_walks_{part}.txt", name)
    monkeypatch.delenv(babi.FOLDER, raising=False)
    monkeypatch.setattr(babi, "BESIDE", ())
    monkeypatch.setattr(babi, "ORIGIN", archive.as_uri())
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    get_file = keras.utils.get_file
    monkeypatch.setattr(
        keras.utils, "get_file", lambda **options: get_file(cache_dir=tmp_path, **options)
    )
    assert babi.find().name == "en"
    assert len(babi.load(1)[0]) == 40


def test_stories_of_our_own_are_right():
    for story, question, answer, (place,) in babi.generate(100):
        person = question.removeprefix("Where is ").removesuffix("?")
        said = [i for i, sentence in enumerate(story) if sentence.startswith(person)]
        assert place == said[-1]
        assert story[place].endswith(f"{answer}.")
    assert babi.generate(5) == babi.generate(5)
    assert babi.generate(5) != babi.generate(5, seed=1)


def test_batches_hold_every_question_and_fit():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 18, 150)
    stories = (np.arange(17) < lengths[:, None])[..., None] * np.ones(3, "int32")
    batches = recipe.Batches((stories, np.zeros((150, 2))), np.arange(150), seed=0)
    orders = []
    for _ in range(2):
        seen = []
        for index in range(len(batches)):
            (story, _), target = batches[index]
            assert len(target) == recipe.BATCH_SIZE
            assert story.shape[1] == min(
                size for size in (4, 8, 12, 17) if size >= lengths[target].max()
            )
            seen += target.tolist()
        assert set(seen) == set(range(150))
        orders.append(seen)
        batches.on_epoch_end()
    assert orders[0] != orders[1]


def test_training_measuring_and_showing(folder, tmp_path, capsys):
    output = tmp_path / "models"
    figures = recipe.train(output, epochs=5, data=folder, restarts=2, verbose=0)
    assert sorted(file.name for file in output.iterdir()) == ["babi.json", "babi.keras"]
    assert figures["errors"].keys() == {"1", "4"}
    mean = sum(figures["errors"].values()) / 2
    assert figures["mean_error"] == pytest.approx(mean, abs=0.011)
    description = recipes.describe("babi", output)
    assert description["figures"] == figures
    assert len(description["training"]["training_errors"]) == 2
    model = keras.models.load_model(output / "babi.keras")
    assert float(model.normalizer.linear.numpy()) == 0
    capsys.readouterr()

    where = ["--directory", str(output)]
    command = ["evaluate", "babi", "--json", *where, "--data", str(folder)]
    assert __main__.main(command) == 0
    assert json.loads(capsys.readouterr().out) == figures
    assert __main__.main([*command[:2], *command[3:], "--limit", "9"]) == 0
    assert "errors (1 " in capsys.readouterr().out

    plot = tmp_path / "story.png"
    story = "Anna ran to the garden. Ben went to the kitchen. Where is Anna?"
    page = tmp_path / "story.html"
    files = ["--plot", str(plot), "--html", str(page)]
    assert __main__.main(["show", "babi", story, *files, *where]) == 0
    assert '"hop 3"' in page.read_text("utf-8")
    title, head, *rows = capsys.readouterr().out.splitlines()
    assert title.startswith("Where is Anna? ")
    assert head.split() == ["1", "2", "3"]
    assert [row.partition(".")[0] for row in rows] == [
        "Anna ran to the garden",
        "Ben went to the kitchen",
    ]
    assert plot.stat().st_size > 1_000
    for story in ("Anna ran.", "Where is Anna?", ""):
        with pytest.raises(ValueError, match="Expected sentences and then a question"):
            recipe.show(story, directory=output)


def test_data_is_refused_where_there_is_no_folder(capsys):
    assert __main__.main(["evaluate", "g2p", "--data", "somewhere"]) == 2
    assert "Expected no --data" in capsys.readouterr().err


def test_the_benchmark_prints_a_table(folder, capsys, tmp_path):
    file = tmp_path / "results.json"
    options = f"--data {folder} --restarts 2 --epochs 1 --output {file}"
    benchmark.main([*options.split(), "--columns", "one hop, joint"])
    printed = capsys.readouterr().out.splitlines()
    assert printed[-4].split() == ["best", "mean", "paper"]
    assert [line.split()[0] for line in printed[-3:]] == ["1", "4", "mean"]
    assert [line.split()[3] for line in printed[-3:]] == ["0.8", "22.8", "11.8"]
    found = json.loads(file.read_text())["one hop, joint"]
    assert found["1"]["best"] == pytest.approx(float(printed[-3].split()[1]), abs=0.06)


@pytest.mark.parametrize(
    ("column", "mean"),
    [("three hops", 13.8), ("three hops, joint", 12.4), ("one hop, joint", 25.8)],
)
def test_the_papers_columns_have_the_papers_means(column, mean):
    errors = benchmark.paper(column)
    assert list(errors) == list(range(1, 21))
    assert sum(errors.values()) / 20 == pytest.approx(mean, abs=0.051)


def test_the_shipped_network_answers():
    file = recipes.path(recipe.FILE)
    assert file.stat().st_size < 5e6
    model = keras.models.load_model(file)
    *story, question = STORY.replace(". ", ".|").split("|")
    asked = [question, question.replace("Mary", "John")]
    assert model.answer([story] * 2, asked) == ["kitchen", "garden"]


def test_the_shipped_figures_are_those_of_some_questions():
    try:
        babi.find()
    except OSError:
        pytest.skip("no bAbI files at hand")
    found = recipe.evaluate(limit=50)
    described = recipes.describe("babi")["figures"]
    assert found["errors"].keys() == described["errors"].keys()
    assert found["mean_error"] == pytest.approx(described["mean_error"], abs=6)
