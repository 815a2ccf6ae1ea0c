"""Shaded words as HTML, read as text and by a browser."""

import html
import re
import shutil

import numpy as np
import pytest

from keras_attention.visualization import document_html, words_html

HOSTILE = ["<script>alert(1)</script>", '" onmouseover="alert(1)', "&amp;", "a\u202eb"]
SPAN = re.compile(
    r'<span style="background: rgba\(([\d, ]+), ([\d.]+)\);[^"]*" title="([\d.]+)">'
    r"(.*?)</span>"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def spans(shaded):
    """Colour, opacity, weight and token of each word."""
    found = SPAN.findall(shaded)
    assert len(found) == shaded.count("<span")
    return [(color, float(a), float(w), html.unescape(t)) for color, a, w, t in found]


def test_words_are_shaded_by_their_weights():
    found = spans(words_html(["so", "good", "!"], [0.15, 0.6, 0.25, 0]))
    assert [token for *_, token in found] == ["so", "good", "!"]
    assert [weight for _, _, weight, _ in found] == [0.15, 0.6, 0.25]
    most = found[1][1]
    shares = [opacity / most for _, opacity, _, _ in found]
    np.testing.assert_allclose(shares, [0.25, 1, 0.25 / 0.6], atol=2e-3)


def test_words_stand_apart():
    shaded = words_html(["a", "b"], [0, 0], title="<1>")
    assert re.sub("<.*?>", "", shaded) == "&lt;1&gt;a b"


def test_hostile_tokens_stay_text():
    shaded = words_html(HOSTILE, [1, 0, 0, 0])
    shown = [*HOSTILE[:3], "a\N{REPLACEMENT CHARACTER}b"]
    assert [token for *_, token in spans(shaded)] == shown
    assert "<script" not in shaded
    assert shaded.count("onmouseover") == 1  # as a token's text


def test_a_document_shades_words_by_both_weights():
    words = np.array([[0.5, 0.5, 0], [0, 0, 0], [0.9, 0.1, 0]])
    found = spans(
        document_html([["It", "rained"], [], ["Great"] * 2], words, [0.2, 0, 0.8])
    )
    leads = [found[i] for i in (0, 3, 4)]
    assert [token for *_, token in leads] == ["0.20", "0.00", "0.80"]
    assert len({color for color, *_ in leads}) == 1
    assert leads[0][0] != found[1][0]
    shares = [opacity / found[5][1] for _, opacity, _, _ in found[1:3]]
    assert shares == pytest.approx([0.2**0.5 * 0.5 / (0.8**0.5 * 0.9)] * 2, abs=2e-3)


def test_a_notebook_and_a_file_show_it(tmp_path):
    shaded = words_html(["caf\xe9", "{}"], [1, 0])
    assert shaded._repr_html_() == shaded
    assert type(shaded._repr_html_()) is str
    shaded.save_html(tmp_path / "words.html")
    page = (tmp_path / "words.html").read_text("utf-8")
    assert shaded in page
    assert not re.search(r"https?:|//[a-z]+\.", page)


@pytest.mark.parametrize(
    ("words", "weights", "complaint"),
    [("ab", [1, 1], "list of words"), (["a"], [1, 1], "behind"), (["a"], [-1], "negative")],
)
def test_words_that_do_not_fit(words, weights, complaint):
    with pytest.raises(ValueError, match=f"Expected (?s:.*){complaint}"):
        words_html(words, weights)
    with pytest.raises(ValueError, match="Expected"):
        document_html(words, [weights], [1, 1])


def light(color):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


# Ink and paper of a page, of Jupyter and of Colab: light, dark.
PAGES = [("#000000", "#ffffff"), ("#212121", "#ffffff")]
PAGES += [("#ffffff", "#121212"), ("#e0e0e0", "#111111"), ("#d5d5d5", "#383838")]


@pytest.mark.parametrize(("ink", "paper"), PAGES)
def test_letters_can_be_read_on_every_shade(ink, paper):
    """Contrast as WCAG 2 defines it."""
    ink, paper = (np.array(list(bytes.fromhex(c[1:]))) / 255 for c in (ink, paper))
    weights = np.linspace(0, 1, 21)
    shaded = document_html([["w"] * 21], [weights], [1.0])
    for color, opacity, _, _ in spans(shaded):
        shade = np.array([int(c) for c in color.split(",")]) / 255
        low, high = sorted([light(ink), light(opacity * shade + (1 - opacity) * paper)])
        assert (high + 0.05) / (low + 0.05) >= 4.0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_every_word_and_runs_nothing(scheme, tmp_path):
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    tokens = [*HOSTILE[:3], *(f"token{i}" for i in range(60)), "x" * 300]
    words_html(tokens, np.linspace(0, 1, 64), title="64").save_html(tmp_path / "w.html")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(color_scheme=scheme, viewport={"width": 320, "height": 700})
        complaints = []
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto((tmp_path / "w.html").as_uri())
        assert page.locator("span").all_inner_texts() == tokens
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
        paper = page.evaluate("getComputedStyle(document.body).color")
        assert paper == {"light": "rgb(0, 0, 0)", "dark": "rgb(255, 255, 255)"}[scheme]
        browser.close()
    assert complaints == []
