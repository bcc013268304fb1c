// What is sorted, filtered, unfolded and shown is in the address after #, so that it can be sent.
const keyOf = (place) => place === MODEL || place === RANK || place === flagsPlace ? placeName(place) : columns[place - FIRST].key;
const start = { place: null, descending: false };

function addressWords() {
  const words = new URLSearchParams();
  if (state.place !== start.place || state.descending !== start.descending) {
    words.set("sort", keyOf(state.place));
    words.set("order", state.descending ? "descending" : "ascending");
  }
  if (state.text) words.set("search", state.text);
  for (const facet of FACETS) if (state[facet]) words.set(facet, state[facet]);
  for (const row of models) if (row.isOpen) words.append("open", row.model);
  const visible = shownPlaces();
  if (visible.join() === firstPlaces().join()) return words;
  if (visible.length === columns.length || !visible.length) words.set("columns", visible.length ? "all" : "none");
  else for (const place of visible) words.append("column", keyOf(place));
  return words;
}

function keepAddress() {
  try {
    history.replaceState(null, "", `#${addressWords()}`);
  } catch {
    // Browsers refuse too many changes in a short time; the next one says it all again.
  }
}

// Put the page in the state of its address; words that are not of this page count as absent.
function readAddress() {
  const words = new URLSearchParams(location.hash.slice(1));
  state.text = (words.get("search") || "").trim();
  byId("search").value = state.text;
  for (const facet of FACETS) {
    const select = byId(`filter-${facet}`);
    select.value = words.get(facet) || "";
    if (select.selectedIndex < 0) select.value = "";
    state[facet] = select.value;
  }
  const all = words.get("columns");
  const named = places.filter((place) => all === "all" || words.getAll("column").includes(keyOf(place)));
  showColumns(named.length || all === "none" ? named : firstPlaces());
  for (const row of models) unfold(row, words.getAll("open").includes(row.model));
  const place = words.has("sort") ? headers.findIndex((_, each) => keyOf(each) === words.get("sort")) : -1;
  if (place < 0) sortBy(start.place, start.descending);
  else sortBy(place, words.get("order") === "descending");
  filterRows();
}
