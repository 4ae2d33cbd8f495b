// Imitates a worker that was built with the original Node SDK, in what goes over the wire: how it registers, takes
// a dispatch, reads storage tokens, reports, and what it leaves undone. It has no code of that SDK.
//
// Environment: ORCHESTRATOR_URL, PIPEWEAVE_SECRET_KEY; SERVICE_ID, PORT; REVISION=main for the older paths;
// INTERVAL_MS for the heartbeat interval of its tasks.
import { createDecipheriv, createHash } from 'node:crypto';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

const { ORCHESTRATOR_URL, PIPEWEAVE_SECRET_KEY, SERVICE_ID = 'original-sdk', REVISION = 'dev' } = process.env;
const isMain = REVISION === 'main';
const intervalMs = Number(process.env.INTERVAL_MS ?? 60000);
const tempDir = join(tmpdir(), `original-sdk-${process.pid}`);

class TaskError extends Error {
  constructor(message, code) {
    super(message);
    this.code = code;
  }
}

const functions = {
  echo: async (ctx) => ctx.input,
  upstream: async (ctx) => ctx.upstream,
  choose: async (ctx) => ({ output: ctx.input, runNext: ctx.input.next }),
  file: async (ctx) => {
    await ctx.addAsset('note.txt', 'text', 'a note');
    ctx.log('info', 'wrote a note', { letters: 6 });
    return { written: true };
  },
  fail: async () => {
    throw new TaskError('the card was declined', 'CARD_DECLINED');
  },
  slow: async (ctx) => {
    await ctx.progress(50, 'half of it');
    await new Promise((done) => setTimeout(done, ctx.input.ms ?? 5000));
    return { slept: true };
  },
};
const allowedNext = { choose: ['echo', 'upstream'] };

const post = (path, body) =>
  fetch(`${ORCHESTRATOR_URL}${path}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });

function openToken(text) {
  const [iv, tag, sealed] = text.split(':').map((part) => Buffer.from(part, 'base64'));
  const secret = Buffer.from(PIPEWEAVE_SECRET_KEY, 'utf8');
  const key = Buffer.from(Array.from({ length: 32 }, (_, at) => secret[at % secret.length]));
  const decipher = createDecipheriv('aes-256-gcm', key, iv);
  decipher.setAuthTag(tag);
  return JSON.parse(Buffer.concat([decipher.update(sealed), decipher.final()]).toString('utf8'));
}

function storageOf(backend) {
  if (backend.provider !== 'local') throw new Error(`no provider ${backend.provider}`);
  const place = (path) => join(backend.credentials.basePath, path.replace(/^\//, ''));
  return {
    read: (path) => readFile(place(path)),
    async write(path, content) {
      await mkdir(dirname(place(path)), { recursive: true });
      await writeFile(place(path), content);
    },
  };
}

const report = (runId, body) =>
  post(isMain ? `/api/callback/${runId}` : `/api/task-runs/${runId}/complete`, body);

const beat = (runId, body = {}) => {
  if (!isMain) return post(`/api/task-runs/${runId}/heartbeat`, body);
  return post('progress' in body ? '/api/progress' : '/api/heartbeat', { runId, ...body });
};

async function carryOut(taskId, dispatch) {
  const { runId } = dispatch;
  let backend;
  try {
    backend = openToken(dispatch.storageToken);
  } catch {
    await report(runId, { status: 'failed', error: 'Failed to decrypt storage token', errorCode: 'INVALID_TOKEN' });
    return;
  }
  // A provider that it does not know ends here, and nothing is ever reported.
  const storage = storageOf(backend);
  const timer = setInterval(() => beat(runId).catch(() => {}), intervalMs);
  try {
    const lines = [];
    const assets = {};
    const contents = {};
    const input = JSON.parse(await storage.read(dispatch.inputPath));
    const upstream = {};
    for (const [step, reference] of Object.entries(dispatch.upstreamRefs)) {
      upstream[step] = JSON.parse(await storage.read(reference.outputPath));
    }
    const result = await functions[taskId]({
      input,
      upstream,
      progress: (progress, message) => beat(runId, { progress, message }),
      log: (level, message, meta) =>
        lines.push(JSON.stringify({ timestamp: new Date().toISOString(), level, runId, message, ...meta })),
      async addAsset(key, type, value) {
        contents[key] = Buffer.from(type === 'json' ? JSON.stringify(value, null, 2) : value);
        assets[key] = { path: `runs/${runId}/assets/${key}`, size: contents[key].length, type };
        await mkdir(join(tempDir, runId, 'assets'), { recursive: true });
        await writeFile(join(tempDir, runId, 'assets', key), contents[key]);
      },
    });
    const isWrapped = result !== null && typeof result === 'object' && 'output' in result;
    const output = isWrapped ? result.output : result;
    const runNext = isWrapped ? result.runNext : undefined;
    if (runNext?.some((name) => !(allowedNext[taskId] ?? []).includes(name))) {
      throw new TaskError(`not a next task: ${runNext}`, 'INVALID_NEXT_TASKS');
    }
    const text = JSON.stringify(output, null, 2);
    await storage.write(`runs/${runId}/output.json`, text);
    for (const [key, asset] of Object.entries(assets)) await storage.write(asset.path, contents[key]);
    await storage.write(`runs/${runId}/logs.jsonl`, lines.join('\n'));
    await rm(join(tempDir, runId), { recursive: true, force: true });
    // What goes wrong here is reported as a failure, too, although everything is stored.
    await report(runId, {
      status: 'success',
      outputPath: `runs/${runId}/output.json`,
      outputSize: text.length,
      assets,
      logsPath: `runs/${runId}/logs.jsonl`,
      ...(runNext ? { selectedNext: runNext } : {}),
    });
  } catch (error) {
    await rm(join(tempDir, runId), { recursive: true, force: true });
    await report(runId, {
      status: 'failed',
      error: error instanceof TaskError ? error.message : String(error),
      ...(error.code && error instanceof TaskError ? { errorCode: error.code } : {}),
    });
  } finally {
    clearInterval(timer);
  }
}

function answer(response, status, document) {
  response.writeHead(status, { 'Content-Type': 'application/json' });
  response.end(JSON.stringify(document));
}

const server = createServer((request, response) => {
  if (request.method === 'GET' && request.url === '/health') {
    answer(response, 200, { status: 'healthy', service: SERVICE_ID });
    return;
  }
  const taskId = /^\/tasks\/([^/]+)$/.exec(request.url)?.[1];
  if (request.method !== 'POST' || taskId === undefined) {
    answer(response, 404, { error: 'Not found' });
    return;
  }
  if (!(taskId in functions)) {
    answer(response, 404, { error: `Task '${taskId}' not found` });
    return;
  }
  const pieces = [];
  request.on('data', (piece) => pieces.push(piece));
  request.on('end', () => {
    // Nothing catches what is thrown here: a body that is not JSON ends the process.
    const dispatch = JSON.parse(Buffer.concat(pieces).toString('utf8'));
    answer(response, 202, { acknowledged: true, runId: dispatch.runId });
    carryOut(taskId, dispatch).catch((error) => console.error(`run ${dispatch.runId}: ${error}`));
  });
});

server.listen(Number(process.env.PORT ?? 0), async () => {
  const tasks = Object.entries(functions).map(([id, code]) => ({
    id,
    codeHash: createHash('sha256').update(code.toString()).digest('hex').slice(0, 16),
    allowedNext: allowedNext[id] ?? [],
    timeout: 300,
    retries: 3,
    retryBackoff: 'exponential',
    retryDelayMs: 1000,
    maxRetryDelayMs: 86400000,
    heartbeatIntervalMs: intervalMs,
    concurrency: 0,
    priority: 100,
    idempotencyTTL: 86400,
  }));
  const answered = await post(isMain ? '/api/register' : '/api/services', {
    serviceId: SERVICE_ID,
    version: '1.0.0',
    baseUrl: `http://localhost:${server.address().port}`,
    tasks,
  });
  if (!answered.ok) throw new Error(`registration failed: ${answered.status}`);
  const { codeChanges = [], orphanedTasks = [] } = await answered.json();
  if (codeChanges.length) console.log('code changes', codeChanges);
  if (orphanedTasks.length) console.log('orphaned', orphanedTasks);
  console.log(`listening on ${server.address().port}`);
});
