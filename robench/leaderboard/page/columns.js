// Which columns are shown.
function showColumn(place, isShown) {
  headers[place].hidden = !isShown;
  for (const tr of trs) tr.cells[place].hidden = !isShown;
}

function chooserBox(column, index) {
  const place = index + FIRST;
  const box = make("input", { type: "checkbox", checked: !headers[place].hidden,
    onchange: (event) => showColumn(place, event.target.checked) });
  return make("li", {}, make("label", {}, box, ` ${columnName(column)}`));
}

function showChooser() {
  const list = make("ul", { class: "chooser" }, ...data.columns.map(chooserBox));
  const setAll = (isShown) => () => {
    data.columns.forEach((_, index) => showColumn(index + FIRST, isShown));
    list.querySelectorAll("input").forEach((box) => { box.checked = isShown; });
  };
  openDialog(byId("chooser"), "Columns",
    make("p", {}, button("All", setAll(true)), " ", button("None", setAll(false))), list);
}
