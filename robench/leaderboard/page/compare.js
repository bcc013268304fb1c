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

// Test of a pair, corrected for the columns of its suite: of all pairs where there are few rows, else against the best
// of the column alone.
function testOf(column, first, second) {
  const [low, high] = first < second ? [first, second] : [second, first];
  const pair = column.pairs.find(([a, b]) => a === low && b === high);
  const cells = [data.rows[first].cells[column.key], data.rows[second].cells[column.key]];
  const other = cells[0].is_best ? cells[1] : cells[1].is_best ? cells[0] : {};
  const [p, test] = pair ? pair.slice(2) : [other.p, other.test];
  return p === undefined ? {} : { p: Math.min(1, p * column.num_columns), test };
}

function betterOf(difference, column, names, p) {
  if (p === undefined || p >= 0.05) return NONE;
  return (difference > 0) !== column.lower_is_better ? names[0] : names[1];
}

function comparisonLine(column, first, second, names) {
  const cells = [data.rows[first].cells[column.key], data.rows[second].cells[column.key]];
  const isComplete = cells.every((cell) => cell.value !== null);
  const difference = isComplete ? cells[0].value - cells[1].value : null;
  const { p, test } = isComplete ? testOf(column, first, second) : {};
  return make("tr", p !== undefined && p < 0.05 ? { class: "differs" } : {},
    make("th", { scope: "row" }, columnName(column)),
    ...cells.map((cell) => make("td", {}, cell.text)),
    make("td", {}, isComplete ? differenceText(difference, column) : NONE),
    make("td", {}, betterOf(difference, column, names, p)),
    make("td", { class: "p" }, pText(p)),
    make("td", {}, test || NONE));
}

function showComparison() {
  const [first, second] = [...chosen].sort((a, b) => a - b);
  const names = [first, second].map((index) => rowName(data.rows[index]));
  const head = make("tr", {}, ...["column", ...names, "difference", "better", "p", "test"].map((text) =>
    make("th", { scope: "col" }, text)));
  const columns = data.columns.filter((_, place) => !headers[place + FIRST].hidden);
  const lines = columns.map((column) => comparisonLine(column, first, second, names));
  const counts = [...new Set(columns.map((column) => column.num_columns).filter(Boolean))].join(" or ");
  const words = "Differences are the first model less the second; of proportions in points of per cent. p: two-sided, "
    + `times ${counts} columns of the suite; a dash where there is no test. "Better" is named below 0.05 alone.`;
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
