// Calls through the official client for Node, unmodified but for its base URL.

import OpenAI from 'openai';
import { cutter, serve, weather } from './calls.mjs';

const client = (c) =>
  new OpenAI({ baseURL: c.base, apiKey: c.key, maxRetries: c.retries, defaultHeaders: c.headers });

const messages = (c) => [{ role: 'user', content: c.prompt }];

const chatTools = [{ type: 'function', function: { name: 'weather', parameters: weather } }];

const usage = (u) => u && { in: u.prompt_tokens, out: u.completion_tokens ?? 0, total: u.total_tokens };

const responseUsage = (u) => u && { in: u.input_tokens, out: u.output_tokens, total: u.total_tokens };

async function chat(c, more = {}) {
  const { data: r, response } = await client(c)
    .chat.completions.create({ model: c.model, messages: messages(c), ...more })
    .withResponse();
  const { message, finish_reason } = r.choices[0];
  const call = message.tool_calls?.[0]?.function;
  return {
    text: message.content ?? '', finish: finish_reason, usage: usage(r.usage),
    tool: call && { name: call.name, arguments: call.arguments }, task: response.headers.get('headgate-task-id') ?? '',
  };
}

async function chatStream(c, more = {}) {
  const cut = cutter(c.cancel_after);
  const stream = await client(c).chat.completions.create(
    { model: c.model, messages: messages(c), stream: true, stream_options: { include_usage: true }, ...more },
    { signal: cut.signal },
  );
  const out = { text: '', finish: '' };
  for await (const chunk of stream) {
    cut.count();
    const choice = chunk.choices[0];
    out.text += choice?.delta.content ?? '';
    out.finish = choice?.finish_reason ?? out.finish;
    out.usage = usage(chunk.usage) ?? out.usage;
    const call = choice?.delta.tool_calls?.[0]?.function;
    if (call) {
      out.tool ??= { name: '', arguments: '' };
      out.tool.name += call.name ?? '';
      out.tool.arguments += call.arguments ?? '';
    }
  }
  return { ...out, pieces: cut.pieces, cancelled: cut.signal.aborted };
}

async function completion(c) {
  const r = await client(c).completions.create({ model: c.model, prompt: c.prompt });
  return { text: r.choices[0].text, finish: r.choices[0].finish_reason, usage: usage(r.usage) };
}

async function completionStream(c) {
  const stream = await client(c).completions.create({
    model: c.model, prompt: c.prompt, stream: true, stream_options: { include_usage: true },
  });
  const out = { text: '', finish: '', pieces: 0 };
  for await (const chunk of stream) {
    out.pieces++;
    out.text += chunk.choices[0]?.text ?? '';
    out.finish = chunk.choices[0]?.finish_reason ?? out.finish;
    out.usage = usage(chunk.usage) ?? out.usage;
  }
  return out;
}

async function response(c) {
  const r = await client(c).responses.create({ model: c.model, input: c.prompt });
  return { text: r.output_text, finish: r.status, usage: responseUsage(r.usage) };
}

async function responseStream(c) {
  const stream = await client(c).responses.create({ model: c.model, input: c.prompt, stream: true });
  const out = { text: '', finish: '', pieces: 0 };
  for await (const event of stream) {
    out.pieces++;
    if (event.type === 'response.output_text.delta') out.text += event.delta;
    if (event.type === 'response.completed') {
      out.finish = event.response.status;
      out.usage = responseUsage(event.response.usage);
    }
  }
  return out;
}

async function embedding(c) {
  const r = await client(c).embeddings.create({ model: c.model, input: [c.prompt, 'another'] });
  return { vectors: r.data.map((d) => d.embedding.slice(0, 4)), usage: usage(r.usage) };
}

async function models(c) {
  const names = [];
  for await (const m of client(c).models.list()) names.push(m.id);
  return { models: names };
}

const force = { tools: chatTools, tool_choice: 'required' };

await serve(
  {
    chat, chat_stream: chatStream, completion, completion_stream: completionStream, response,
    response_stream: responseStream, embedding, models,
    tool: (c) => chat(c, force), tool_stream: (c) => chatStream(c, force),
  },
  (e) => ({
    class: e.constructor.name, message: e.message, status: e.status ?? 0, code: e.code ?? '', type: e.type ?? '',
    retry_after: e.headers?.get?.('retry-after') ?? '',
  }),
);
