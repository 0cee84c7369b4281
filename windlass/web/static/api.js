// Requests to the JSON API, with the page's token. Numbers beyond what JavaScript can count travel as text: `raw`.
const base = document.documentElement.dataset.base;
const token = document.querySelector('meta[name="windlass-token"]').content;

export const path = (rest) => `${base}/${rest}`;

// A piece of JSON text that is sent as it stands.
export class Raw {
  constructor(text) {
    this.text = text;
  }
}

export function encode(value) {
  if (value instanceof Raw) return value.text;
  if (Array.isArray(value)) return `[${value.map(encode).join(",")}]`;
  if (value && typeof value === "object") {
    const parts = Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}:${encode(each)}`);
    return `{${parts.join(",")}}`;
  }
  return JSON.stringify(value);
}

export async function call(method, rest, body) {
  const headers = { "X-Windlass-Token": token, Accept: "application/json" };
  const options = { method, headers, credentials: "same-origin" };
  if (method !== "GET") {
    headers["Content-Type"] = "application/json";
    if (method === "POST") options.body = encode(body ?? {});
  }
  let response;
  try {
    response = await fetch(path(rest), options);
  } catch {
    throw new Error("the server cannot be reached");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.detail || answer.title || `the server answered ${response.status}`);
  return answer;
}
