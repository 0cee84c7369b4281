// Light, dark or as the system has it: before the page is drawn, so that it never flashes. Not a module for that reason.
(() => {
  const root = document.documentElement;
  const order = ["system", "light", "dark"];
  const kept = () => {
    try {
      const value = localStorage.getItem("windlass-theme");
      return order.includes(value) ? value : "system";
    } catch {
      return "system"; // storage is switched off
    }
  };
  const use = (theme) => {
    if (theme === "system") delete root.dataset.theme;
    else root.dataset.theme = theme;
  };
  use(kept());
  window.windlassTheme = () => {
    const next = order[(order.indexOf(root.dataset.theme ?? "system") + 1) % order.length];
    use(next);
    try {
      localStorage.setItem("windlass-theme", next);
    } catch {
      // It holds until the page is left.
    }
    return next;
  };
})();
