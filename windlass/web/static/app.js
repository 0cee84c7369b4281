// Starts everything. Each module adds one thing to pages that can be read without any of them.
import { startActions } from "./actions.js";
import { startBulk } from "./bulk.js";
import { startCopy } from "./copy.js";
import { startGraph } from "./graph.js";
import { startJob } from "./job.js";
import { startKeys } from "./keys.js";
import { startLive } from "./live.js";
import { startSuggest } from "./suggest.js";
import { startTimes } from "./times.js";
import { startTips } from "./tips.js";
import { toast } from "./toast.js";

document.getElementById("theme").addEventListener("click", () => toast(`Theme: ${window.windlassTheme()}`));
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
});

startTimes();
startLive();
startActions();
startBulk();
startCopy();
startJob();
startGraph();
startTips();
startSuggest();
startKeys();
document.documentElement.dataset.ready = "yes";
