// Sorting, filters and search.
const MODEL = 0;
const sorted = data.settings && data.settings.sort;
// Place of the rank, and of the first number.
const RANK = sorted ? 1 : -1;
const FIRST = sorted ? 2 : 1;
const headers = [...board.tHead.rows[0].cells];
// The last column, where there is one beside the numbers.
const flagsPlace = headers.length > data.columns.length + FIRST ? data.columns.length + FIRST : -1;
// Rows that are laid out at first, and more whenever the end comes into view: sorting costs as much as is laid out.
const PORTION = 25;
const state = { place: null, descending: false, text: "", family: "", attention: "", architecture: "",
  order: data.rows.map((_, index) => index), portion: PORTION };
const FACETS = ["family", "attention", "architecture"];

function sortValue(row, place) {
  if (place === MODEL) return row.model;
  if (place === RANK) return row.rank === undefined ? null : row.rank;
  if (place === flagsPlace) return row.flags ? row.flags.filter((flag) => flag.is_raised).length : null;
  const cell = row.cells[data.columns[place - FIRST].key];
  return cell.is_infinite ? Infinity : cell.value;
}

function compareValues(first, second) {
  if (typeof first === "string") return first.localeCompare(second, "en", { numeric: true });
  return first - second || 0;
}

// Places of all rows in the order of a column; what is missing comes last in either direction, ties keep their order.
function sortedPlaces(place, descending) {
  const places = data.rows.map((_, index) => index);
  if (place === null) return places;
  const values = data.rows.map((row) => sortValue(row, place));
  const sign = descending ? -1 : 1;
  return places.sort((a, b) => {
    if (values[a] === null || values[b] === null) return (values[a] === null) - (values[b] === null) || a - b;
    const order = values[a] === values[b] ? 0 : sign * compareValues(values[a], values[b]);
    return order || a - b;
  });
}

function firstDescending(place) {
  if (place === MODEL || place === RANK) return false;
  return place === flagsPlace || !data.columns[place - FIRST].lower_is_better;
}

function sortAgain(place) {
  sortBy(place, state.place === place ? !state.descending : firstDescending(place));
}

function sortBy(place, descending) {
  Object.assign(state, { place, descending });
  headers.forEach((header, each) => {
    const order = each === place ? (state.descending ? "descending" : "ascending") : "none";
    header.setAttribute("aria-sort", order);
  });
  // One change of the page for all rows.
  const fragment = document.createDocumentFragment();
  state.order = sortedPlaces(place, state.descending);
  state.portion = PORTION;
  for (const index of state.order) fragment.append(trs[index]);
  showPortion();
  showGroup();
  body.append(fragment);
  showStatus();
}

function isWanted(row) {
  const entry = row.entry || {};
  const words = [row.model, ...FACETS.map((facet) => entry[facet] || "")].join(" ").toLowerCase();
  return FACETS.every((facet) => !state[facet] || entry[facet] === state[facet])
    && state.text.split(/\s+/).every((word) => words.includes(word));
}

// Leave rows after the first portion of those that are wanted for later.
function showPortion() {
  let place = 0;
  for (const index of state.order) trs[index].classList.toggle("later", !trs[index].hidden && place++ >= state.portion);
  byId("more").hidden = place <= state.portion;
}

function showMore() {
  state.portion += PORTION;
  showPortion();
}

function makeMore() {
  const more = make("p", { id: "more", hidden: true }, button("Show more rows", showMore));
  board.after(more);
  new IntersectionObserver((entries) => { if (entries.some((entry) => entry.isIntersecting)) showMore(); },
    { root: board.parentElement, rootMargin: "200px" }).observe(more);
}

function filterRows() {
  data.rows.forEach((row, index) => { trs[index].hidden = !isWanted(row); });
  state.portion = PORTION;
  showPortion();
  showStatus();
}

// Mark the rows that are not distinguishable from the best of the column that is sorted by.
function showGroup() {
  const column = data.columns[state.place - FIRST];
  data.rows.forEach((row, index) => {
    const cell = column && row.cells[column.key];
    trs[index].classList.toggle("in-group", Boolean(cell && cell.is_close));
  });
}

function groupText() {
  const column = data.columns[state.place - FIRST];
  if (!column) return "";
  const cells = data.rows.map((row) => [row, row.cells[column.key]]);
  const best = cells.find(([, cell]) => cell.is_best);
  if (!best) return "";
  const close = cells.filter(([, cell]) => cell.is_close && !cell.is_best).map(([row]) => rowName(row));
  const tested = cells.filter(([, cell]) => cell.p !== undefined).length;
  if (!tested) return ` No test in this column.`;
  const names = close.length ? close.join(", ") : "none of the others";
  return ` Not distinguishable from the best, ${rowName(best[0])}, at 5 % (${data.test}): ${names}`
    + `; ${tested - close.length} of the ${tested} tested are distinguishable.`;
}

function showStatus() {
  const wanted = trs.filter((tr) => !tr.hidden).length;
  const column = state.place === null ? null : headers[state.place].textContent;
  const order = column === null ? "" : `, sorted by ${column}, ${state.descending ? "largest" : "smallest"} first`;
  byId("status").textContent = `${wanted} of ${data.rows.length} models${order}.${groupText()}`;
}

function facetSelect(facet) {
  const values = [...new Set(data.rows.map((row) => (row.entry || {})[facet] || ""))].filter(Boolean).sort();
  const options = values.map((value) => make("option", { value }, shown(value, 60)));
  const select = make("select", { id: `filter-${facet}`, onchange: (event) => {
    state[facet] = event.target.value;
    filterRows();
  } }, make("option", { value: "" }, "all"), ...options);
  return make("label", {}, `${facet} `, select);
}

function searchField() {
  const field = make("input", { type: "search", id: "search", autocomplete: "off", oninput: (event) => {
    state.text = event.target.value.trim().toLowerCase();
    filterRows();
  } });
  return make("label", {}, "search ", field);
}

function makeHeadersSortable() {
  headers.forEach((header, place) => {
    const text = header.textContent;
    header.setAttribute("aria-sort", "none");
    header.replaceChildren(button(text, () => sortAgain(place), { class: "sort" }));
  });
}
