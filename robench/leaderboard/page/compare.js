// Two rows side by side.
const chosen = [];
let compareButton = null;

function choose(index, isChosen) {
  const place = chosen.indexOf(index);
  if (place >= 0) chosen.splice(place, 1);
  if (isChosen) chosen.push(index);
  // A third choice takes the place of the first.
  if (chosen.length > 2) trs[chosen.shift()].querySelector("input").checked = false;
  trs.forEach((tr, each) => tr.classList.toggle("chosen", chosen.includes(each)));
  compareButton.disabled = chosen.length !== 2;
}

// p-value of a pair: of all pairs where there are few rows, else against the best of the column alone.
function pOf(column, first, second) {
  const [low, high] = first < second ? [first, second] : [second, first];
  const pair = column.pairs.find(([a, b]) => a === low && b === high);
  if (pair) return pair[2];
  const cells = [data.rows[first].cells[column.key], data.rows[second].cells[column.key]];
  if (cells[0].is_best) return cells[1].p;
  return cells[1].is_best ? cells[0].p : undefined;
}

function betterOf(difference, column, names) {
  if (!difference) return "equal";
  return (difference > 0) !== column.lower_is_better ? names[0] : names[1];
}

function comparisonLine(column, first, second, names) {
  const cells = [data.rows[first].cells[column.key], data.rows[second].cells[column.key]];
  const isComplete = cells.every((cell) => cell.value !== null);
  const difference = isComplete ? cells[0].value - cells[1].value : null;
  const p = isComplete ? pOf(column, first, second) : undefined;
  return make("tr", p !== undefined && p < 0.05 ? { class: "differs" } : {},
    make("th", { scope: "row" }, columnName(column)),
    ...cells.map((cell) => make("td", {}, cell.text)),
    make("td", {}, isComplete ? differenceText(difference, column) : NONE),
    make("td", {}, isComplete ? betterOf(difference, column, names) : NONE),
    make("td", {}, pText(p)));
}

function showComparison() {
  const [first, second] = [...chosen].sort((a, b) => a - b);
  const names = [first, second].map((index) => rowName(data.rows[index]));
  const head = make("tr", {}, ...["column", ...names, "difference", "better", "p"].map((text) =>
    make("th", { scope: "col" }, text)));
  const columns = data.columns.filter((_, place) => !headers[place + FIRST].hidden);
  const lines = columns.map((column) => comparisonLine(column, first, second, names));
  const words = "Differences are the first model less the second; of proportions in points of per cent. p: exact "
    + "McNemar test on the same examples, two-sided, not corrected for the number of columns; a dash where there is none.";
  openDialog(byId("comparison"), `${names[0]} and ${names[1]}`, make("p", {}, words),
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Comparison" },
      make("table", {}, make("thead", {}, head), make("tbody", {}, ...lines))));
}

function makeRowsChoosable() {
  compareButton = button("Compare two", showComparison, { id: "compare", disabled: true });
  data.rows.forEach((row, index) => {
    const box = make("input", {
      type: "checkbox", "aria-label": `Choose ${rowName(row)} to compare`,
      onchange: (event) => choose(index, event.target.checked),
    });
    trs[index].cells[MODEL].prepend(box);
  });
  return compareButton;
}
