// Elements of a leaderboard, and its numbers as texts.
const board = byId("board");
const body = board.tBodies[0];
const trs = data.rows.map((_, place) => body.querySelector(`tr[data-row="${place}"]`));
const NONE = "—";

const isPerCent = (column) => column.unit === "share" || column.unit === "ratio";

function numberText(number, column) {
  if (number === null) return NONE;
  return isPerCent(column) ? (100 * number).toFixed(1) : String(Number(number.toPrecision(4)));
}

function differenceText(difference, column) {
  const text = numberText(difference, column);
  return difference > 0 ? `+${text}` : text;
}

function pText(p) {
  if (p === undefined || p === null) return NONE;
  return p < 0.0001 ? "< 0.0001" : p.toPrecision(2);
}

const columnName = (column) => shown(column.label, 80);
const rowName = (row) => shown(row.model, 80);
