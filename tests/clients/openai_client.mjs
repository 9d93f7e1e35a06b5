// The package `openai` for JavaScript at work: openai_client.mjs BASE MODEL leave|stay
import OpenAI from 'openai';
import { all, error, tell } from './steps.mjs';

const [, , base, model, atTwo] = process.argv;
const call = { model, temperature: 0, seed: 1 };
const short = { ...call, max_tokens: 8 };
const messages = [{ role: 'user', content: 'hello' }];
const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: 'unused', maxRetries: 0 });
const { chat, completions, embeddings, models, responses } = client;

async function leaveAStream() {
  const stream = await chat.completions.create({ ...call, messages, max_tokens: 400, stream: true });
  const parts = [];
  for await (const part of stream) {
    parts.push(part.choices[0].delta.content);
    if (parts.length === 2 && atTwo === 'leave') break;
  }
  return [parts.slice(0, 2), (await chat.completions.create({ ...short, messages })).choices[0].message.content];
}

tell('list', await all(models.list()));
tell('list', (await all(models.list())).map((one) => one.id));
tell('show', await models.retrieve(model));
tell('chat', await chat.completions.create({ ...short, messages }));
tell('stream', await all(chat.completions.create(
  { ...short, messages, stream: true, stream_options: { include_usage: true } })));
tell('generate', await completions.create({ ...short, prompt: 'a' }));
tell('stream', await all(completions.create({ ...short, prompt: 'a', stream: true })));
const response = { model, input: 'a', max_output_tokens: 8, temperature: 0 };
tell('generate', await responses.create(response));
tell('stream', await all(responses.create({ ...response, stream: true })));
tell('embed', await embeddings.create({ model, input: ['a', 'b'] }));
tell('embed', await embeddings.create({ model, input: 'a', encoding_format: 'float' }));
tell('generate', (await Promise.all(['a', 'b', 'c'].map((prompt) => completions.create({ ...short, prompt }))))
  .map((answer) => answer.choices[0].text));
tell('cancel', await leaveAStream());
tell('refuse', await error(chat.completions.create({ model: 'none', messages })));
tell('refuse', await error(chat.completions.create({ model, messages: [] })));
tell('refuse', await error(models.retrieve('none')));
