// Everything put in place.
function begin() {
  buildTable();
  const place = sorted ? columns.findIndex((column) => column.key === sorted) : -1;
  if (place >= 0) {
    start.place = place + FIRST;
    start.descending = firstDescending(place + FIRST) !== content.settings.is_worst_first;
  }
  compareButton = button("Compare two", showComparison, { id: "compare", disabled: true });
  byId("tools").append(searchField(), ...FACETS.map(facetSelect),
    button("Columns", showChooser, { id: "columns" }), makeFolding(), compareButton, themeSwitch());
  byId("tools").hidden = false;
  makeMore();
  readAddress();
  addEventListener("hashchange", readAddress);
}

if (models.length) begin();
