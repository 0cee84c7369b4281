// While somebody writes a filter: what could stand next, made by the server, shown by the browser's own list.
import { call } from "./api.js";

const PAUSE = 120;
let due = 0;
let asked = 0;

function show(list, found) {
  list.replaceChildren(...found.map(({ filter, means }) => {
    const option = document.createElement("option");
    option.value = filter;
    if (means) option.label = means;
    return option;
  }));
}

async function suggest(field) {
  const mine = ++asked;
  const query = new URLSearchParams({ filter: field.value, at: field.selectionStart ?? -1 });
  try {
    const found = await call("GET", `api/suggest?${query}`);
    if (mine === asked && field.list) show(field.list, found);
  } catch {
    // Suggestions are a help and no more: what is wrong is said when the filter is sent.
  }
}

export function startSuggest() {
  document.addEventListener("input", (event) => {
    if (event.target.id !== "filter-text") return;
    clearTimeout(due);
    due = setTimeout(suggest, PAUSE, event.target);
  });
}
