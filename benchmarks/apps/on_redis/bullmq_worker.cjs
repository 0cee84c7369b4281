// BullMQ's worker. Executed jobs are counted here and written to the trial's file of marks a few times a second: Node
// cannot map the file, and the stamps are taken when a job runs, so the delay enters no figure.

const fs = require("node:fs");
const { Worker } = require("bullmq");
const { QUEUE, work, flow, concurrency, connection } = require("./bullmq_common.cjs");

const FLUSH_MS = 10;
const WORDS = 8;
const file = fs.openSync(process.env.BENCH_MARKS, "r+");
const place = Number(process.env.BENCH_SLOT) * WORDS * 8;
const slot = new BigUint64Array(3); // count, first, last
let written = 0n;

function mark(started) {
  const now = process.hrtime.bigint(); // CLOCK_MONOTONIC, as the harness reads it
  const first = started || now;
  if (slot[1] === 0n || first < slot[1]) slot[1] = first;
  slot[0] += 1n;
  slot[2] = now;
}

function flush() {
  if (slot[0] === written) return;
  written = slot[0];
  // The stamps before the count: a reader that sees the count must see them too.
  fs.writeSync(file, Buffer.from(slot.buffer, 8, 16), 0, 16, place + 8);
  fs.writeSync(file, Buffer.from(slot.buffer, 0, 8), 0, 8, place);
}

const bodies = {
  async noop(job) {
    mark();
    return job.data.value;
  },
  async io(job) {
    const started = process.hrtime.bigint();
    await new Promise((done) => setTimeout(done, 100));
    mark(started);
    return job.data.value;
  },
};

const childrenOf = async (job) => Object.values(await job.getChildrenValues());
const parents = {
  async pass(job) {
    const [value] = await childrenOf(job);
    mark();
    return value;
  },
  async total(job) {
    const values = await childrenOf(job);
    mark();
    return 1 + values.reduce((sum, value) => sum + value, 0);
  },
};

// A rate that is never reached, as Windlass has it: what is measured is what it costs to ask.
const limiter = flow === "rate" ? { max: 1000000, duration: 1000 } : undefined;
const worker = new Worker(QUEUE, (job) => (parents[job.name] || bodies[work])(job), { connection, concurrency, limiter });
worker.on("error", (error) => console.error(error.message));
setInterval(flush, FLUSH_MS);

process.on("SIGTERM", () => {
  flush();
  worker.close().then(() => process.exit(0), () => process.exit(1));
});
