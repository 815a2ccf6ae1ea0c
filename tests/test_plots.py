"""Pictures of heads, hops, regions and decoding: what stands in them, and where."""

import sys

import keras
import numpy as np
import pytest

from keras_attention import visualization
from keras_attention.models import MemoryNetwork
from keras_attention.visualization import (
    animate_decoding,
    plot_alignment,
    plot_heads,
    plot_hops,
    plot_regions,
)

pyplot = pytest.importorskip("matplotlib.pyplot")

HOSTILE = ["$x_{", "a\x1b[31m\nb", "<b>&"]
SHOWN = ["$x_{", "a\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}b", "<b>&"]
LONG = [f"word{i}" for i in range(60)]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot.close("all")


def rows_of_weights(*shape):
    return np.random.default_rng(0).dirichlet(np.full(shape[-1], 0.3), shape[:-1])


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def brightness(patch):
    return sum(patch.get_facecolor()[:3])


def drawn_apart(artists):
    """Whether no two of them cover each other, and all of them lie in the picture."""
    figure = artists[0].figure
    figure.canvas.draw()
    extents = [artist.get_window_extent() for artist in artists]
    inside = figure.get_tightbbox().padded(0.1).transformed(figure.dpi_scale_trans)
    apart = all(
        min(one.x1, other.x1) - max(one.x0, other.x0) < 0.5
        or min(one.y1, other.y1) - max(one.y0, other.y0) < 0.5
        for number, one in enumerate(extents)
        for other in extents[:number]
    )
    corners = [corner for box in extents for corner in (box.min, box.max)]
    return apart and all(inside.contains(*corner) for corner in corners)


# Alignments and heads


@pytest.mark.parametrize("tokens", [LONG, list("abcdefghij") * 6, LONG[:5]])
def test_tokens_of_an_alignment_can_be_read(tokens):
    ax = plot_alignment(rows_of_weights(40, len(tokens)), tokens, LONG[:40])
    for axis in (ax.xaxis, ax.yaxis):
        assert drawn_apart(axis.get_ticklabels())
        assert axis.get_ticklabels()[0].get_fontsize() >= 7


def test_an_alignment_is_shaded_up_to_its_largest_weight():
    ax = plot_alignment([[0.1, 0.3, 0], [0.2, 0, 0]], ["a", "b"], HOSTILE[:2])
    assert ax.images[0].get_clim() == (0, 0.3)
    assert ax.get_xlabel() == "darkest: 0.30"
    assert labels(ax.yaxis) == SHOWN[:2]


def test_an_alignment_fits_axes_that_are_there():
    _, (left, right) = pyplot.subplots(1, 2, figsize=(8, 4))
    tokens = list("abcdefghijkl")
    assert plot_alignment(rows_of_weights(12, 12), tokens, tokens, left) is left
    plot_alignment(rows_of_weights(2, 3), HOSTILE, ["K", "OW"], right)
    assert drawn_apart(left.get_xticklabels())
    assert left.get_xticklabels()[0].get_size() > 6
    assert right.get_xticklabels()[0].get_size() == 10


def test_every_head_is_drawn_on_one_scale():
    weights = np.zeros((5, 4, 6))
    weights[:, :3, :4] = rows_of_weights(5, 3, 4)
    axes = plot_heads(weights, list("abcd"), ["x", "y", "z"], title="a layer")
    assert [ax.get_title("left") for ax in axes] == [f"head {n}" for n in range(1, 6)]
    for ax, head in zip(axes, weights, strict=True):
        np.testing.assert_array_equal(ax.images[0].get_array(), head[:3, :4])
        assert ax.images[0].get_clim() == (0, weights.max())
        assert labels(ax.xaxis) == list("abcd")
        assert labels(ax.yaxis) == ["x", "y", "z"]
    figure = axes[0].figure
    assert figure.get_suptitle() == "a layer"
    assert figure.get_supxlabel() == f"darkest: {weights.max():.2f}"
    # 3 + 2, and the sixth place is left empty.
    assert [ax.axison for ax in figure.axes] == [True] * 5 + [False]


def test_heads_have_names_of_their_own_and_look_at_themselves():
    by_name = {"first": keras.ops.eye(3), "second": np.ones((3, 3)) / 3}
    axes = plot_heads(by_name, HOSTILE)
    assert [ax.get_title("left") for ax in axes] == ["first", "second"]
    assert labels(axes[1].xaxis) == labels(axes[1].yaxis) == SHOWN
    axes[0].figure.canvas.draw()


@pytest.mark.parametrize(("heads", "tokens"), [(8, LONG[:5]), (3, LONG)])
def test_tokens_of_every_head_can_be_read(heads, tokens):
    axes = plot_heads(rows_of_weights(heads, len(tokens), len(tokens)), tokens)
    for ax in axes:
        for axis in (ax.xaxis, ax.yaxis):
            assert drawn_apart(axis.get_ticklabels())
            assert axis.get_ticklabels()[0].get_fontsize() >= 7
    boxes = [ax.get_tightbbox() for ax in axes]
    for number, one in enumerate(boxes):
        assert not any(one.overlaps(other) for other in boxes[:number])


@pytest.mark.parametrize(
    ("weights", "complaint"),
    [
        (np.ones((2, 2)), r"\(heads, targets, sources\).*\(2, 2\)"),
        (np.ones((0, 2, 2)), "one head"),
        ({}, "one head"),
        (np.ones((1, 2, 3)), "behind the last source"),
        ({"a": -np.eye(2)}, "negative"),
        ({"a": np.eye(2), "b": np.eye(1)}, "2 targets and 2 sources"),
    ],
)
def test_heads_that_do_not_fit(weights, complaint):
    with pytest.raises(ValueError, match=f"Expected (?s:.*){complaint}"):
        plot_heads(weights, ["a", "b"])


# Hops


def in_boxes(ax):
    """The texts in boxes, from the top, and the boxes' brightness."""
    found = [
        (round(patch.get_y(), 3), patch.get_x(), text.get_text(), brightness(patch))
        for patch in ax.patches
        for text in ax.texts
        if patch.get_window_extent().contains(
            *text.get_window_extent().get_points().mean(0)
        )
    ]
    return sorted(found)


def test_hops_stand_before_their_sentences():
    weights = np.array([[0.2, 0.8, 0, 0], [0.004, 0.996, 0, 0], [0.5, 0.1, 0.4, 0]])
    story = ["Mary ran home.", "John\nsat.", ""]
    ax = plot_hops(weights, story, title="Where is $Mary$?")
    ax.figure.canvas.draw()
    found = in_boxes(ax)
    assert [text for _, _, text, _ in found] == [
        *("0.20", "", "0.50", "0.80", "1.00", "0.10", "", "", "0.40")
    ]
    shades = np.reshape([bright for *_, bright in found], (3, 3))
    order = np.argsort(shades, axis=None)
    assert order[:2].tolist() == [4, 3]  # 0.996 and then 0.8, the darkest
    texts = [text.get_text() for text in ax.texts]
    words = [text for text in texts if text and text[0].isalpha()]
    sat = "John\N{REPLACEMENT CHARACTER}sat."
    assert words == ["hop 1", "hop 2", "hop 3", "Mary", "ran", "home.", sat]
    assert ax.get_title("left") == "Where is $Mary$?"


@pytest.mark.parametrize("number", [5, 60])
def test_hops_can_be_read(number):
    story = [f"{word} went to a place with a long name." for word in LONG[:number]]
    ax = plot_hops(rows_of_weights(3, number), story)
    texts = [text for text in ax.texts if text.get_text()]
    assert drawn_apart(texts)
    assert min(text.get_fontsize() for text in texts) >= 8
    assert len(ax.patches) == 3 * number


def test_hops_of_a_memory_network():
    model = MemoryNetwork(["mary", "ran", "home", "where", "is"], hops=2, seed=1)
    story = ["Mary ran home.", "Is Mary home?", "Mary is home."]
    inputs = model.encode([story, story[:1]], ["Where is Mary?"] * 2)
    _, weights = model(inputs, return_attention_scores=True)
    found = in_boxes(plot_hops(weights[0], story))
    expected = keras.ops.convert_to_numpy(weights)[0].T.ravel()
    assert [text for _, _, text, _ in found] == [f"{weight:.2f}" for weight in expected]
    # The second story is padded to three sentences.
    assert len(plot_hops(weights[1], story[:1]).patches) == 2


def test_hops_fit_axes_that_are_there():
    _, ax = pyplot.subplots(figsize=(5, 2))
    assert plot_hops(rows_of_weights(3, 6), ["John went to the hallway."] * 6, ax) is ax
    assert drawn_apart([text for text in ax.texts if text.get_text()])


@pytest.mark.parametrize(
    ("weights", "sentences", "complaint"),
    [
        (np.ones((3, 2)), ["a"], r"behind the last sentence.*\(3, 2\) and 1 sentences"),
        (np.ones((3, 1)), ["a", "b"], "2 sentences"),
        (np.ones(2), ["a", "b"], "shape"),
        (np.ones((0, 2)), ["a", "b"], "shape"),
        ([[np.nan, 1]], ["a", "b"], "finite"),
        ([[1.0]], "a", "list of sentences"),
    ],
)
def test_hops_that_do_not_fit(weights, sentences, complaint):
    with pytest.raises(ValueError, match=f"Expected (?s:.*){complaint}"):
        plot_hops(weights, sentences)


# Regions


def test_regions_are_bright_where_the_weights_are():
    weights = np.zeros((2, 3))
    weights[1, 2] = 0.4
    image = np.full((20, 30, 3), 128, "uint8")
    ax = plot_regions(image, weights, title="a $bag")
    picture, shade = ax.images
    np.testing.assert_array_equal(picture.get_array(), image)
    assert shade.get_array().max() == 1
    assert shade.get_array()[-1, -1] == 1
    assert shade.get_array()[:10, :15].max() == pytest.approx(0, abs=0.06)
    assert shade.get_extent() == picture.get_extent()
    assert ax.get_title() == "a $bag"
    ax.figure.canvas.draw()


@pytest.mark.parametrize(
    ("image", "limits"),
    [(np.full((4, 6, 1), 9, "uint8"), (0, 255)), (np.full((4, 6), 0.3), (0, 1))],
)
def test_a_dark_picture_stays_dark(image, limits):
    ax = plot_regions(image, np.ones((2, 2)), pyplot.figure().add_subplot())
    assert ax.images[0].get_clim() == limits


@pytest.mark.parametrize(
    ("image", "weights", "complaint"),
    [
        (np.zeros((4, 5, 2)), np.ones((2, 2)), r"channels.*\(4, 5, 2\)"),
        (np.full((4, 5), 255.0), np.ones((2, 2)), "floats from 0 to 1.*255"),
        (np.zeros((4, 5)), np.ones((3, 2, 2)), r"\(3, 2, 2\)"),
        (np.zeros((4, 5)), np.ones((0, 2)), r"\(0, 2\)"),
        (np.zeros((4, 5)), -np.ones((2, 2)), "negative"),
    ],
)
def test_regions_that_do_not_fit(image, weights, complaint):
    with pytest.raises(ValueError, match=f"Expected (?s:.*){complaint}"):
        plot_regions(image, weights)


# Decoding


def at_step(animation, step):
    """What can be read at a step: source boxes' brightness, targets so far, the newest."""
    animation._draw_was_started = True  # Else it complains that nobody watched it.
    artists = animation._func(step)
    patches, words = artists[::2], artists[1::2]
    seen = [pair for pair in zip(patches, words, strict=True) if pair[1].get_visible()]
    assert all(patch.get_visible() for patch, _ in seen)
    edges = [word.get_text() for patch, word in seen if patch.get_linewidth() > 1]
    return [(word.get_text(), brightness(patch)) for patch, word in seen], edges


def test_decoding_shows_one_token_after_another():
    weights = [[0.5, 0.25, 0, 0], [0, 0.1, 0.9, 0]]
    animation = animate_decoding(weights, HOSTILE, ["K", "OW"], title="$5")
    first, newest = at_step(animation, 0)
    assert [word for word, _ in first] == [*SHOWN, "K"]
    assert newest == ["K"]
    bright = [one for _, one in first]
    assert bright[0] < bright[1] < bright[2] == 3
    second, newest = at_step(animation, 1)
    assert [word for word, _ in second] == [*SHOWN, "K", "OW"]
    assert newest == ["OW"]
    bright = [one for _, one in second]
    assert bright[2] < bright[1] < bright[0] == 3
    # And back to the first one.
    assert at_step(animation, 0) == (first, ["K"])
    assert pyplot.get_fignums() == []


def test_decoding_is_saved_as_a_moving_picture(tmp_path):
    image = pytest.importorskip("PIL.Image")
    animation = animate_decoding(np.eye(3), LONG[:3], HOSTILE, interval=200)
    animation.save(tmp_path / "decoding.gif", "pillow")
    with image.open(tmp_path / "decoding.gif") as gif:
        assert gif.n_frames == 3
        assert [frame.info["duration"] for frame in map_frames(gif)] == [200, 200, 600]


def map_frames(gif):
    for number in range(gif.n_frames):
        gif.seek(number)
        yield gif


@pytest.mark.parametrize("number", [5, 60])
def test_decoding_can_be_read(number):
    weights = rows_of_weights(number - 1, number)
    animation = animate_decoding(weights, LONG[:number], LONG[: number - 1])
    animation._draw_was_started = True
    artists = animation._func(number - 2)
    assert len(artists) == 2 * (2 * number - 1)
    assert drawn_apart(artists[::2])
    assert drawn_apart(artists[1::2])
    assert min(word.get_fontsize() for word in artists[1::2]) >= 10


def test_decoding_fits_axes_that_are_there():
    figure, ax = pyplot.subplots()
    animation = animate_decoding(np.eye(2), ["a", "b"], ["x", "y"], ax)
    assert at_step(animation, 1)[1] == ["y"]
    assert pyplot.get_fignums() == [figure.number]


@pytest.mark.parametrize(
    ("weights", "targets", "complaint"),
    [
        (np.zeros((0, 2)), [], "one target at least"),
        (np.ones((2, 3)), ["x", "y"], "behind the last source"),
        (np.eye(2), "xy", "list of tokens"),
    ],
)
def test_decoding_that_does_not_fit(weights, targets, complaint):
    with pytest.raises(ValueError, match=f"Expected (?s:.*){complaint}"):
        animate_decoding(weights, ["a", "b"], targets)


@pytest.mark.parametrize(
    "call",
    [
        lambda: plot_heads(np.ones((1, 1, 1)), ["a"]),
        lambda: plot_hops([[1.0]], ["a"]),
        lambda: plot_regions(np.zeros((4, 5)), np.ones((2, 3))),
        lambda: animate_decoding([[1.0]], ["a"], ["b"]),
    ],
)
def test_missing_matplotlib_names_the_extra(call, monkeypatch):
    for module in ("matplotlib.pyplot", "matplotlib.animation"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"keras-attention-layers\[plot\]"):
        call()


def test_all_that_is_drawn_can_be_saved(tmp_path):
    for name, ax in {
        "heads": plot_heads(np.ones((2, 1, 1)), ["a"])[0],
        "hops": plot_hops([[1.0]], ["a"]),
        "regions": plot_regions(np.zeros((4, 5)), np.ones((2, 3))),
    }.items():
        visualization.save_plot(ax, tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert pyplot.get_fignums() == []
