// The package `ollama` for JavaScript at work: ollama_client.mjs BASE MODEL leave|stay GGUF
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { Ollama } from 'ollama';
import { all, error, tell } from './steps.mjs';

const [, , host, model, atTwo, gguf] = process.argv;
const short = { num_predict: 8, seed: 1, temperature: 0 };
const long = { ...short, num_predict: 400 };
const messages = [{ role: 'user', content: 'hello' }];
const client = new Ollama({ host });

// The package has no function for it: its users send the file themselves. As a stream it goes in chunks, else at once.
async function upload(digest, body) {
  return (await fetch(`${host}/api/blobs/${digest}`, { method: 'POST', body, duplex: 'half' })).status;
}

// A file that is not there yet: it goes with the last model that is made of it.
async function createFromFile() {
  const file = Buffer.concat([await readFile(gguf), Buffer.alloc(64)]);
  const digest = `sha256:${createHash('sha256').update(file).digest('hex')}`;
  const statuses = [await upload(digest, new Blob([file]).stream()), await upload(digest, file),
    await upload(`sha256:${'0'.repeat(64)}`, file)];
  const made = await all(client.create({ model: 'of-file', files: { 'new.gguf': digest }, stream: true,
    template: '{{ .Prompt }}', parameters: { num_thread: 1 } }));
  return [statuses, digest, made];
}

async function leaveAStream() {
  const stream = await client.generate({ model, prompt: 'x', stream: true, options: long });
  const parts = [];
  try {
    for await (const part of stream) {
      parts.push(part.response);
      if (parts.length === 2 && atTwo === 'leave') stream.abort();
    }
  } catch (failure) {
    if (failure.name !== 'AbortError') throw failure;
  }
  return [parts.slice(0, 2), (await client.generate({ model, prompt: 'y', options: short })).response];
}

tell('unload', await client.generate({ model, prompt: '', keep_alive: 0 }));
tell('show', await client.version());
tell('list', await client.list());
tell('show', await client.show({ model }));
tell('create', await all(client.create({ model: 'made', from: model, system: 'made', stream: true })));
tell('create', await client.create({ model: 'made-too', from: 'made', system: 'too' }));
tell('upload', await createFromFile());
tell('list', (await client.list()).models.map((one) => [one.model, one.digest]).sort());
tell('load', await client.generate({ model, prompt: '' }));
tell('list', (await client.ps()).models.map((one) => [one.model, one.digest, one.context_length]));
tell('generate', await client.generate({ model, prompt: 'hello', options: short }));
tell('generate', await client.generate({ model: 'made', prompt: 'hello', options: short }));
tell('generate', await client.generate({ model: 'of-file', prompt: 'hello', options: short, keep_alive: 0 }));
tell('stream', await all(client.generate({ model, prompt: 'hello', stream: true, options: short })));
tell('chat', await client.chat({ model, messages, options: short }));
tell('stream', await all(client.chat({ model, messages, stream: true, options: short })));
tell('embed', await client.embed({ model, input: ['a', 'b'] }));
tell('embed', await client.embeddings({ model, prompt: 'a' }));
tell('generate', (await Promise.all(['a', 'b', 'c'].map((prompt) =>
  client.generate({ model, prompt, options: short })))).map((answer) => answer.response));
tell('cancel', await leaveAStream());
tell('refuse', await error(client.generate({ model: 'none', prompt: 'x' })));
tell('copy', [await client.copy({ source: 'made', destination: 'copied' }),
  (await client.list()).models.map((one) => one.model).sort()]);
for (const name of ['copied', 'made-too', 'made', 'of-file']) tell('delete', await client.delete({ model: name }));
tell('refuse', await error(client.delete({ model: 'made' })));
tell('unload', await client.generate({ model, prompt: '', keep_alive: 0 }));
