// Calls through the AI SDK and its provider for OpenAI-compatible endpoints.

import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { embedMany, generateText, jsonSchema, streamText, tool } from 'ai';
import { cutter, serve, weather } from './calls.mjs';

const provider = (c) =>
  createOpenAICompatible({ name: 'gate', baseURL: c.base, apiKey: c.key, headers: c.headers, includeUsage: true });

const tools = { weather: tool({ inputSchema: jsonSchema(weather) }) };

const usage = (u) => ({ in: u.inputTokens ?? 0, out: u.outputTokens ?? 0, total: u.totalTokens ?? 0 });

const called = (calls) => calls[0] && { name: calls[0].toolName, arguments: JSON.stringify(calls[0].input) };

const generate = (model) => async (c, more = {}) => {
  const r = await generateText({ model: model(c), prompt: c.prompt, maxRetries: c.retries, ...more });
  return {
    text: r.text, finish: r.finishReason, usage: usage(r.usage), tool: called(r.toolCalls),
    task: r.response.headers?.['headgate-task-id'] ?? '',
  };
};

const stream = (model) => async (c, more = {}) => {
  const cut = cutter(c.cancel_after);
  const r = streamText({
    model: model(c), prompt: c.prompt, maxRetries: c.retries, abortSignal: cut.signal, onError() {}, ...more,
  });
  const out = { text: '', finish: '' };
  const calls = [];
  for await (const part of r.fullStream) {
    switch (part.type) {
      case 'error':
        throw part.error;
      case 'text-delta':
        cut.count();
        out.text += part.text;
        break;
      case 'tool-call':
        calls.push(part);
        break;
      case 'finish':
        out.finish = part.finishReason;
        out.usage = usage(part.totalUsage);
    }
  }
  return { ...out, tool: called(calls), pieces: cut.pieces, cancelled: cut.signal.aborted };
};

async function embedding(c) {
  const r = await embedMany({
    model: provider(c).textEmbeddingModel(c.model), values: [c.prompt, 'another'], maxRetries: c.retries,
  });
  return { vectors: r.embeddings.map((v) => v.slice(0, 4)), usage: { in: r.usage.tokens, out: 0, total: r.usage.tokens } };
}

const chatModel = (c) => provider(c).chatModel(c.model);
const completionModel = (c) => provider(c).completionModel(c.model);
const force = { tools, toolChoice: 'required' };

await serve(
  {
    chat: generate(chatModel), chat_stream: stream(chatModel),
    completion: generate(completionModel), completion_stream: stream(completionModel), embedding,
    tool: (c) => generate(chatModel)(c, force), tool_stream: (c) => stream(chatModel)(c, force),
  },
  (e) => {
    const last = e.lastError ?? e; // of an error that sums up the retries
    return {
      class: last.name ?? last.constructor.name, message: String(last.message ?? last), status: last.statusCode ?? 0,
      code: last.data?.error?.code ?? '', type: last.data?.error?.type ?? '',
      retry_after: last.responseHeaders?.['retry-after'] ?? '', retryable: last.isRetryable ?? false,
    };
  },
);
