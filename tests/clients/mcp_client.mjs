// The packages of MCP for JavaScript at work, the present one (v2) and the one before (v1):
// mcp_client.mjs v1|v2 MODE URL, or v1|v2 MODE COMMAND ARGUMENT…, with TOKEN.
import { tell } from './steps.mjs';

const [, , line, mode, ...target] = process.argv;
const modern = line === 'v2';
const root = modern ? '@modelcontextprotocol/client' : '@modelcontextprotocol/sdk/client';
const { Client } = await import(modern ? root : `${root}/index.js`);
const { StdioClientTransport } = await import(modern ? `${root}/stdio` : `${root}/stdio.js`);
const { StreamableHTTPClientTransport } = await import(modern ? root : `${root}/streamableHttp.js`);

const transport = target[0].startsWith('http')
  ? new StreamableHTTPClientTransport(new URL(target[0]), {
    requestInit: { headers: { Authorization: `Bearer ${process.env.TOKEN}` } } })
  : new StdioClientTransport({ command: target[0], args: target.slice(1), stderr: 'inherit' });
const negotiation = /^\d/.test(mode) ? { pin: mode } : mode;
const client = new Client({ name: 'kuno-tests', version: '1.0.0' },
  modern ? { versionNegotiation: { mode: negotiation } } : {});
const call = (name, args, options) => (modern
  ? client.callTool({ name, arguments: args }, options)
  : client.callTool({ name, arguments: args }, undefined, options));

async function refused(promise) {
  try {
    return (await promise).isError;
  } catch (failure) {
    return failure.code;
  }
}

async function draw() {
  const told = [];
  const result = await call('generate_image', { prompt: 'a boat, steps=20 ms=20', seed: '7' },
    { onprogress: ({ progress }) => told.push(progress) });
  const link = result.content.find((block) => block.type === 'resource_link');
  const whole = (await client.readResource({ uri: link.uri })).contents[0];
  return [result.content.map((block) => block.type), result.structuredContent.images[0].seed,
    told.length > 1 && told.every((at, i) => !i || at > told[i - 1]),
    Buffer.from(whole.blob, 'base64').length === link.size];
}

// A call is given up after it has told of progress.
async function leave() {
  const enough = new AbortController();
  const slow = call('generate_image', { prompt: 'steps=500 ms=20' },
    { signal: enough.signal, onprogress: ({ progress }) => progress > 0 && enough.abort('enough') });
  return [await slow.then(() => 'answered', () => 'left'), (await call('get_status', {})).isError];
}

await client.connect(transport);
tell('server', client.getServerVersion()?.name);
tell('tools', (await client.listTools()).tools.length);
tell('status', (await call('get_status', {})).structuredContent.model);
tell('draw', await draw());
tell('fail', (await call('get_job', { job_id: `job_${'0'.repeat(26)}` })).isError);
tell('refuse', await refused(call('no_such_tool', {})));
tell('leave', await leave());
await client.close();
process.exit(0);
