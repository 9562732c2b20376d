// Server-sent events over fetch, which can send the header Authorization where an EventSource cannot.

const LONGEST_EVENT = 64 * 2 ** 20;
const RETRY_MILLISECONDS = [1000, 30000];
const SILENT_MILLISECONDS = 60000;

export class SignInError extends Error {}

/** Reads a stream until the signal, and opens it again whenever it ends.
 *
 * @param {string} path relative to the page
 * @param {() => string} token the bearer token; empty: none is sent, because a proxy before the board may add one
 * @param {(name: string, data: object) => void} receive
 * @param {(message: string) => void} lost called when the stream has ended, with the reason
 * @throws {SignInError} the board wants another token
 */
export async function follow(path, token, receive, lost, signal) {
  let retry = RETRY_MILLISECONDS[0];
  while (!signal.aborted) {
    try {
      const response = await request(path, token, signal);
      retry = RETRY_MILLISECONDS[0];
      await read(response.body, receive);
      lost("The board has closed the connection.");
    } catch (error) {
      if (signal.aborted) {
        return;
      }
      if (error instanceof SignInError) {
        throw error;
      }
      lost(error.message);
    }
    await new Promise((resolve) => setTimeout(resolve, retry));
    retry = Math.min(2 * retry, RETRY_MILLISECONDS[1]);
  }
}

/** Sends a request with the token; throws for any answer but a success. */
export async function request(path, token, signal) {
  const value = token();
  const response = await fetch(new URL(path, document.baseURI), {
    headers: value ? { Authorization: `Bearer ${value}` } : {},
    credentials: "same-origin",
    redirect: "error",
    signal,
  });
  if (response.status === 401) {
    throw new SignInError((await response.json().catch(() => ({}))).message ?? "Sign in.");
  }
  if (!response.ok) {
    throw new Error(`The board answers ${response.status}: ${(await response.text()).slice(0, 300)}`);
  }
  return response;
}

async function read(body, receive) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await withDeadline(reader);
    if (done) {
      return;
    }
    rest += value;
    const events = rest.split("\n\n");
    rest = events.pop();
    if (rest.length > LONGEST_EVENT) {
      await reader.cancel();
      throw new Error("The board has sent an event that is too long.");
    }
    for (const event of events) {
      const [, name, data] = /^event: (\w+)\ndata: (.*)$/.exec(event) ?? [];
      if (name) {
        receive(name, JSON.parse(data));
      }
    }
  }
}

async function withDeadline(reader) {
  let timer;
  const silent = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("The board has sent nothing for a minute.")), SILENT_MILLISECONDS);
  });
  try {
    return await Promise.race([reader.read(), silent]);
  } catch (error) {
    reader.cancel().catch(() => {});
    throw error;
  } finally {
    clearTimeout(timer);
  }
}
