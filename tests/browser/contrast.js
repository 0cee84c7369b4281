// Texts on the page that are harder to read than WCAG AA allows: 4.5, or 3 where they are large. Colours are drawn on a
// canvas, which knows every way to write one.
() => {
  const brush = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    brush.clearRect(0, 0, 1, 1);
    brush.fillStyle = colour;
    brush.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = brush.getImageData(0, 0, 1, 1).data;
    return { r, g, b, a: a / 255 };
  };
  const over = (top, under) => {
    const mix = (name) => top[name] * top.a + under[name] * (1 - top.a);
    return { r: mix("r"), g: mix("g"), b: mix("b"), a: 1 };
  };
  const light = ({ r, g, b }) => {
    const part = (value) => (value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const ground = (node) => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) {
      const shape = at.closest("svg") && at.parentElement?.querySelector(":scope > .box");
      layers.push(rgba(shape ? getComputedStyle(shape).fill : getComputedStyle(at).backgroundColor));
    }
    const paper = rgba(getComputedStyle(document.body).backgroundColor);
    return layers.reverse().reduce((under, layer) => over(layer, under), paper);
  };
  const faint = (node) => {
    let left = 1;
    for (let at = node; at; at = at.parentElement) left *= Number(getComputedStyle(at).opacity);
    return left;
  };
  const found = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = walk.currentNode.nodeValue.trim();
    const node = walk.currentNode.parentElement;
    if (!text || node.closest("title, script, noscript, select, :disabled") || !node.checkVisibility()) continue;
    const style = getComputedStyle(node);
    const under = ground(node);
    const ink = rgba(node.closest("svg") ? style.fill : style.color);
    const seen = over({ ...ink, a: ink.a * faint(node) }, under);
    const [high, low] = [light(seen), light(under)].sort((one, two) => two - one);
    const ratio = (high + 0.05) / (low + 0.05);
    const size = parseFloat(style.fontSize);
    const enough = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    if (ratio < enough) found.add(`${ratio.toFixed(2)} “${text.slice(0, 40)}” in ${node.className?.baseVal ?? node.className}`);
  }
  return [...found];
}
