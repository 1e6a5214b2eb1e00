"use strict";

// A click on a heading sorts its table: first the attack's best on top, then the other way round.
// Rows without a value come last either way.
function sortBy(heading) {
  const table = heading.closest("table");
  const place = heading.cellIndex;
  const first = heading.dataset.better === "higher" ? "descending" : "ascending";
  const other = first === "descending" ? "ascending" : "descending";
  const order = heading.getAttribute("aria-sort") === first ? other : first;
  for (const cell of heading.parentElement.cells) cell.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", order);

  const sign = order === "descending" ? -1 : 1;
  const key = (row) => row.cells[place].dataset.value ?? row.cells[place].textContent.trim();
  const compare = (a, b) => {
    const [left, right] = [key(a), key(b)];
    if (left === "" || right === "") return (left === "") - (right === "");
    const difference = Number(left) - Number(right);
    return sign * (Number.isNaN(difference) ? left.localeCompare(right) : difference);
  };
  const body = table.tBodies[0];
  body.append(...[...body.rows].sort(compare));
}

async function copy(button) {
  const code = button.parentElement.querySelector("code");
  try {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = "copied";
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  } catch {
    getSelection().selectAllChildren(code); // no clipboard here: the reader presses Ctrl-C
  }
}

// The filter leaves the networks that hold a cell of what is chosen, and of those the pictures of such cells.
function filter(form) {
  const { family, attack, attacker, pictured } = form.elements;
  const chosen = (entry) => {
    const [name, who] = entry.split("\t");
    return (!attack.value || name === attack.value) && (!attacker.value || who === attacker.value);
  };
  const networks = [...document.querySelectorAll("section.network")];
  for (const network of networks) {
    const galleries = [...network.querySelectorAll(".gallery")];
    for (const gallery of galleries) gallery.hidden = !chosen(gallery.dataset.entry);
    const seen = galleries.some((gallery) => !gallery.hidden && gallery.querySelector(".examples"));
    const met = network.dataset.entries.split("\n").some(chosen);
    network.hidden = !met || (family.value && network.dataset.family !== family.value) || (pictured.checked && !seen);
  }
  const seen = new Set(networks.filter((network) => !network.hidden).map((network) => network.dataset.family));
  for (const heading of document.querySelectorAll("h2.family")) heading.hidden = !seen.has(heading.dataset.family);
  const left = networks.filter((network) => !network.hidden).length;
  const all = `${networks.length} network${networks.length === 1 ? "" : "s"}`;
  form.querySelector("output").textContent = left === networks.length ? all : `${left} of ${all}`;
}

// The glossary says once what every heading and every null control is; a pointer that rests on one shows it there.
for (const place of document.querySelectorAll("[data-column]")) {
  const meaning = document.getElementById(`meaning-${place.dataset.column}`);
  if (meaning) place.title = meaning.textContent;
}

const filters = document.querySelector("form.filters");
if (filters) {
  filters.hidden = false;
  filters.addEventListener("change", () => filter(filters));
  // A link to an attack unfolds it. One to a network that is filtered out shows it, and all others; also where the
  // address names it already.
  const reveal = (hash) => {
    const target = document.getElementById(hash.slice(1));
    if (target instanceof HTMLDetailsElement) target.open = true;
    if (!target?.hidden) return;
    filters.reset();
    filter(filters);
    target.scrollIntoView();
  };
  addEventListener("hashchange", () => reveal(location.hash));
  addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (link) reveal(link.getAttribute("href"));
  });
  reveal(location.hash);
}

document.addEventListener("click", (event) => {
  const heading = event.target.closest("th[data-better] button")?.parentElement;
  if (heading) sortBy(heading);
  const button = event.target.closest("button.copy");
  if (button) copy(button);
});
