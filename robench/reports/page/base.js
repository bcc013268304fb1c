// Data of the page, and elements made of text alone: nothing that a stranger named is ever read as markup.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

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

// Light or dark, as the reader prefers or chooses.
const THEMES = ["system", "light", "dark"];

function storedTheme() {
  // A page opened from a file may have no storage.
  try {
    return THEMES.includes(localStorage.getItem("robench-theme")) ? localStorage.getItem("robench-theme") : "system";
  } catch {
    return "system";
  }
}

function setTheme(theme, themeButton) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  themeButton.textContent = `Theme: ${theme}`;
  try {
    localStorage.setItem("robench-theme", theme);
  } catch {
    // The choice then lasts for as long as the page.
  }
}

function themeSwitch() {
  let theme = storedTheme();
  const themeButton = button("", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    setTheme(theme, themeButton);
  }, { id: "theme" });
  setTheme(theme, themeButton);
  return themeButton;
}
