// Provenance of a number, of a model, and flags in words.
const SAME = [
  ["dataset", (each) => each.dataset],
  ["dataset fingerprint", (each) => each.fingerprint],
  ["examples of the dataset", (each) => String(each.dataset_size)],
  ["weights digest (SHA-256)", (each) => each.weights_digest],
  ["seed", (each) => String(each.seed)],
  ["batch size", (each) => String(each.batch_size)],
  ["kind of device", (each) => each.devices.join(", ")],
  ["versions", (each) => Object.entries(each.versions).map((pair) => pair.join(" ")).join(", ")],
  ["measured", (each) => each.finished_at],
];

const distinct = (values) => [...new Set(values)].join("; ");

function suiteOf(name) {
  return content.suites.find((suite) => suite.name === name);
}

function rankText(cell) {
  if (cell.is_best) return "the best of its column";
  if (cell.p === undefined) return "not tested";
  const verdict = cell.is_close ? "not distinguishable" : "distinguishable";
  return `${verdict} from the best: p ${pText(cell.p)} (${cell.test}), ${pText(cell.p_corrected)} corrected (${content.test})`;
}

function conditionTable(measured) {
  const head = make("tr", {}, ...["condition", "checkpoint", "budget", "examples", "measurement key"].map((text) =>
    make("th", { scope: "col" }, text)));
  const lines = measured.map((each) => make("tr", {},
    make("th", { scope: "row" }, shown(each.condition, 80)),
    make("td", {}, shown(each.checkpoint, 80)),
    make("td", {}, shown(each.budget || NONE, 80)),
    make("td", {}, each.missing ? `${each.num_examples}, ${each.missing} missing` : String(each.num_examples)),
    make("td", { class: "key" }, shown(each.measurement_key))));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Conditions" },
    make("table", {}, make("thead", {}, head), make("tbody", {}, ...lines)));
}

function provenanceOf(measured) {
  if (!measured.length) return [make("p", {}, "Nothing is measured of it.")];
  return [definitions(SAME.map(([name, read]) => [name, distinct(measured.map(read))])), conditionTable(measured)];
}

function flagList(row) {
  if (!row.flags) return [make("p", {}, "Not audited: no flag was looked for.")];
  const raised = row.flags.filter((flag) => flag.is_raised);
  const quiet = new Set(row.flags.filter((flag) => !flag.is_raised).map((flag) => shown(flag.name, 80)));
  const items = raised.flatMap((flag) => [
    make("dt", {}, shown(flag.name, 80)),
    make("dd", {}, shown(`${flag.finding}; ${flag.advice} (rule: ${flag.source})`)),
  ]);
  return [
    make("p", {}, raised.length ? `${raised.length} raised:` : "No flag is raised."),
    raised.length ? make("dl", {}, ...items) : null,
    quiet.size ? make("p", {}, `Checked and not raised: ${[...quiet].join(", ")}.`) : null,
  ];
}

function section(title, ...content) {
  return make("section", {}, make("h3", {}, title), ...content.filter((child) => child !== null));
}

function seedTexts(row, cell, column) {
  if (!cell.of_seeds) return "one checkpoint";
  // Of seeds that are rows of their own, those without the number are left out.
  const having = row.below.length ? row.below.filter((seed) => seed.cells[column.key].num_examples).map((seed) => seed.model)
    : row.seeds;
  return cell.of_seeds.map((value, place) =>
    `${having.length === cell.of_seeds.length ? `${having[place]}: ` : ""}${numberText(value, column)}`).join(", ");
}

function showNumber(row, column) {
  const cell = row.cells[column.key];
  const suite = suiteOf(column.suite);
  const measured = column.measurements.flatMap((key) => row.measured[key] || []);
  const number = definitions([
    ["number", isPerCent(column) ? `${cell.text} per cent` : cell.text],
    ["metric", column.title],
    ["interval", cell.low === null ? "none" : cell.of_seeds ? suite.provenance["intervals over seeds"] : column.interval],
    ["standard deviation over seeds", cell.deviation === undefined ? "" : numberText(cell.deviation, column)],
    ["training seeds", seedTexts(row, cell, column)],
    ["examples", suite === undefined ? "" : cell.missing ? `${cell.num_examples}, ${cell.missing} missing` : String(cell.num_examples)],
    ["beside the others", cell.value === null ? "" : rankText(cell)],
    ["suite", suite ? `${suite.name}, version ${suite.version}` : "none: a count of the architecture"],
    ["restricted to", row.limit === undefined ? "" : `the first ${row.limit} examples`],
    ["measured on", row.all_examples ? "all examples, whatever number the suite states" : ""],
    ["batch size", row.batch_size === undefined ? "" : `holds at ${row.batch_size} only: its rows are coupled`],
  ]);
  openDialog(byId("details"), `${rowName(row)}: ${column.label}`, number,
    section("Provenance", ...provenanceOf(measured)), section("Flags of the model", ...flagList(row)));
}

// The page's maker says which texts are addresses.
function linked(entry, name) {
  return (entry.links || []).includes(name)
    ? make("a", { href: entry[name], rel: "noopener noreferrer nofollow" }, shown(entry[name])) : entry[name];
}

function showModel(row) {
  const entry = row.entry || {};
  const about = row.entry ? definitions([
    ["family", entry.family], ["attention", entry.attention], ["architecture", entry.architecture],
    ["training data", entry.training_data], ["source", entry.source], ["licence", entry.licence],
    ...["paper", "code", "weights"].map((name) => [name, linked(entry, name)]),
    ["rank", row.rank === undefined ? row.unranked && `none: ${row.unranked}` : String(row.rank)],
  ]) : make("p", {}, "No registry that was read has this model.");
  const notes = (row.notes || []).map((note) => make("li", {}, shown(note)));
  openDialog(byId("details"), rowName(row), about,
    notes.length ? section("Notes", make("ul", {}, ...notes)) : "",
    section("Flags", ...flagList(row)), section("Provenance", ...provenanceOf(Object.values(row.measured).flat())));
}
