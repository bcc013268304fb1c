// Sorting, filters and search.
// Rows that are laid out at first, and more whenever the end comes into view: sorting costs as much as is laid out.
const PORTION = 25;
const FACETS = ["family", "attention", "architecture"];
const state = { place: null, descending: false, text: "", family: "", attention: "", architecture: "",
  order: [...models], portion: PORTION };

function sortValue(row, place) {
  if (place === MODEL) return row.model;
  if (place === RANK) return row.rank === undefined ? null : row.rank;
  if (place === flagsPlace) return row.flags ? row.flags.filter((flag) => flag.is_raised).length : null;
  const cell = row.cells[columns[place - FIRST].key];
  return cell.is_infinite ? Infinity : cell.value;
}

function compareValues(first, second) {
  if (typeof first === "string") return first.localeCompare(second, "en", { numeric: true });
  return first - second || 0;
}

// Rows in the order of a column, by group; what is missing comes last in either direction, ties keep their order.
function sortedRows(place, descending) {
  const values = new Map(models.map((row) => [row, place === null ? 0 : sortValue(row, place)]));
  const sign = descending ? -1 : 1;
  const compare = (a, b) => {
    const [one, other] = [values.get(a), values.get(b)];
    if (one === null || other === null) return (one === null) - (other === null);
    return one === other ? 0 : sign * compareValues(one, other);
  };
  return groups.flatMap((group) => models.filter((row) => row.group === group).sort(compare));
}

function firstDescending(place) {
  if (place === MODEL || place === RANK) return false;
  return place === flagsPlace || !columns[place - FIRST].lower_is_better;
}

function sortAgain(place) {
  sortBy(place, state.place === place ? !state.descending : firstDescending(place));
  keepAddress();
}

function sortBy(place, descending) {
  Object.assign(state, { place, descending });
  headers.forEach((header, each) => {
    const order = each === place ? (descending ? "descending" : "ascending") : "none";
    header.setAttribute("aria-sort", order);
  });
  state.order = sortedRows(place, descending);
  state.portion = PORTION;
  showPortion();
  showGroup();
  // One change of the page for all rows of a group.
  for (const group of groups) {
    const members = state.order.filter((row) => row.group === group);
    const trs = members.flatMap((row) => [row.tr, ...(row.isOpen ? row.below.map((seed) => seed.tr) : [])]);
    members[0].tr.parentElement.append(...trs);
  }
  showStatus();
}

function isWanted(row) {
  const entry = row.entry || {};
  const words = [row.model, ...FACETS.map((facet) => entry[facet] || "")].join(" ").toLowerCase();
  return FACETS.every((facet) => !state[facet] || entry[facet] === state[facet])
    && state.text.toLowerCase().split(/\s+/).every((word) => words.includes(word));
}

// Leave rows after the first portion of those that are wanted for later; seeds go with their model.
function showPortion() {
  let place = 0;
  for (const row of state.order) {
    const isLater = !row.tr.hidden && place++ >= state.portion;
    for (const each of row.isOpen ? [row, ...row.below] : [row]) {
      each.tr.hidden = row.tr.hidden;
      each.tr.classList.toggle("later", isLater);
    }
  }
  for (const heading of byId("board").querySelectorAll("tr.group")) {
    heading.hidden = ![...heading.parentElement.rows].some((tr) => tr !== heading && !tr.hidden);
  }
  byId("more").hidden = place <= state.portion;
}

function showMore() {
  state.portion += PORTION;
  showPortion();
}

function makeMore() {
  const more = make("p", { id: "more", hidden: true }, button("Show more rows", showMore));
  byId("board").after(more);
  new IntersectionObserver((entries) => { if (entries.some((entry) => entry.isIntersecting)) showMore(); },
    { root: more.parentElement, rootMargin: "200px" }).observe(more);
}

function filterRows() {
  for (const row of models) row.tr.hidden = !isWanted(row);
  state.portion = PORTION;
  showPortion();
  showStatus();
}

// Mark the rows that are not distinguishable from the best of the column that is sorted by.
function showGroup() {
  const column = columns[state.place - FIRST];
  for (const row of models) row.tr.classList.toggle("in-group", Boolean(column && row.cells[column.key].is_close));
}

function groupText(column, group) {
  const cells = models.filter((row) => row.group === group).map((row) => [row, row.cells[column.key]]);
  const best = cells.find(([, cell]) => cell.is_best);
  if (!best) return "";
  const tested = cells.filter(([, cell]) => cell.p !== undefined);
  const of = groups.length > 1 ? ` of ${shown(group, 80)}` : "";
  const name = shown(best[0].model, 80);
  if (!tested.length) return ` Best${of}: ${name}, with no test in this column.`;
  const close = tested.filter(([, cell]) => cell.is_close).length;
  return ` Best${of}: ${name}, from which ${close} of the ${tested.length} tested are not distinguishable at 5 %.`;
}

function placeName(place) {
  if (place === MODEL) return "model";
  return place === RANK ? "rank" : place === flagsPlace ? "flags" : columnName(columns[place - FIRST]);
}

function showStatus() {
  const wanted = models.filter((row) => !row.tr.hidden).length;
  const order = state.place === null ? ""
    : `, sorted by ${placeName(state.place)}, ${state.descending ? "largest" : "smallest"} first`;
  const column = columns[state.place - FIRST];
  const best = column ? groups.map((group) => groupText(column, group)).join("") : "";
  byId("status").textContent = `${wanted} of ${models.length} models${order}.${best}`;
}

function facetSelect(facet) {
  const values = [...new Set(models.map((row) => (row.entry || {})[facet] || ""))].filter(Boolean).sort();
  const options = values.map((value) => make("option", { value }, shown(value, 60)));
  const select = make("select", { id: `filter-${facet}`, onchange: (event) => {
    state[facet] = event.target.value;
    filterRows();
    keepAddress();
  } }, make("option", { value: "" }, "all"), ...options);
  return make("label", {}, `${facet} `, select);
}

function searchField() {
  const field = make("input", { type: "search", id: "search", autocomplete: "off", oninput: (event) => {
    state.text = event.target.value.trim();
    filterRows();
    keepAddress();
  } });
  return make("label", {}, "search ", field);
}
