// Which columns are shown.
function showColumn(place, isShown) {
  headers[place].hidden = !isShown;
  for (const tr of trs) tr.cells[place].hidden = !isShown;
}

// Columns that are not of the headline are folded away, and shown by a button.
function makeFolding() {
  const headline = (data.settings && data.settings.headline) || [];
  const folded = data.columns.flatMap((column, index) =>
    headline.length && !headline.includes(column.key) ? [index + FIRST] : []);
  const count = `${folded.length} further column${folded.length === 1 ? "" : "s"}`;
  const show = (isShown) => {
    folded.forEach((place) => showColumn(place, isShown));
    folding.textContent = `${isShown ? "Hide" : "Show"} ${count}`;
    folding.setAttribute("aria-expanded", String(isShown));
  };
  const folding = button("", () => show(folding.getAttribute("aria-expanded") === "false"),
    { id: "further", "aria-controls": "board", hidden: folded.length === 0 });
  show(false);
  return folding;
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
