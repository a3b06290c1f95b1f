
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const box = document.getElementById("browser");
  if (!data.queries || !box) return;
  const SIGNS = ["●", "◕", "◑", "◔", "○", "?", "✕", "∅", "–"];
  const PAGE = 20;
  const CLOSE = 10;  // the cutoff at which a run is called better or worse than the baseline on a query
  const unprintable = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
  const plain = (words) => String(words).replace(unprintable, "\ufffd");
  const many = (count, one, several = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : several}`;

  // Text only ever becomes text: nothing here is parsed as markup.
  function element(tag, name, ...inside) {
    const made = document.createElement(tag);
    if (name) made.className = name;
    for (const part of inside) made.append(typeof part === "object" ? part : plain(part));
    return made;
  }
  const find = (name) => document.getElementById(name);
  const controls = ["search", "language", "repository", "run", "outcome", "against", "order"].map(find);
  const [search, language, repository, run, outcome, against, order] = controls;

  function option(select, value, words) {
    const made = element("option", "", words);
    made.value = String(value);
    select.append(made);
  }
  const counted = (values) => {
    const counts = new Map();
    for (const value of values) counts.set(value, (counts.get(value) || 0) + 1);
    return [...counts].sort((one, other) => (one[0] < other[0] ? -1 : 1));
  };
  const found = (query, number) => query.gold.filter((unit) => unit[3][number] && unit[3][number] <= CLOSE).length;
  const gain = (query, number) => found(query, number) - found(query, 0);

  function fill(select, any, entries) {
    const chosen = select.value;
    select.replaceChildren();
    option(select, "", any);
    for (const [value, words] of entries) option(select, value, words);
    select.value = [...select.options].some((entry) => entry.value === chosen) ? chosen : "";
  }
  function fillRepositories() {
    const chosen = data.queries.filter((query) => !language.value || query.language === language.value);
    fill(repository, "all repositories", counted(chosen.map((query) => query.repo)).map(([name, n]) => [name, `${name} (${n})`]));
  }
  function fillOutcomes() {
    const counts = new Map(counted(data.queries.map((query) => query.outcomes[Number(run.value)])));
    const entries = data.outcomes.map((words, number) => [number, `${SIGNS[number]} ${words} (${counts.get(number) || 0})`]);
    fill(outcome, "all outcomes", entries.filter((_, number) => counts.get(number)));
  }

  const haystacks = new Map();
  function haystack(query) {
    if (!haystacks.has(query)) {
      const gold = query.gold.map((unit) => data.places[unit[0]].slice(0, 2).join(" "));
      haystacks.set(query, [query.id, query.repo, query.text, ...gold].join("\n").toLowerCase());
    }
    return haystacks.get(query);
  }
  function wanted(query, words, number) {
    if (language.value && query.language !== language.value) return false;
    if (repository.value && query.repo !== repository.value) return false;
    if (outcome.value && query.outcomes[number] !== Number(outcome.value)) return false;
    if (against.value === "better" && gain(query, number) <= 0) return false;
    if (against.value === "worse" && gain(query, number) >= 0) return false;
    return words.every((word) => haystack(query).includes(word));
  }

  let chosen = [];
  let shown = 0;
  const list = find("queries");
  const more = find("more");
  function update() {
    const number = Number(run.value);
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    chosen = data.queries.filter((query) => wanted(query, words, number));
    if (order.value === "worst") chosen.sort((one, other) => other.outcomes[number] - one.outcomes[number]);
    if (order.value === "gain") chosen.sort((one, other) => gain(other, number) - gain(one, number));
    if (order.value === "loss") chosen.sort((one, other) => gain(one, number) - gain(other, number));
    find("status").textContent = `${chosen.length.toLocaleString("en")} of ${many(data.queries.length, "query", "queries")}`;
    list.replaceChildren();
    shown = 0;
    extend();
  }
  function extend() {
    const number = Number(run.value);
    for (const query of chosen.slice(shown, shown + PAGE)) list.append(element("li", "", entry(query, number)));
    shown = Math.min(shown + PAGE, chosen.length);
    more.hidden = shown >= chosen.length;
    more.textContent = `Show more (${(chosen.length - shown).toLocaleString("en")} left)`;
  }

  const rankWords = (unit, number) => (!unit[2] ? "unresolved" : unit[3][number] ? `rank ${unit[3][number]}` : "never found");
  function entry(query, number) {
    const code = query.outcomes[number];
    const sign = element("span", "sign", SIGNS[code]);
    sign.title = data.outcomes[code];
    const ranks = query.gold.map((unit) => rankWords(unit, number)).join(", ");
    const meta = `${data.languages[query.language] || query.language} · ${query.repo} · ${many(query.gold.length, "gold unit")}: ${ranks || "none"}`;
    const summary = element("summary", "", sign, element("span", "asked", query.text), element("span", "meta", meta));
    const details = element("details", "query", summary);
    details.dataset.id = query.id;
    details.addEventListener("toggle", () => {
      if (details.open && !details.querySelector(".answer")) details.append(answer(query, number));
    });
    return details;
  }
  function answer(query, number) {
    const chunks = query.chunks.every((count) => count === query.chunks[0]) ? [query.chunks[0]] : query.chunks;
    const facts = element("p", "note", `${query.id} · revision ${query.revision} · corpus of ${chunks.join(" / ")} chunks`);
    const made = element("div", "answer", facts, goldTable(query));
    data.runs.forEach((name, i) => made.append(runHits(query, i, name, i === number || data.runs.length <= 2)));
    return made;
  }
  function goldTable(query) {
    const head = element("tr", "", element("th", "word", "gold unit"), ...data.runs.map((name) => element("th", "", name)));
    const rows = query.gold.map(([place, essential, resolved, ranks]) => {
      const tag = element("span", "tag", essential ? "ESSENTIAL" : "RELATED");
      // An unresolved label has no chunk, so that no source could be had.
      const cell = element("td", "word", resolved ? located(place, tag) : element("span", "", placeOf(place), tag));
      const cells = ranks.map((rank) => element("td", rank ? "" : "missed", rank ? String(rank) : resolved ? "never found" : "unresolved"));
      return element("tr", "", cell, ...cells);
    });
    const table = element("table", "", element("thead", "", head), element("tbody", "", ...rows));
    const scroll = element("div", "scroll", table);
    scroll.tabIndex = 0;
    return scroll;
  }
  function runHits(query, number, name, open) {
    const hits = query.hits[number];
    const ranks = new Set(query.gold.map((unit) => unit[3][number]));
    const summary = element("summary", "", `${name}: ${data.outcomes[query.outcomes[number]]}`);
    const items = hits.map((place, i) => {
      const tags = ranks.has(i + 1) ? [element("span", "tag gold", "★ gold")] : [];
      return element("li", "", element("span", "rank", String(i + 1)), located(place, ...tags));
    });
    const details = element("details", "run", summary, hits.length ? element("ol", "hits", ...items) : element("p", "note", "no result"));
    details.open = open;
    return details;
  }
  function placeOf(number) {
    const [path, name, start, end] = data.places[number];
    return element("span", "place", start ? `${path}:${start}-${end} ${name}` : path);
  }
  function located(number, ...tags) {
    const [, , start, , source] = data.places[number];
    const words = placeOf(number);
    if (source < 0) return element("span", "", words, ...tags, element("span", "tag", "source not in this file"));
    const details = element("details", "source", element("summary", "", words, ...tags));
    details.addEventListener("toggle", () => {
      if (details.open && !details.querySelector("pre")) details.append(sourceOf(source, start));
    });
    return details;
  }
  function sourceOf(number, start) {
    const [text, cut] = data.sources[number];
    const lines = text.split("\n");
    const width = String(start + lines.length).length;
    const made = element("pre", "source");
    lines.forEach((line, i) => made.append(element("span", "number", `${String(start + i).padStart(width)}  `), plain(line) + "\n"));
    if (cut) made.append(element("span", "number", `… ${many(cut, "more line")} in the repository`));
    made.tabIndex = 0;
    return made;
  }

  fill(language, "all languages", counted(data.queries.map((query) => query.language)).map(([id, n]) => [id, `${data.languages[id] || id} (${n})`]));
  data.runs.forEach((name, number) => option(run, number, name));
  run.value = String(data.first);
  fillRepositories();
  fillOutcomes();
  for (const control of controls) {
    control.addEventListener(control === search ? "input" : "change", () => {
      if (control === language) fillRepositories();
      if (control === run) fillOutcomes();
      update();
    });
  }
  function clear() {
    for (const control of controls) if (control !== run) control.value = control === order ? "order" : "";
    fillRepositories();
  }
  find("reset").addEventListener("click", () => {
    clear();
    update();
    search.focus();
  });
  more.addEventListener("click", () => {
    const next = shown;
    extend();
    list.children[next]?.querySelector("summary").focus();
  });

  // An address names a query as `quarry show` does: whole, as it begins, or with its commit cut short.
  function meant(words) {
    const dash = words.indexOf("-");
    const [head, rest] = dash > 0 ? [words.slice(0, dash), words.slice(dash)] : [words, ""];
    const short = (id) => id.startsWith(words) || (rest.length > 1 && id.startsWith(head) && id.endsWith(rest));
    const alike = data.queries.filter((query) => short(query.id));
    return alike.find((query) => query.id === words) || (alike.length === 1 ? alike[0] : null);
  }
  function decoded(words) {
    try {
      return decodeURIComponent(words);
    } catch {
      return words;  // a "%" that is no escape stands for itself
    }
  }
  function visit() {
    const named = /^#q=(.+)$/.exec(location.hash);
    if (!named) return;
    const words = decoded(named[1]);
    const query = meant(words);
    clear();
    search.value = query ? query.id : words;
    update();
    const entries = [...list.querySelectorAll("details.query")];
    const entry = query ? entries.find((one) => one.dataset.id === query.id) : entries.length === 1 ? entries[0] : null;
    if (entry) entry.open = true;
    (entry || box).scrollIntoView();
  }
  addEventListener("hashchange", visit);
  if (data.runs.length === 1) for (const control of [run, against]) control.closest("div").hidden = true;
  box.hidden = false;
  update();
  visit();
})();
