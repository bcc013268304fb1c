// Data of the page, and elements made of text alone: nothing that a stranger named is ever read as markup.
(() => {
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const board = byId("board");
const body = board.tBodies[0];
const trs = data.rows.map((_, place) => body.querySelector(`tr[data-row="${place}"]`));
const NONE = "—";

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick" || name === "oninput" || name === "onchange") element.addEventListener(name.slice(2), value);
    else if (typeof value === "boolean") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

function button(text, onclick, attributes = {}) {
  return make("button", { type: "button", onclick, ...attributes }, text);
}

// Text that is visible as it is: controls and marks of direction are shown as escapes, and long names cut.
function shown(text, width = 400) {
  const visible = String(text).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (character) =>
    `\\u{${character.codePointAt(0).toString(16)}}`);
  const characters = [...visible];
  return characters.length > width ? `${characters.slice(0, width - 1).join("")}…` : visible;
}

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

function definitions(pairs) {
  const list = make("dl");
  for (const [term, text] of pairs) {
    if (text === "" || text === null || text === undefined) continue;
    list.append(make("dt", {}, term), make("dd", {}, typeof text === "string" ? shown(text) : text));
  }
  return list;
}

// Fill a dialog and open it; its first element is its title, and its button closes it.
function openDialog(dialog, title, ...content) {
  const heading = make("h2", { id: `${dialog.id}-title` }, shown(title));
  const close = button("Close", () => dialog.close(), { class: "close" });
  dialog.replaceChildren(make("div", { class: "head" }, heading, close), ...content);
  dialog.showModal();
  dialog.scrollTop = 0;
}

const columnName = (column) => shown(column.label, 80);
const rowName = (row) => shown(row.model, 80);
