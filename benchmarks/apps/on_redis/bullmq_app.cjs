// The operations of benchmarks/apps/client.py for BullMQ: `node bullmq_app.cjs OP JSON` prints one line of JSON.

const { existsSync } = require("node:fs");
const { FlowProducer, Queue, QueueEvents } = require("bullmq");
const { QUEUE, flow, connection, jobOptions } = require("./bullmq_common.cjs");

const WARM_UP = 20;
const TICK_MS = 10;
const queue = new Queue(QUEUE, { connection, defaultJobOptions: jobOptions });

const seconds = () => Number(process.hrtime.bigint()) / 1e9;
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const rate = (count, started) => ({ rate: count / (seconds() - started) });
const add = (value) => queue.add("noop", { value });
const range = (start, end) => Array.from({ length: Math.max(end - start, 0) }, (_, i) => start + i);

function* batches(count, size) {
  for (let start = 0; start < count; start += size) yield range(start, Math.min(start + size, count));
}

const optionsOf = (value) => (flow === "priority" ? { priority: 1 + (value % 10) } : {});
const addMany = (values) =>
  queue.addBulk(values.map((value) => ({ name: "noop", data: { value }, opts: optionsOf(value) })));

async function enqueue_await({ count }) {
  for (const value of range(0, WARM_UP)) await add(value);
  const started = seconds();
  for (let value = 0; value < count; value++) await add(value);
  return rate(count, started);
}

async function gather({ count, width }) {
  await Promise.all(range(0, WARM_UP).map(add));
  const started = seconds();
  for (const batch of batches(count, width)) await Promise.all(batch.map(add));
  return rate(count, started);
}

async function bulk({ count, size }) {
  await addMany(range(0, WARM_UP));
  const started = seconds();
  for (const batch of batches(count, size)) await addMany(batch);
  return rate(count, started);
}

async function fill({ count }) {
  for (const batch of batches(count, 1000)) await addMany(batch);
  return {};
}

async function load({ rate: wanted }) {
  let sent = 0;
  const started = seconds();
  while (!existsSync(`${process.env.BENCH_DIR}/stop`)) {
    const due = Math.floor((seconds() - started) * wanted);
    if (due > sent) await addMany(range(sent, due));
    sent = due;
    await pause(TICK_MS);
  }
  return { sent, rate: sent / (seconds() - started) };
}

async function latency_await({ samples }) {
  // From the first event on: by default it starts where the stream ends when it gets there, and misses the first job's.
  const events = new QueueEvents(QUEUE, { connection, lastEventId: "0-0" });
  await events.waitUntilReady();
  const call = async (value) => {
    const found = await (await add(value)).waitUntilFinished(events, 30000);
    if (found !== value) throw new Error(`wrong result: ${found} instead of ${value}`);
  };
  await call(-1);
  const times = [];
  for (const value of range(0, samples)) {
    await pause(2 + Math.random() * 6);
    const started = seconds();
    await call(value);
    times.push(seconds() - started);
  }
  await events.close();
  return { seconds: times };
}

const call = (name, data, children) => ({ name, data, queueName: QUEUE, opts: jobOptions, children });
const fans = (size) => (size === 1000 ? [9, 10, 10] : [size - 1]);

function tree([fan, ...rest]) {
  if (fan === undefined) return call("noop", { value: 1 });
  return call("total", {}, range(0, fan).map(() => tree(rest)));
}

// Each step of the chain is the parent of the one before it and passes on what that gave.
function chainOf(size) {
  let step = call("noop", { value: 1 });
  for (let number = 1; number < size; number++) step = call("pass", {}, [step]);
  return step;
}

const flows = {
  chain: (size) => [chainOf(size), 1],
  chord: (size) => [call("total", {}, range(0, size).map(() => call("noop", { value: 1 }))), size + 1],
  tree: (size) => [tree(fans(size)), size],
};

// A group has no parent: its jobs are added at once and waited for one and all.
async function runGroup(events, size) {
  const jobs = await addMany(range(0, size));
  const values = await Promise.all(jobs.map((job) => job.waitUntilFinished(events, 60000)));
  values.forEach((value, place) => { if (value !== place) throw new Error(`wrong result: ${value}`); });
}

async function runFlow(producer, events, shape, size) {
  const [root, value] = flows[shape](size);
  const { job } = await producer.add(root);
  const found = await job.waitUntilFinished(events, 60000);
  if (found !== value) throw new Error(`wrong result: ${found} instead of ${value}`);
}

async function workflow(shape, { size, samples }) {
  const producer = new FlowProducer({ connection });
  const events = new QueueEvents(QUEUE, { connection, lastEventId: "0-0" });
  events.setMaxListeners(0);
  await events.waitUntilReady();
  const once = (wanted) =>
    shape === "group" ? runGroup(events, wanted) : runFlow(producer, events, shape, wanted);
  await once(10);
  const times = [];
  for (let sample = 0; sample < samples; sample++) {
    const started = seconds();
    await once(size);
    times.push(seconds() - started);
  }
  await events.close();
  await producer.close();
  return { seconds: times };
}

async function pending() {
  const counts = await queue.getJobCounts("waiting", "active", "prioritized", "delayed", "failed");
  return { pending: Object.values(counts).reduce((sum, count) => sum + count, 0) };
}

async function versions() {
  return {
    bullmq: require("bullmq/package.json").version,
    ioredis: require("ioredis/package.json").version,
    node: process.versions.node,
  };
}

const operations = { enqueue_await, gather, bulk, fill, load, latency_await, pending, versions };
for (const shape of ["chain", "group", "chord", "tree"]) {
  operations[`workflow_${shape}`] = (sizes) => workflow(shape, sizes);
}

async function main() {
  const [operation, text] = process.argv.slice(2);
  const answer = await operations[operation](JSON.parse(text));
  console.log(JSON.stringify(answer));
  await queue.close();
}

main().then(() => process.exit(0), (error) => {
  console.error(String(error.message || error));
  process.exit(1);
});
