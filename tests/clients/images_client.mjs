// The package `openai` for JavaScript draws and edits: images_client.mjs BASE SLOW LONG, with OPENAI_API_KEY. SLOW and
// LONG are prompts that take their time, LONG until nobody waits any more. The pictures to edit come from standard
// input: three files in base64, one in a line, the last of them the mask.
import fs from 'node:fs';
import OpenAI, { toFile } from 'openai';
import { all, error, tell } from './steps.mjs';

const [base, slow, long] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${base}/v1`, maxRetries: 0 });
const { images } = client;
const [one, other, mask] = fs.readFileSync(0, 'utf8').trim().split('\n').map((line) => Buffer.from(line, 'base64'));
const boat = { model: 'gpt-image-1', prompt: 'a red boat', size: '256x256' };
const blue = { model: 'gpt-image-1', prompt: 'make it blue', size: '256x256' };
const start = (text) => Buffer.from(text, 'base64').subarray(0, 4).toString('hex');
const starts = (answer) => answer.data.map((each) => start(each.b64_json));
const kinds = async (stream) => (await all(stream)).map((event) => event.type);

// A client that has enough after a moment.
async function leave() {
  const enough = new AbortController();
  const stream = await images.generate(
    { ...boat, prompt: long, size: '1024x1024', stream: true, partial_images: 3 }, { signal: enough.signal });
  setTimeout(() => enough.abort(), 50);
  return all(stream).then((events) => events.every((event) => event.type.endsWith('partial_image')), () => true);
}

tell('draw', starts(await images.generate(boat)));
tell('stream', await kinds(images.generate({ ...boat, prompt: slow, stream: true, partial_images: 2 })));
tell('edit', starts(await images.edit({ ...blue, image: await toFile(one, 'a.png', { type: 'image/png' }) })));
tell('edit', starts(await images.edit({
  ...blue, image: [await toFile(one, 'a.png'), await toFile(other, 'b.png')], mask: await toFile(mask, 'm.png') })));
tell('stream', await kinds(images.edit({ ...blue, stream: true, image: await toFile(one, 'a.png') })));
tell('leave', await leave());
tell('refuse', (await error(images.generate({ ...boat, size: '7x7' }))).slice(1, 2));
