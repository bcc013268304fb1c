// Two rows side by side.
const chosen = [];
let compareButton = null;

function choose(row, isChosen) {
  const place = chosen.indexOf(row);
  if (place >= 0) chosen.splice(place, 1);
  if (isChosen) chosen.push(row);
  const gone = place >= 0 && !isChosen ? [row] : [];
  // A third choice takes the place of the first.
  if (chosen.length > 2) gone.push(chosen.shift());
  for (const each of gone) each.tr.querySelector("input").checked = false;
  for (const each of [...gone, ...chosen]) each.tr.classList.toggle("chosen", chosen.includes(each));
  compareButton.disabled = chosen.length !== 2;
}

// Test of a pair, corrected for the columns of its suite: of all pairs where there are few rows, else against the best
// of the column alone; single training seeds are not tested where models are.
function testOf(column, rows) {
  const [low, high] = rows.map((row) => models.indexOf(row)).sort((a, b) => a - b);
  const pair = column.pairs.find(([a, b]) => a === low && b === high);
  const cells = rows.map((row) => row.cells[column.key]);
  const other = cells[0].is_best ? cells[1] : cells[1].is_best ? cells[0] : {};
  const [p, test] = pair ? pair.slice(2) : [other.p, other.test];
  return p === undefined ? {} : { p: Math.min(1, p * column.num_columns), test };
}

function betterOf(difference, column, names, p) {
  if (p === undefined || p >= 0.05) return NONE;
  return (difference > 0) !== column.lower_is_better ? names[0] : names[1];
}

function comparisonLine(column, rows, names) {
  const cells = rows.map((row) => row.cells[column.key]);
  const isComplete = cells.every((cell) => cell.value !== null);
  const difference = isComplete ? cells[0].value - cells[1].value : null;
  const { p, test } = isComplete ? testOf(column, rows) : {};
  return make("tr", p !== undefined && p < 0.05 ? { class: "differs" } : {},
    make("th", { scope: "row" }, columnName(column)),
    ...cells.map((cell) => make("td", {}, cell.text)),
    make("td", {}, isComplete ? differenceText(difference, column) : NONE),
    make("td", {}, betterOf(difference, column, names, p)),
    make("td", { class: "p" }, pText(p)),
    make("td", {}, test || NONE));
}

function showComparison() {
  const order = models.flatMap((row) => [row, ...row.below]);
  const rows = [...chosen].sort((a, b) => order.indexOf(a) - order.indexOf(b));
  const names = rows.map(rowName);
  const head = make("tr", {}, ...["column", ...names, "difference", "better", "p", "test"].map((text) =>
    make("th", { scope: "col" }, text)));
  const visible = columns.filter((_, place) => !headers[place + FIRST].hidden);
  const lines = visible.map((column) => comparisonLine(column, rows, names));
  const counts = [...new Set(visible.map((column) => column.num_columns).filter(Boolean))].join(" or ");
  const words = "Differences are the first model less the second; of proportions in points of per cent. p: two-sided, "
    + `times ${counts} columns of the suite; a dash where there is no test. "Better" is named below 0.05 alone.`;
  openDialog(byId("comparison"), `${names[0]} and ${names[1]}`, make("p", {}, words),
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Comparison" },
      make("table", {}, make("thead", {}, head), make("tbody", {}, ...lines))));
}
