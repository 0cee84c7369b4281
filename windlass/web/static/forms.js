// Forms as JSON: names with a dot go one level down, kinds say what a text stands for.
import { Raw } from "./api.js";

const NUMBER = /^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$/;

function wrong(field, text) {
  const name = field.name.replace(/^(args|options)\./, "");
  return new Error(`${name}: ${text}`);
}

function integer(field, text) {
  if (!/^[+-]?\d+$/.test(text)) throw wrong(field, "give a whole number");
  return new Raw(BigInt(text.replace(/^\+/, "")).toString());
}

function number(field, text) {
  if (!NUMBER.test(text)) throw wrong(field, "give a number");
  const value = Number(text);
  if (!Number.isFinite(value)) throw wrong(field, "that number is too large");
  return /^[+-]?\d+$/.test(text) ? integer(field, text) : value;
}

function json(field, text) {
  try {
    JSON.parse(text);
  } catch (error) {
    throw wrong(field, `this is not JSON: ${error.message}`);
  }
  return new Raw(text);
}

function value(field) {
  const kind = field.dataset.kind ?? "text";
  if (kind === "boolean") return field.checked;
  const text = kind === "text" ? field.value : field.value.trim();
  if (text === "") {
    if (field.dataset.blank === "null") return null;
    return field.dataset.empty === "yes" ? "" : undefined;
  }
  return { integer, number, json }[kind]?.(field, text) ?? text;
}

function changed(field) {
  return field.type === "checkbox" ? field.checked !== field.defaultChecked : field.value !== field.defaultValue;
}

// Put `{"a": 1}` and what the other fields gave into one object.
function spread(into, field) {
  const text = field.value.trim();
  if (text === "") return;
  json(field, text);
  // Numbers as they were written, where the browser tells: they may be longer than it can count.
  const given = JSON.parse(text, (_, each, context) =>
    typeof each === "number" && context?.source ? new Raw(context.source) : each,
  );
  if (given === null || typeof given !== "object" || Array.isArray(given)) {
    throw wrong(field, 'give an object, such as {"name": 1}');
  }
  for (const [name, each] of Object.entries(given)) into[name] = each;
}

export function read(form) {
  const body = {};
  for (const field of form.elements) {
    if (!field.name || field.disabled || (form.hasAttribute("data-changed") && !changed(field))) continue;
    if (field.hasAttribute("data-spread")) {
      spread((body[field.name] ??= {}), field);
      continue;
    }
    const given = value(field);
    if (given === undefined) continue;
    const dot = field.name.indexOf(".");
    if (dot < 0) body[field.name] = given;
    else (body[field.name.slice(0, dot)] ??= {})[field.name.slice(dot + 1)] = given;
  }
  return body;
}
