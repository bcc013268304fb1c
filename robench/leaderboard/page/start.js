// Theme, and everything put in place.
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

function start() {
  makeHeadersSortable();
  makeCellsOpening();
  const compare = makeRowsChoosable();
  byId("tools").append(searchField(), ...FACETS.map(facetSelect),
    button("Columns", showChooser, { id: "columns" }), makeFolding(), compare,
    themeSwitch());
  byId("tools").hidden = false;
  makeMore();
  showPortion();
  const place = sorted ? data.columns.findIndex((column) => column.key === sorted) : -1;
  if (place < 0) showStatus();
  else sortBy(place + FIRST, firstDescending(place + FIRST) !== data.settings.is_worst_first);
}

start();
})();
