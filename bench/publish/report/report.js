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

document.addEventListener("click", (event) => {
  const heading = event.target.closest("th[data-better] button")?.parentElement;
  if (heading) sortBy(heading);
  const button = event.target.closest("button.copy");
  if (button) copy(button);
});
