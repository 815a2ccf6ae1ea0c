"""The interactive page, read as text and used in a browser."""

import html
import json
import re
import shutil

import numpy as np
import pytest

from keras_attention.visualization import attention_view

HOSTILE = ["</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "&lt;"]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def data(view):
    block = re.search(
        r'<script type="application/json" id="data">(.*?)</script>', view.document
    )
    return json.loads(block[1])


def test_the_page_holds_weights_and_tokens():
    (layer,) = data(
        attention_view([[0.25, 0.75, 0], [1, 0, 0], [0, 0, 0]], ["a", "b"], ["x", "y"])
    )
    assert layer == {
        "name": "attention",
        "weights": [[[0.25, 0.75], [1.0, 0.0]]],
        "sources": ["a", "b"],
        "targets": ["x", "y"],
    }


def test_pooling_heads_and_several_layers():
    heads = np.random.default_rng(0).uniform(size=(3, 2, 2))
    pooled, several = data(attention_view({"pool": [0.5, 0.5], "look": heads}, ["a", "b"]))
    assert pooled["targets"] is None
    assert np.shape(pooled["weights"]) == (1, 1, 2)
    assert several["targets"] == ["a", "b"]
    np.testing.assert_allclose(several["weights"], heads, atol=1e-4)


def test_the_page_loads_nothing_and_hostile_tokens_stay_text(tmp_path):
    view = attention_view(np.eye(3), HOSTILE)
    assert data(view)[0]["sources"] == HOSTILE
    assert view.document.count("</script>") == 2
    assert not re.search(r"https?:|//[a-z]+\.", view.document)
    framed = view._repr_html_()
    assert "<script>" not in framed
    assert html.unescape(re.search('srcdoc="([^"]*)"', framed)[1]) == view.document
    view.save_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == view.document


@pytest.mark.parametrize(
    ("weights", "sources", "targets", "complaint"),
    [
        ([[1.0]], "a", None, "list of tokens"),
        ([[0.5, 0.5]], ["a", "b"], None, r"\(1, 2\), 2 targets"),
        ([0.5, 0.5], ["a"], None, "behind the last source"),
        (np.ones((1, 1, 1, 1)), ["a"], ["b"], "shape"),
        ([[-1.0]], ["a"], ["b"], "negative"),
        ([[float("nan")]], ["a"], ["b"], "finite"),
        ({}, ["a"], ["b"], "one layer"),
        (np.ones((0, 0)), [], [], "shape"),
    ],
)
def test_what_does_not_fit_is_refused(weights, sources, targets, complaint):
    with pytest.raises(ValueError, match=complaint):
        attention_view(weights, sources, targets)


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a view as a user would: the saved file, with its complaints collected."""
    pages = []

    def open_page(view, **options):
        view.save_html(tmp_path / "view.html")
        page = browser.new_page(**options)
        page.complaints = []
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("dialog", lambda dialog: page.complaints.append(dialog.message))
        page.on("request", lambda request: page.complaints.append(request.url))
        page.goto((tmp_path / "view.html").as_uri())
        page.complaints = page.complaints[1:]  # the page itself
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        assert page.complaints == []
        page.close()


def shades(page):
    """The opacity of each source."""
    script = "all => all.map(one => getComputedStyle(one).backgroundColor)"
    colors = page.locator("#sources .token").evaluate_all(script)
    numbers = [re.findall(r"[\d.]+", color) for color in colors]
    return [float(one[3]) if len(one) > 3 else 1.0 for one in numbers]


def test_hover_click_and_keys_choose_the_word_that_looks(opened):
    page = opened(
        attention_view(
            [[0.8, 0.2, 0], [0, 0.5, 0.5]], ["le", "chat", "noir"], ["the", "cat"]
        )
    )
    assert page.locator("#said").inner_text() == "the: le 0.80, chat 0.20"
    assert shades(page) == [1.0, 0.25, 0.0]
    page.hover("text=cat")
    assert page.locator("#said").inner_text() == "cat: chat 0.50, noir 0.50"
    assert shades(page) == [0.0, 1.0, 1.0]
    page.keyboard.press("Home")
    assert shades(page) == [1.0, 0.25, 0.0]
    page.keyboard.press("ArrowRight")
    assert page.locator("[aria-pressed=true]").inner_text() == "cat"
    assert page.evaluate("document.activeElement.textContent") == "cat"


def test_layers_and_heads_are_chosen(opened):
    look = np.stack([np.eye(2), 1 - np.eye(2)])
    page = opened(attention_view({"look": look, "pool": [0.0, 1.0]}, ["a", "b"]))
    assert shades(page) == [1.0, 0.0]
    page.select_option("#head", label="2")
    assert shades(page) == [0.0, 1.0]
    page.select_option("#layer", label="pool")
    assert not page.is_visible("#head")
    assert not page.is_visible("#asking")
    assert page.locator("#said").inner_text() == "b 1.00"
    page.select_option("#layer", label="look")
    assert page.is_visible("#asking")


def test_hostile_tokens_are_shown_as_they_are(opened):
    page = opened(attention_view(np.eye(3), HOSTILE))
    assert page.locator("#sources .token").all_inner_texts() == HOSTILE


@pytest.mark.parametrize("width", [320, 1280])
def test_two_hundred_tokens_fit_at_any_width(opened, width):
    tokens = [f"token{i}" for i in range(199)] + ["x" * 300]
    page = opened(
        attention_view(np.eye(200), tokens), viewport={"width": width, "height": 700}
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.keyboard.press("End")
    assert shades(page)[-1] == 1.0


def contrast(one, other):
    """Of two colours, as WCAG 2 defines it."""
    lights = []
    for color in (one, other):
        linear = [
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color
        ]
        lights.append(float(np.dot([0.2126, 0.7152, 0.0722], linear)))
    return (max(lights) + 0.05) / (min(lights) + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_can_be_read_on_every_shade(opened, scheme):
    row = np.linspace(0, 1, 21)
    page = opened(attention_view(row, [str(i) for i in range(21)]), color_scheme=scheme)
    script = """all => all.map(one => [
        getComputedStyle(one).color, getComputedStyle(one).backgroundColor,
        getComputedStyle(document.body).backgroundColor])"""
    for colors in page.locator("#sources .token").evaluate_all(script):
        ink, shade, paper = ([float(n) for n in re.findall(r"[\d.]+", c)] for c in colors)
        alpha = shade[3] if len(shade) > 3 else 1.0
        mixed = alpha * np.array(shade[:3]) + (1 - alpha) * np.array(paper[:3])
        assert contrast(np.array(ink[:3]) / 255, mixed / 255) >= 4.0
