// Values that the page has without repetitions, see packed() in document.py.
function distinctOf({ of, places }, length) {
  if (places) return places.map((place) => of[place]);
  return of.length === length ? of : Array(length).fill(of[0]);
}

function listsOf({ lengths, items }, length) {
  const sizes = distinctOf(lengths, length);
  const all = unpacked(items, sizes.reduce((sum, size) => sum + size, 0));
  let start = 0;
  return sizes.map((size) => all.slice(start, (start += size)));
}

function unpacked(code, length) {
  if (code.lengths) return listsOf(code, length);
  if (code.of) return distinctOf(code, length);
  // Without a prototype, since names may be any.
  const objects = Array.from({ length }, () => Object.create(null));
  if (code.names) {
    const names = distinctOf(code.names, length);
    unpacked(code.values, length).forEach((values, place) => {
      values.forEach((value, each) => { objects[place][names[place][each]] = value; });
    });
    return objects;
  }
  for (const [name, [values, lacking]] of Object.entries(code.fields)) {
    const having = lacking ? objects.filter((_, place) => !lacking.includes(place)) : objects;
    unpacked(values, having.length).forEach((value, place) => { having[place][name] = value; });
  }
  return objects;
}

// The leaderboard. Rows of models have the rows of their training seeds below them, and their provenance.
const [content] = unpacked(data, 1);
const columns = content.columns;
const models = content.mechanisms || content.rows;
const checkpoints = new Map(content.mechanisms ? content.rows.map((row) => [row.model, row]) : []);
for (const row of models) {
  const own = (row.seeds || [row.model]).map((name) => checkpoints.get(name)).filter(Boolean);
  row.below = row.seeds ? own : [];
  if (!own.length) continue;
  row.measured = Object.create(null);
  for (const seed of own) {
    for (const [key, found] of Object.entries(seed.measured)) row.measured[key] = [...(row.measured[key] || []), ...found];
  }
}
const sorted = content.settings && content.settings.sort;
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
const rowName = (row) => shown(row.model, 80) + (row.seeds ? ` (${row.seeds.length} seeds)` : "");
