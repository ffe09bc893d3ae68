/** Asks the server. Addresses are relative, so the token of the page is never handled here. */
import { signal } from '@preact/signals';
import { beginWork } from '../state/work';
import { decodeFrame, type Frame } from './frame';

export type Parameters = Record<string, string | number | null | undefined>;

export interface Question {
  path: string;
  parameters: Parameters;
}

/** A mistake in words: the server's own, or that it did not answer. */
export interface Problem {
  message: string;
  hint: string | null;
  isStopped: boolean;
}

export class ProblemError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.message);
  }
}

/** Whether the last request reached the server. */
export const isServerGone = signal(false);

export function addressOf({ path, parameters }: Question): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== '') query.set(name, String(value));
  }
  const text = query.toString();
  return text ? `api/${path}?${text}` : `api/${path}`;
}

async function askBytes(question: Question, abort?: AbortSignal): Promise<ArrayBuffer> {
  const end = beginWork();
  try {
    const answer = await fetch(addressOf(question), { ...(abort ? { signal: abort } : {}), credentials: 'same-origin' });
    const bytes = await answer.arrayBuffer();
    isServerGone.value = false;
    if (!answer.ok) throw new ProblemError(problemOf(bytes, answer.status));
    return bytes;
  } catch (error) {
    if (error instanceof TypeError) {
      isServerGone.value = true;
      throw new ProblemError({ message: error.message, hint: null, isStopped: true });
    }
    throw error;
  } finally {
    end();
  }
}

function problemOf(bytes: ArrayBuffer, status: number): Problem {
  try {
    const { error } = JSON.parse(new TextDecoder().decode(bytes)) as { error: { message: string; hint: string | null } };
    return { message: error.message, hint: error.hint, isStopped: false };
  } catch {
    return { message: `HTTP ${status}`, hint: null, isStopped: false };
  }
}

export async function askJson<Answer>(question: Question, abort?: AbortSignal): Promise<Answer> {
  return JSON.parse(new TextDecoder().decode(await askBytes(question, abort))) as Answer;
}

export async function askFrame<Info>(question: Question, abort?: AbortSignal): Promise<Frame<Info>> {
  return decodeFrame<Info>(await askBytes(question, abort));
}
