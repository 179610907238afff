// What the scripts share: they read calls as JSON from standard input, make them
// one after the other, and print what became of each as JSON on standard output.

import { text } from 'node:stream/consumers';

/**
 * Makes all calls and prints the outcomes. doers maps a call's `do` to an async
 * function that returns an outcome; describe turns a thrown error into plain data.
 */
export async function serve(doers, describe) {
  const { calls, fast } = JSON.parse(await text(process.stdin));
  const waits = fast ? hurry() : [];
  const outcomes = [];
  for (const call of calls) {
    waits.length = 0;
    let outcome;
    try {
      outcome = await doers[call.do](call);
    } catch (error) {
      outcome = { error: describe(error) };
    }
    outcomes.push({ ...outcome, waits_ms: [...waits] });
  }
  process.stdout.write(JSON.stringify(outcomes));
}

// Waits between half a second and three minutes are those before a retry; the
// clients' own timeouts are longer. Those of Node's fetch are none.
const least = 500;
const most = 180_000;
const fetchTimer = /\bnode:internal\//;

// hurry notes how long the client wants to wait before it asks again, and lets it
// ask at once, so that a test of long waits need not take them.
function hurry() {
  const waits = [];
  const real = globalThis.setTimeout;
  globalThis.setTimeout = (f, ms, ...rest) => {
    const [, , caller = ''] = new Error().stack.split('\n');
    if (ms < least || ms > most || fetchTimer.test(caller)) return real(f, ms, ...rest);
    waits.push(ms);
    return real(f, 0, ...rest);
  };
  return waits;
}

/** Aborts its signal once `after` pieces have been counted; never if it is 0. */
export function cutter(after) {
  const controller = new AbortController();
  let pieces = 0;
  return {
    signal: controller.signal,
    count() {
      pieces++;
      if (after && pieces >= after) controller.abort();
    },
    get pieces() {
      return pieces;
    },
  };
}

/** The parameters of the one tool that the calls offer. */
export const weather = {
  type: 'object',
  properties: { city: { type: 'string' }, days: { type: 'integer' } },
  required: ['city', 'days'],
};
