"""The HTML report in a real browser: nothing asked of the network, nothing wrong, filters that filter, inert words."""

import json
import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from report_runs import Asked, keep

from quarry_harness.reports.page import html
from quarry_harness.stages.browse import browse
from quarry_harness.stages.compare import Plan
from quarry_harness.stages.survey import open_runs, survey

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra test-more)")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the PATH")

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
]  # fmt: skip
HOSTILE = "</script><img src=x onerror=alert(1)><b>bold</b>\u2028&lt;\u202etxt <!-- ${x} $title \x07"


class Opened:
    """A page with everything that it logged, asked for or raised."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.trouble: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.trouble.append(message.text))
        page.on("pageerror", lambda error: self.trouble.append(str(error)))
        page.on("dialog", lambda dialog: (self.trouble.append("dialog"), dialog.dismiss()))
        page.on("request", lambda request: self.requests.append(request.url))

    def open(self, file: Path, fragment: str = "") -> None:
        self.page.goto(file.as_uri() + fragment)

    def status(self) -> str:
        return str(self.page.locator("#status").inner_text())

    def asked(self) -> list[str]:
        return list(self.page.locator("#queries .asked").all_inner_texts())


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser: Any) -> Iterator[Opened]:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    yield Opened(page)
    page.close()


def write(file: Path, workspace: Path, baseline: str | None = None) -> Path:
    runs = open_runs(workspace, [], baseline)
    file.write_text(html(survey(runs, Plan(resamples=100)), browse(workspace, runs)), "utf-8")
    return file


@pytest.fixture(scope="module")
def demo(demo_workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("page") / "demo.html", demo_workspace)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of 45 queries: the second is better on t1, worse on t2, has no result on t3."""
    folder = tmp_path_factory.mktemp("two")
    for name, first, second, third in (("base-1", 20, 2, 100), ("other-1", 3, 0, 0)):
        queries = [
            Asked((first,), "a__x", "t1", "go", "alpha question"),
            Asked((second, 1), "a__x", "t2", "go", "beta question"),
            Asked((70 if third else 0,), "b__y", "t3", "rust", "gamma question", retrieved=third),
            *(Asked((1,), "c__z", f"u{number}", "python", f"plain {number}") for number in range(42)),
        ]
        keep(folder, name, queries)
    return write(folder / "two.html", folder)


def test_the_page_is_whole_asks_for_nothing_and_logs_nothing(opened: Opened, demo: Path) -> None:
    opened.open(demo)
    page = opened.page
    assert opened.status() == "79 of 79 queries"
    for k in (5, 10, 20, 50):
        page.locator(f"label[for=k{k}]").click()
        assert page.locator("#leaderboard .at:visible h3").inner_text() == f"recall@{k}"
    for number in range(5):
        page.locator("details.query > summary").nth(number).click()
        page.locator(".answer").nth(number).wait_for()
    for source in page.locator("details.source > summary").all()[:10]:
        source.click()
    page.locator("pre.source").nth(4).wait_for()
    assert opened.trouble == []
    assert opened.requests == [demo.as_uri()]


def test_its_policy_lets_nothing_out_and_no_other_script_in(opened: Opened, demo: Path) -> None:
    text = demo.read_text("utf-8")
    assert "default-src 'none'" in text
    without_data = text.split('<script type="application/json"')[0]
    assert {target for target in re.findall(r'(?:src|href)="([^"]*)"', without_data) if target[0] != "#"} == {"data:,"}
    assert "http:" not in without_data
    assert "https:" not in without_data
    opened.open(demo)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        answers = opened.page.evaluate(
            """async (address) => {
              const made = document.createElement("script");
              made.textContent = "window.ran = 1";
              document.body.append(made);
              const image = new Promise((done) => {
                const one = new Image();
                [one.onload, one.onerror] = [() => done("loaded"), () => done("refused")];
                one.src = address;
              });
              return [await image, await fetch(address).catch(() => "refused"), window.ran ?? "refused"];
            }""",
            f"http://127.0.0.1:{server.getsockname()[1]}/x",
        )
        assert answers == ["refused"] * 3
        with pytest.raises(TimeoutError):
            server.accept()


def test_filters_choose_the_queries_they_say(opened: Opened, two: Path) -> None:
    opened.open(two)
    page = opened.page
    assert opened.status() == "45 of 45 queries"
    assert page.locator("#queries > li").count() == 20
    page.locator("#more").click()
    page.locator("#more").click()
    assert (page.locator("#queries > li").count(), page.locator("#more").is_visible()) == (45, False)

    page.select_option("#language", "go")
    assert sorted(opened.asked()) == ["alpha question", "beta question"]
    assert page.locator("#repository option").all_inner_texts() == ["all repositories", "a__x (2)"]
    page.locator("#reset").click()
    page.select_option("#repository", "b__y")
    assert opened.asked() == ["gamma question"]
    page.locator("#reset").click()
    page.fill("#search", "QUESTION alpha")
    assert opened.asked() == ["alpha question"]
    page.fill("#search", "t2::q1")
    assert opened.asked() == ["beta question"]
    page.fill("#search", "no such words")
    assert (opened.status(), opened.asked()) == ("0 of 45 queries", [])
    page.locator("#reset").click()
    assert opened.status() == "45 of 45 queries"


def test_outcomes_and_the_baseline_are_of_the_run_that_is_chosen(opened: Opened, two: Path) -> None:
    opened.open(two)
    page = opened.page
    page.select_option("#run", label="other")
    texts = page.locator("#outcome option").all_inner_texts()
    assert texts == ["all outcomes", "● in the top 5 (43)", "✕ never found (1)", "∅ query without a result (1)"]
    page.select_option("#outcome", label="✕ never found (1)")
    assert opened.asked() == ["beta question"]
    page.select_option("#outcome", "")
    page.select_option("#against", "better")
    assert opened.asked() == ["alpha question"]
    page.select_option("#against", "worse")
    assert opened.asked() == ["beta question"]
    page.select_option("#against", "")
    page.select_option("#order", "worst")
    assert opened.asked()[:2] == ["gamma question", "beta question"]
    page.select_option("#run", label="base")
    assert page.locator("#outcome option").all_inner_texts()[-1] == "○ below 50 (1)"
    assert opened.trouble == []


def test_a_query_shows_its_ranks_in_each_run_and_marks_gold(opened: Opened, two: Path) -> None:
    opened.open(two, "#q=t2")
    page = opened.page
    assert opened.asked() == ["beta question"]
    page.locator(".answer").wait_for()
    cells = page.locator(".answer tbody tr").first.locator("td").all_inner_texts()
    assert cells[1:] == ["2", "never found"]
    marked = [
        len(run.locator("li", has_text="gold").filter(has=page.locator(".tag.gold")).all())
        for run in page.locator("details.run").all()
    ]
    assert marked == [2, 1]


@pytest.mark.parametrize("short", [False, True])
def test_an_address_opens_the_page_at_its_query(opened: Opened, demo: Path, short: bool) -> None:
    """A regression: the query was opened out of sight, and its short id found nothing."""
    data = json.loads(re.findall(r'id="data">(.*?)</script>', demo.read_text("utf-8"), re.DOTALL)[0])
    ids = [query["id"] for query in data["queries"]]
    first, second = ids[40], ids[60]
    head, dash, rest = first.partition("-")
    opened.open(demo, f"#q={head[:8] + dash + rest if short else first}")
    page = opened.page
    page.locator(".answer").wait_for()
    assert page.locator("details.query[open]").get_attribute("data-id") == first
    seen = "() => { const box = document.querySelector('details.query[open]').getBoundingClientRect();"
    seen += " return box.top >= 0 && box.top < innerHeight / 2; }"
    assert page.evaluate(seen)
    # The page follows its address while it is open.
    page.evaluate("(hash) => { scrollTo(0, 0); location.hash = hash; }", f"q={second}")
    page.locator(f'details.query[open][data-id="{second}"]').wait_for()
    assert page.evaluate(seen)
    assert opened.trouble == []


def test_an_address_that_is_not_well_formed_is_taken_as_words(opened: Opened, two: Path) -> None:
    """A regression: a bad escape ended the script, and the list of queries never appeared."""
    opened.open(two, "#q=100%")
    assert opened.status() == "0 of 45 queries"
    assert opened.page.input_value("#search") == "100%"
    assert opened.trouble == []


def test_an_unresolved_label_is_not_called_a_source_that_is_missing(opened: Opened, tmp_path: Path) -> None:
    keep(tmp_path, "base-1", [Asked((1, 0), unresolved=(1,))])
    opened.open(write(tmp_path / "page.html", tmp_path), "#q=t1")
    rows = opened.page.locator(".answer tbody tr td:first-child")
    assert ["source not in this file" in words for words in rows.all_inner_texts()] == [True, False]


def test_it_can_be_used_with_the_keyboard_alone(opened: Opened, two: Path) -> None:
    opened.open(two)
    page = opened.page
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.className") == "skip"
    page.locator("#k5").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#leaderboard .at:visible h3").inner_text() == "recall@10"
    page.locator("details.query > summary").first.focus()
    page.keyboard.press("Enter")
    page.locator(".answer").first.wait_for()
    names = page.evaluate(
        "() => [...document.querySelectorAll('input, select')].filter((e) => !e.labels.length && !e.ariaLabel).length"
    )
    assert names == 0


def hostile_page(demo_workspace: Path, file: Path) -> Path:
    """The demo's page with every string of strangers replaced by one that would like to be markup."""
    runs = open_runs(demo_workspace, [], None)
    document = survey(runs, Plan(resamples=100))
    browsed = browse(demo_workspace, runs)
    for run in (*document["runs"], *document["comparison"]["runs"]):
        run.update({"name": HOSTILE, "model": HOSTILE, "release": HOSTILE, "filters": {"repos": [HOSTILE]}, "tasks": 1})
        run["model_settings"] = {HOSTILE: HOSTILE}
        run["queries_without_result_by_reason"] = {HOSTILE: 1}
    for group in document["languages"]:
        group["label"] = HOSTILE
    for query in browsed["queries"]:
        query.update(dict.fromkeys(("text", "id", "repo", "language", "revision"), HOSTILE))
    for place in browsed["places"]:
        place[0] = place[1] = HOSTILE
    for source in browsed["sources"]:
        source[0] = HOSTILE
    file.write_text(html(document, browsed), "utf-8")
    return file


def test_strangers_words_are_inert(opened: Opened, demo_workspace: Path, tmp_path: Path) -> None:
    file = hostile_page(demo_workspace, tmp_path / "hostile.html")
    opened.open(file)
    page = opened.page
    assert opened.status() == "79 of 79 queries"
    page.locator("details.query > summary").nth(2).click()
    page.locator("details.source > summary").first.click()
    assert page.locator("img").count() == 0
    assert page.locator("b").count() == 0
    assert page.locator("script").count() == 2
    assert page.title().count("<img") > 0
    asked = opened.asked()[0]
    assert asked.startswith("</script><img src=x onerror=alert(1)><b>bold</b>")
    assert not set(asked) & set("\u2028\u202e\x07")
    assert "</script><img" in page.locator("pre.source").first.inner_text()
    assert (opened.trouble, opened.requests) == ([], [file.as_uri()])


def test_the_data_is_one_json_document_without_markup(demo: Path) -> None:
    text = demo.read_text("utf-8")
    (block,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert not set(block) & set("<>&\u2028\u2029")
    assert len(json.loads(block)["queries"]) == 79


def test_paper_has_the_figures_and_not_the_controls(opened: Opened, demo: Path) -> None:
    opened.open(demo)
    page = opened.page
    page.locator("label[for=k20]").click()
    page.locator("details.query > summary").nth(1).click()
    page.emulate_media(media="print")
    for hidden in ("nav", ".controls", "#status", "#more"):
        assert not page.locator(hidden).is_visible()
    assert page.locator("details.query:visible").count() == 1
    assert page.locator("#leaderboard .at:visible h3").inner_text() == "recall@20"
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    # Two curves side by side, and every figure in one piece with its heading.
    page.set_viewport_size({"width": 690, "height": 1000})
    widths = page.locator("#curves .pair .figure").evaluate_all("(all) => all.map((one) => one.clientWidth)")
    assert [200 < width < 345 for width in widths] == [True, True]
    apart = """() => [...document.querySelectorAll("h3")].filter((h) => h.checkVisibility() && h.nextElementSibling
      ?.querySelector(".figure")).filter((h) => getComputedStyle(h.parentElement).breakInside !== "avoid").length"""
    assert page.evaluate(apart) == 0
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")


@pytest.mark.parametrize("width", [390, 800, 1440])
def test_nothing_is_wider_than_the_screen(opened: Opened, two: Path, width: int) -> None:
    opened.page.set_viewport_size({"width": width, "height": 900})
    opened.open(two)
    opened.page.locator("details.query > summary").first.click()
    opened.page.locator(".answer").first.wait_for()
    assert opened.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_have_enough_contrast(opened: Opened, demo: Path, scheme: str) -> None:
    opened.page.emulate_media(color_scheme=scheme)
    opened.open(demo)
    ratios = opened.page.evaluate(
        """() => {
          const style = getComputedStyle(document.documentElement);
          const light = (name) => {
            const hex = style.getPropertyValue(name).trim();
            const parts = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255)
              .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
            return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
          };
          const ratio = (one, other) => {
            const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
            return (high + 0.05) / (low + 0.05);
          };
          const words = ["--ink", "--soft", "--accent", "--good", "--bad"].map((n) => [n, ratio(n, "--card"), 4.5]);
          const marks = [0, 1, 2, 3, 4, 5, 6, 7].map((i) => [`--s${i}`, ratio(`--s${i}`, "--card"), 3]);
          return [...words, ...marks];
        }"""
    )
    assert [(name, ratio) for name, ratio, least in ratios if ratio < least] == []
