// Which columns are shown.
const places = columns.map((_, index) => index + FIRST);
const headline = (content.settings && content.settings.headline) || [];
// Columns that are not of the headline are folded away, and shown by a button.
const foldedPlaces = places.filter((place) => headline.length && !headline.includes(columns[place - FIRST].key));
const shownPlaces = () => places.filter((place) => !headers[place].hidden);
let folding = null;

function showColumns(wanted) {
  const rows = models.flatMap((row) => row.isOpen ? [row, ...row.below] : [row]);
  for (const place of places) {
    const isHidden = !wanted.includes(place);
    if (headers[place].hidden === isHidden) continue;
    headers[place].hidden = isHidden;
    for (const row of rows) row.tr.cells[place].hidden = isHidden;
  }
  for (const { head, start, stop } of suiteHeads) {
    const count = headers.slice(start, stop).filter((header) => !header.hidden).length;
    head.hidden = !count;
    head.colSpan = count || 1;
  }
  const isFolded = foldedPlaces.some((place) => headers[place].hidden);
  const count = `${foldedPlaces.length} further column${foldedPlaces.length === 1 ? "" : "s"}`;
  folding.textContent = `${isFolded ? "Show" : "Hide"} ${count}`;
  folding.setAttribute("aria-expanded", String(!isFolded));
}

const firstPlaces = () => places.filter((place) => !foldedPlaces.includes(place));

function makeFolding() {
  folding = button("", () => {
    const isFolded = folding.getAttribute("aria-expanded") === "false";
    showColumns(isFolded ? [...shownPlaces(), ...foldedPlaces] : shownPlaces().filter((place) => !foldedPlaces.includes(place)));
    keepAddress();
  }, { id: "further", "aria-controls": "board", hidden: foldedPlaces.length === 0 });
  showColumns(firstPlaces());
  return folding;
}

function chooserBox(column, index) {
  const place = index + FIRST;
  const box = make("input", { type: "checkbox", checked: !headers[place].hidden, onchange: (event) => {
    showColumns(event.target.checked ? [...shownPlaces(), place] : shownPlaces().filter((each) => each !== place));
    keepAddress();
  } });
  return make("li", {}, make("label", {}, box, ` ${columnName(column)}`));
}

function showChooser() {
  const list = make("ul", { class: "chooser" }, ...columns.map(chooserBox));
  const setAll = (isShown) => () => {
    showColumns(isShown ? places : []);
    list.querySelectorAll("input").forEach((box) => { box.checked = isShown; });
    keepAddress();
  };
  openDialog(byId("chooser"), "Columns",
    make("p", {}, button("All", setAll(true)), " ", button("None", setAll(false))), list);
}
