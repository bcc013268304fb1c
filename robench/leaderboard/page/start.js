// Everything put in place.
function start() {
  makeHeadersSortable();
  makeCellsOpening();
  const compare = makeRowsChoosable();
  byId("tools").append(searchField(), ...FACETS.map(facetSelect),
    button("Columns", showChooser, { id: "columns" }), makeFolding(), compare,
    themeSwitch());
  byId("tools").hidden = false;
  makeMore();
  showPortion();
  const place = sorted ? data.columns.findIndex((column) => column.key === sorted) : -1;
  if (place < 0) showStatus();
  else sortBy(place + FIRST, firstDescending(place + FIRST) !== data.settings.is_worst_first);
}

start();
