// Filters of examples.
const articles = [...document.querySelectorAll("article")];
const hasVerdicts = data.examples.some((example) => example.right.some((right) => right !== null));
const wanted = { by: "", not: "", clean: "", text: "" };
const hasDrops = data.examples.some((example) => example.drops.some((drop) => drop !== null));

function isWanted(example) {
  if (wanted.by === "any" && !example.fooled.includes(true)) return false;
  if (wanted.by === "none" && example.fooled.includes(true)) return false;
  if (Number.isInteger(wanted.by) && example.fooled[wanted.by] !== true) return false;
  if (Number.isInteger(wanted.not) && example.fooled[wanted.not] !== false) return false;
  if (wanted.clean === "right" && example.right.includes(false)) return false;
  if (wanted.clean === "wrong" && !example.right.includes(false)) return false;
  return wanted.text.split(/\s+/).every((word) => example.words.includes(word));
}

function filterExamples() {
  let count = 0;
  data.examples.forEach((example, place) => {
    articles[place].hidden = !isWanted(example);
    count += !articles[place].hidden;
  });
  byId("status").textContent = `${count} of ${data.examples.length} examples`;
}

// Articles keep their places in `data`; the page shows those first from which an attempt took the most right pixels.
function sortExamples() {
  const order = articles.map((article, place) => place);
  if (Number.isInteger(wanted.sort)) {
    const drop = (place) => data.examples[place].drops[wanted.sort] ?? -Infinity;
    order.sort((one, other) => drop(other) - drop(one));
  }
  byId("examples").append(...order.map((place) => articles[place]));
}

function choice(id, title, first, options) {
  const select = make("select", { id, onchange: () => {
    wanted[id] = /^\d+$/.test(select.value) ? Number(select.value) : select.value;
    sortExamples();
    filterExamples();
  } }, make("option", { value: "" }, first), ...options.map(([value, text]) => make("option", { value }, shown(text, 80))));
  return make("label", {}, title, select);
}

function startView() {
  const attempts = data.attempts.map((name, place) => [String(place), name]);
  const search = make("input", { type: "search", id: "search", placeholder: "id or class", oninput: () => {
    wanted.text = search.value.toLowerCase().trim();
    filterExamples();
  } });
  byId("tools").append(...(hasVerdicts ? [
    choice("by", "Fooled by", "all", [["any", "at least one"], ["none", "none"], ...attempts]),
    choice("not", "but not by", "—", attempts),
    choice("clean", "Clean", "all", [["right", "right by all models"], ["wrong", "wrong by some model"]]),
  ] : []), ...(hasDrops ? [
    choice("sort", "Sorted by", "largest drop", data.attempts.map((name, place) => [String(place), `drop under ${name}`])),
  ] : []), make("label", {}, "Search", search), themeSwitch());
  byId("tools").hidden = false;
  filterExamples();
}

startView();
