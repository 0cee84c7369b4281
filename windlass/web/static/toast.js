// Short messages in the corner. What went wrong stays until it is closed.
const SECONDS = 5;

export function toast(text, bad = false) {
  const box = document.createElement("div");
  box.className = bad ? "toast bad" : "toast";
  const said = document.createElement("span");
  said.textContent = text;
  const close = document.createElement("button");
  close.type = "button";
  close.className = "btn quiet small";
  close.textContent = "Close";
  close.addEventListener("click", () => box.remove());
  box.append(said, close);
  const list = document.getElementById("toasts");
  list.append(box);
  while (list.children.length > 4) list.firstElementChild.remove();
  if (!bad) setTimeout(() => box.remove(), SECONDS * 1000);
}
