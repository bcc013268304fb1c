// The table: heads in two levels, a row a model in its group, and the rows of its training seeds when they are unfolded.
const MODEL = 0;
// Place of the rank, and of the first number; then perhaps the flags.
const RANK = sorted ? 1 : -1;
const FIRST = sorted ? 2 : 1;
// The table of texts that this one replaces has a last column beside the numbers where any model was checked.
const plain = byId("board").querySelector("table");
const flagTexts = [...plain.tBodies[0].rows].filter((tr) => tr.cells.length > 1).map((tr) => tr.lastElementChild.textContent);
const groups = [...new Set(models.map((row) => row.group))];
const flagsPlace = plain.tHead.rows[0].cells.length > columns.length + FIRST ? columns.length + FIRST : -1;
const headers = [];
// Heads of suites, each with its range of places.
const suiteHeads = [];

function headOf(place, text, attributes = {}) {
  headers[place] = make("th", { scope: "col", "aria-sort": "none", "data-place": place, ...attributes },
    make("button", { type: "button", class: "sort", onclick: () => sortAgain(place) }, ...text));
  return headers[place];
}

// Condition and metric of a column, which its suite is above.
function columnHead(column, place) {
  const label = column.suite ? column.label.replace(`${column.suite}: `, "") : column.label;
  const isApart = label.endsWith(` ${column.title}`);
  const text = isApart ? [shown(label.slice(0, -column.title.length - 1), 80), " ",
    make("span", { class: "metric" }, shown(column.title, 80))] : [shown(label, 80)];
  return headOf(place, text);
}

function heads() {
  const whole = { rowspan: "2" };
  const first = make("tr", {}, headOf(MODEL, ["model"], { ...whole, class: "name" }),
    RANK < 0 ? null : headOf(RANK, ["rank"], { ...whole, class: "rank" }));
  const second = make("tr");
  columns.forEach((column, index) => {
    const last = suiteHeads[suiteHeads.length - 1];
    if (last && last.suite === column.suite) last.stop += 1;
    else {
      const head = make("th", { scope: "colgroup" }, make("span", { class: "suite" }, shown(column.suite || "costs", 80)));
      suiteHeads.push({ suite: column.suite, head, start: index + FIRST, stop: index + FIRST + 1 });
      first.append(head);
    }
    second.append(columnHead(column, index + FIRST));
  });
  if (flagsPlace >= 0) first.append(headOf(flagsPlace, ["flags"], whole));
  return make("thead", {}, first, second);
}

// The right end of a column's bars: 1 of proportions, else the largest number there is.
const largest = new Map(columns.map((column) => {
  const cells = [...models, ...checkpoints.values()].map((row) => row.cells[column.key]);
  const numbers = cells.flatMap((cell) => [cell.value, cell.high]).filter((each) => each !== null);
  return [column, Math.max(column.unit === "share" ? 1 : 0, ...numbers)];
}));

// A number with its interval as a small bar, and numbers of single training seeds as points.
function barOf(cell, column) {
  const end = largest.get(column);
  if (!end) return null;
  const at = (number) => (100 * Math.min(1, Math.max(0, number / end))).toFixed(1);
  const value = cell.is_infinite ? end : cell.value;
  const line = `M${at(cell.low === null ? value : cell.low)} 4H${at(cell.high === null ? value : cell.high)}M${at(value)} 0V8`;
  const points = (cell.of_seeds || []).map((seed) => `M${at(seed === null ? end : seed)} 4h0`).join("");
  const bar = byId("bar").cloneNode(true);
  bar.removeAttribute("id");
  bar.removeAttribute("hidden");
  bar.lastElementChild.setAttribute("d", line);
  if (points) bar.firstElementChild.setAttribute("d", points);
  else bar.firstElementChild.remove();
  return bar;
}

// Mean, deviation, interval, and the number of seeds where they are not all.
const NUMBER = /^(\S+)( ± \S+)?( \[.*?\])?( \(.*\))?$/;

function markOf(cell) {
  const how = cell.p === undefined ? "" : `, p = ${pText(cell.p_corrected)} by ${cell.test}, corrected`;
  return make("sup", { title: `not distinguishable from the best${how}` }, "†");
}

function numberCell(row, column) {
  const cell = row.cells[column.key];
  const open = (...children) => make("button", { type: "button", class: "open", title: "provenance",
    onclick: () => showNumber(row, column) }, ...children);
  const found = cell.value === null && !cell.is_infinite ? null : NUMBER.exec(cell.text);
  if (!found) return make("td", { class: "missing" }, open(cell.text));
  const parts = ["deviation", "interval", "count"].map((name, place) =>
    found[place + 2] ? make("span", { class: name }, found[place + 2]) : null);
  return make("td", { class: [cell.is_best ? "best" : "", cell.is_close ? "close" : ""].join(" ").trim() },
    open(found[1], cell.is_close ? markOf(cell) : null, ...parts, barOf(cell, column)));
}

function flagsCell(row, text) {
  const isRaised = (row.flags || []).some((flag) => flag.is_raised);
  return make("td", { class: isRaised ? "flags raised" : "flags" },
    make("button", { type: "button", class: "open", title: "flags in words", onclick: () => showModel(row) }, text));
}

// What a model's numbers are restricted to, but for its training seeds.
function scopeText(row) {
  const examples = [row.limit ? `first ${row.limit}` : "", row.all_examples ? "all examples" : ""].filter(Boolean).join(" of ");
  return [row.precision, examples, row.batch_size ? `batch size ${row.batch_size}` : ""].filter(Boolean).join(", ");
}

// Name of a model, beside the box to compare it, above its seeds and its mechanism.
function headCell(row, below) {
  const box = make("input", { type: "checkbox", "aria-label": `Choose ${rowName(row)} to compare`,
    checked: chosen.includes(row), onchange: (event) => choose(row, event.target.checked) });
  const name = make("span", { class: "model" }, make("button", { type: "button", class: "open", title: "about the model",
    onclick: () => showModel(row) }, shown(row.model, 80)));
  const scope = scopeText(row);
  return make("th", { scope: "row", class: "name" }, make("div", { class: "head" }, box, make("div", { class: "who" }, name, ...below,
    scope ? make("span", { class: "about" }, scope) : null)));
}

function rowOf(row, head, rank, flags) {
  row.tr = make("tr", {}, head, RANK < 0 ? null : rank, ...columns.map((column) => numberCell(row, column)),
    flagsPlace < 0 ? null : flagsCell(row, flags));
  [...row.tr.cells].forEach((cell, place) => { cell.hidden = headers[place].hidden; });
  return row.tr;
}

const hasSeeds = models.some((row) => row.seeds);

function modelRow(row, index) {
  const seeds = row.seeds ? `${row.seeds.length} seeds` : hasSeeds ? "one checkpoint" : "";
  const unfolding = row.below.length ? button(seeds, () => { unfold(row, !row.isOpen); keepAddress(); },
    { class: "unfold", "aria-expanded": "false" }) : seeds ? make("span", { class: "about" }, seeds) : null;
  const mechanism = row.entry ? make("span", { class: "about" }, shown(row.entry.attention, 80)) : null;
  const title = shown(row.unranked || "");
  const rank = make("td", { class: "rank", title }, row.rank === undefined ? NONE : String(row.rank));
  return rowOf(row, headCell(row, [mechanism, unfolding]), rank, flagTexts[index]);
}

function seedRow(seed) {
  const raised = (seed.flags || []).filter((flag) => flag.is_raised).length;
  const flags = seed.flags ? raised ? `${raised} raised` : "none" : NONE;
  rowOf(seed, headCell(seed, []), make("td", { class: "rank" }), flags);
  seed.tr.classList.add("seed");
  return seed.tr;
}

// Show the rows of a model's training seeds below it, or take them away.
function unfold(row, isOpen) {
  if (!row.below.length || Boolean(row.isOpen) === isOpen) return;
  row.isOpen = isOpen;
  row.tr.querySelector(".unfold").setAttribute("aria-expanded", String(isOpen));
  if (isOpen) row.tr.after(...row.below.map(seedRow));
  for (const seed of isOpen ? [] : row.below) {
    choose(seed, false);
    seed.tr.remove();
  }
  showPortion();
}

function groupBody(group) {
  const body = make("tbody");
  const members = models.filter((row) => row.group === group);
  if (groups.length > 1) {
    const text = `${shown(group || "", 80)}: ${members.length} model${members.length === 1 ? "" : "s"}`;
    const width = String(columns.length + FIRST + (flagsPlace >= 0));
    body.append(make("tr", { class: "group" }, make("th", { scope: "rowgroup", colspan: width }, make("span", {}, text))));
  }
  for (const row of members) body.append(modelRow(row, models.indexOf(row)));
  return body;
}

function buildTable() {
  const table = make("table", {}, plain.caption, heads());
  table.append(...groups.map(groupBody));
  if (models.length) byId("board").replaceChildren(table);
}
