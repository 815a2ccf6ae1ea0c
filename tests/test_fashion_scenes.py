"""Made scenes, captioned folders, the recipe of both and the picture of a caption."""

import gzip
import json

import keras
import numpy as np
import pytest

from keras_attention import recipes
from keras_attention.__main__ import main
from keras_attention.datasets import captions as captioned
from keras_attention.datasets import fashion_scenes
from keras_attention.models import ImageCaptioner
from keras_attention.recipes import captioner
from keras_attention.visualization.captions import plot_captions, upsample


def write_mnist(path, array):
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
    with gzip.open(path, "wb") as file:
        file.write(head + array.astype("uint8").tobytes())


@pytest.fixture
def fashion(tmp_path, monkeypatch):
    """The four files, of few pictures: the brightness of one says what it is."""
    folder = tmp_path / "fashion"
    folder.mkdir()
    for part, number in (("train", 60), ("t10k", 20)):
        labels = np.arange(number) % 10
        level = 20 * labels + (100 if part == "train" else 50)
        images = np.tile(level.clip(0, 255)[:, None, None], (1, 28, 28))
        write_mnist(folder / f"{part}-images-idx3-ubyte.gz", images)
        write_mnist(folder / f"{part}-labels-idx1-ubyte.gz", labels)
    monkeypatch.setattr(fashion_scenes, "DEBIAN", folder)
    return folder


def test_scenes_are_what_their_captions_say(fashion):
    for part, lowest in zip(fashion_scenes.load((30, 20, 10)), (100, 100, 50), strict=True):
        for image, caption, corners in zip(*part, strict=True):
            words = caption.split(" a ")
            garments = [word.split()[0] for word in words]
            garments[0] = caption.split()[1]
            assert 2 <= len(corners) == len(garments) <= 4
            for garment, (row, column) in zip(garments, corners, strict=True):
                names = [g.replace("-", "") for g in fashion_scenes.GARMENTS]
                level = min(255, 20 * names.index(garment) + lowest)
                window = image[row : row + 28, column : column + 28, 0]
                assert window.min() >= level
                assert (window == level).any()
            gaps = np.abs(corners[:, None] - corners[None]).max(-1)
            assert (gaps[~np.eye(len(corners), dtype=bool)] >= 28).all()
            relations = [" ".join(word.split()[1:]) for word in words[1:-1]]
            relations = [" ".join(words[0].split()[2:]), *relations]
            for relation, one, other in zip(relations, corners, corners[1:], strict=False):
                down, right = other - one
                expected = {
                    "left of": right > abs(down),
                    "above": down > right,
                    "below": -down > right,
                }
                assert right > 0
                assert expected[relation]
            assert set(caption.split()) <= set(fashion_scenes.WORDS)


def test_scenes_are_the_same_every_time_and_parts_share_no_picture(fashion):
    first, again = (fashion_scenes.load((5, 5, 5)) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.images, other.images)
        assert one.captions == other.captions
    assert first[0].captions != first[1].captions
    assert fashion_scenes.load((0, 0, 5))[2].captions == first[2].captions


def test_without_debian_s_package_keras_loads_the_pictures(tmp_path, monkeypatch):
    monkeypatch.setattr(fashion_scenes, "DEBIAN", tmp_path / "missing")
    monkeypatch.setattr(keras.datasets.fashion_mnist, "load_data", lambda: "loaded")
    assert fashion_scenes.load_pictures() == "loaded"


# Flickr8k and COCO.


def write_pictures(folder, names):
    folder.mkdir()
    for place, name in enumerate(names):
        image = np.full((6, 9, 3), 40 * place, "uint8")
        keras.utils.save_img(folder / name, image, scale=False)


@pytest.fixture
def flickr(tmp_path):
    pytest.importorskip("PIL")
    write_pictures(tmp_path / "images", ["one.png", "two.png", "three.png"])
    lines = ["one.png#0\tA dog runs .", "one.png#1\tA wet dog !", "two.png#0\tSnow"]
    lines += ["missing.png#0\tNobody", "three.png#0\tA red ball"]
    (tmp_path / "token.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "train.txt").write_text("three.png\none.png\nmissing.png\n")
    return tmp_path


def test_flickr8k(flickr):
    data = captioned.load_flickr8k(flickr / "token.txt", flickr / "images")
    assert [f.name for f in data.files] == ["one.png", "two.png", "three.png"]
    assert data.captions == [["a dog runs", "a wet dog !"], ["snow"], ["a red ball"]]
    names = flickr / "train.txt"
    data = captioned.load_flickr8k(flickr / "token.txt", flickr / "images", names)
    assert [f.name for f in data.files] == ["three.png", "one.png"]
    (flickr / "bad.txt").write_text("one.png#0 A dog\n")
    with pytest.raises(ValueError, match=r"line 1 of .*'one.png#0 A dog'"):
        captioned.load_flickr8k(flickr / "bad.txt", flickr / "images")
    with pytest.raises(ValueError, match="4 pictures, none of which is there"):
        captioned.load_flickr8k(flickr / "token.txt", flickr)


def test_coco(flickr):
    content = {
        "images": [
            {"id": 7, "file_name": "two.png"},
            {"id": 3, "file_name": "one.png"},
            {"id": 4, "file_name": "three.png"},
        ],
        "annotations": [
            {"image_id": 3, "id": 1, "caption": "A dog."},
            {"image_id": 7, "id": 2, "caption": "Snow"},
            {"image_id": 3, "id": 3, "caption": "One wet dog"},
        ],
    }
    (flickr / "captions.json").write_text(json.dumps(content))
    data = captioned.load_coco(flickr / "captions.json", flickr / "images")
    assert [f.name for f in data.files] == ["two.png", "one.png"]
    assert data.captions == [["snow"], ["a dog", "one wet dog"]]
    (flickr / "bad.json").write_text('{"images": []}')
    with pytest.raises(ValueError, match=r"Expected `images`.*'annotations'"):
        captioned.load_coco(flickr / "bad.json", flickr / "images")


def test_a_captioner_with_a_keras_application_fits_a_folder(flickr):
    data = captioned.load_flickr8k(flickr / "token.txt", flickr / "images")
    vocabulary = captioned.vocabulary_of(data)
    network = keras.applications.MobileNetV2((32, 32, 3), 0.35, False, weights=None)
    network.trainable = False
    inputs = keras.Input((32, 32, 3))
    scaled = keras.layers.Rescaling(1 / 127.5, -1)(inputs)
    encoder = keras.Model(inputs, network(scaled))
    model = ImageCaptioner(vocabulary, encoder, units=8, embedding_dim=6)
    batches = captioned.Batches(model, data, (32, 32), batch_size=3, seed=1)
    assert [len(after) for _, after in batches] == [3, 1]
    model.compile_for_training("adam", run_eagerly=True)
    model.fit(batches, verbose=0)
    images = captioned.read_images(data.files, (32, 32))
    assert images.dtype == np.uint8
    assert len(model.caption(images, max_length=4)) == 3
    plain = captioned.Batches(model, data, (32, 32), batch_size=4)
    np.testing.assert_array_equal(plain[0][0][0][1], images[0])


# The recipe.


@pytest.fixture
def trained(fashion, tmp_path, monkeypatch):
    pytest.importorskip("sacrebleu")
    monkeypatch.setattr(captioner, "FILES", dict(captioner.FILES))
    figures = captioner.train(tmp_path / "out", epochs=1, limit=8, verbose=0)
    return tmp_path / "out", figures


def test_the_recipe_trains_measures_and_shows(trained, capsys, tmp_path):
    folder, figures = trained
    names = {"exact", "bleu4", "pointing"}
    expected = names | {f"hard_{n}" for n in names} | {"mean_exact", "mean_bleu4"}
    assert set(figures) == expected | {"pointing_chance"}
    # A 28 x 28 box holds 2 or 3 centres of 12 x 12 cells, of 7, in each direction.
    assert 100 * 4 / 49 <= figures["pointing_chance"] <= 100 * 9 / 49
    assert recipes.describe("captioner", folder)["figures"] == figures
    command = ["evaluate", "captioner", "--limit", "8", "--json", "--directory", folder]
    assert main([str(word) for word in command]) == 0
    assert json.loads(capsys.readouterr().out) == figures

    pytest.importorskip("matplotlib")
    scene = fashion_scenes.load((0, 0, 3))[2].images[2]
    picture, plot = tmp_path / "scene.png", tmp_path / "out.png"
    keras.utils.save_img(picture, scene, scale=False)
    page = tmp_path / "out.html"
    files = ["--plot", str(plot), "--html", str(page)]
    command = ["show", "captioner", str(picture), *files]
    assert main([*command, "--directory", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert plot.stat().st_size > 1000
    assert '"1/1"' in page.read_text("utf-8")
    assert main(["show", "captioner", "2", "--directory", str(folder)]) == 0
    assert capsys.readouterr().out == shown


def test_pointing_is_where_the_largest_weight_lies():
    """A captioner that looks at the first garment always: a hit for it alone."""

    class Staring(ImageCaptioner):
        def call(self, inputs, **options):
            steps = inputs[1].shape[1]
            row = keras.ops.one_hot(keras.ops.full((1, steps), 8), 49)
            return None, keras.ops.repeat(row, keras.ops.shape(inputs[1])[0], axis=0)

    scenes = fashion_scenes.Scenes(
        np.zeros((1, 84, 84, 1), "uint8"),
        ["a bag left of a boot"],
        [np.array([[10, 5], [20, 50]])],
    )
    model = Staring(fashion_scenes.WORDS, image_shape=(84, 84, 1), units=4)
    hits, chances = captioner.pointing(model, scenes)
    assert hits.tolist() == [True, False]  # cell 8 is row 1, column 1: centre (18, 18)
    np.testing.assert_allclose(chances, [2 * 3 / 49, 2 * 2 / 49])


def test_a_missing_scene_is_named(fashion, monkeypatch):
    monkeypatch.setattr(fashion_scenes, "SIZES", (0, 0, 3))
    with pytest.raises(ValueError, match=r"one of 3 test scenes.*Received: 7"):
        captioner._picture("7")


# The picture.


def test_plot_captions_draws_every_word():
    pytest.importorskip("matplotlib")
    weights = np.zeros((7, 2, 3))
    weights[:, 1, 2] = 1
    axes = plot_captions(np.zeros((20, 30, 3)), list("abcdefg"), weights, title="letters")
    assert [ax.get_title() for ax in axes] == ["", *"abcdefg"]
    shade = axes[3].images[1].get_array()
    assert shade.shape == (20, 30)
    assert shade.argmax() // 30 >= 15
    assert axes[0].figure._suptitle.get_text() == "letters"


def test_upsampling_is_linear_between_centres():
    small = np.array([[1.0, 3.0], [5.0, 7.0]])
    large = upsample(small, (4, 8))
    np.testing.assert_allclose(large[0], [1, 1, 1.25, 1.75, 2.25, 2.75, 3, 3])
    np.testing.assert_allclose(large[:, 0], [1, 2, 4, 5])
    np.testing.assert_allclose(upsample(small, (2, 2)), small)


@pytest.mark.parametrize(
    ("image", "words", "weights"),
    [
        (np.zeros((4, 4)), "ab", np.ones((2, 2, 2))),
        (np.zeros(4), ["a"], np.ones((1, 2, 2))),
        (np.zeros((4, 4)), ["a", "b"], np.ones((1, 2, 2))),
        (np.zeros((4, 4)), ["a"], -np.ones((1, 2, 2))),
    ],
)
def test_what_cannot_be_plotted_is_refused(image, words, weights):
    with pytest.raises(ValueError, match=r"Expected .* Received: "):
        plot_captions(image, words, weights)
