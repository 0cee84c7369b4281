// Turn one tree into another by changing what differs, so that focus, scrolling, selection, open details and dialogs
// stay as they are. `data-keep`: the inside belongs to a script. Only pages of this server are ever given to it.

const KEPT = new Set(["open", "data-theme"]);

const key = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.id || node.getAttribute("data-key") || "" : "");

const alike = (one, two) => one.nodeType === two.nodeType && one.nodeName === two.nodeName && key(one) === key(two);

function attributes(here, there) {
  for (const { name } of [...here.attributes]) {
    if (!there.hasAttribute(name) && !KEPT.has(name)) here.removeAttribute(name);
  }
  for (const { name, value } of there.attributes) {
    if (here.getAttribute(name) !== value && !KEPT.has(name)) here.setAttribute(name, value);
  }
}

function one(here, there) {
  if (here.nodeType !== Node.ELEMENT_NODE) {
    if (here.nodeValue !== there.nodeValue) here.nodeValue = there.nodeValue;
    return;
  }
  if (here.nodeName === "DIALOG" && here.open) return;
  if (here.hasAttribute("data-keep")) return;
  // What somebody is writing or has picked is theirs.
  if (here.matches("input, select, textarea, form[data-post]") && !here.closest("dialog:not([open])")) return;
  attributes(here, there);
  children(here, there);
}

function children(here, there) {
  const known = new Map();
  for (const child of here.childNodes) {
    if (key(child)) known.set(`${child.nodeName} ${key(child)}`, child);
  }
  let place = here.firstChild;
  for (const wanted of [...there.childNodes]) {
    const named = key(wanted) && known.get(`${wanted.nodeName} ${key(wanted)}`);
    if (named) {
      if (named === place) place = place.nextSibling;
      else here.insertBefore(named, place);
      one(named, wanted);
    } else if (place && alike(place, wanted)) {
      const next = place.nextSibling;
      one(place, wanted);
      place = next;
    } else {
      here.insertBefore(document.importNode(wanted, true), place);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

export function morph(here, there) {
  attributes(here, there);
  children(here, there);
}
