// What BullMQ's client and worker share: the trial's settings, read from the environment, and the options they imply.

const { hostname: host, port } = new URL(process.env.BENCH_URL);

exports.QUEUE = "bench";
exports.work = process.env.BENCH_WORK || "noop";
exports.flow = process.env.BENCH_FLOW || "";
exports.concurrency = Number(process.env.BENCH_CONCURRENCY) || 100;

exports.connection = { host, port: Number(port), maxRetriesPerRequest: null };

// Results are kept as Windlass keeps them by default: an hour, at most 100,000 of them.
exports.jobOptions =
  process.env.BENCH_RESULTS === "1"
    ? { removeOnComplete: { age: 3600, count: 100000 } }
    : { removeOnComplete: true };
