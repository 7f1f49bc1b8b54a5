// lcm over HTTP, with fetch alone. Plain JavaScript is valid TypeScript: types are in
// the comments.
//
//   const lcm = new Lcm("http://127.0.0.1:8420");
//   await lcm.append("chat", [{ id: "m1", role: "user", content: "hello" }]);
//   const { messages } = await lcm.call("context", { session: "chat" });
//   const { hits } = await lcm.call("grep", { pattern: "hello" });

export class Lcm {
  /** @param {string} url @param {string} [token] */
  constructor(url = "http://127.0.0.1:8420", token = "") {
    Object.assign(this, { url: url.replace(/\/$/, ""), token });
  }

  /** @param {string} path @param {string} body */
  async post(path, body) {
    const headers = { "Content-Type": "application/json" };
    if (this.token) headers["Authorization"] = `Bearer ${this.token}`;
    const answer = await fetch(this.url + path, { method: "POST", headers, body });
    if (!answer.ok) {
      const { code, detail, hint } = await answer.json();
      throw Object.assign(new Error([code, detail, hint].filter(Boolean).join(": ")), { code });
    }
    return answer;
  }

  /** Run a tool; GET /v1/openapi.json describes them all. */
  async call(tool, parameters = {}) {
    return (await this.post(`/v1/${tool}`, JSON.stringify(parameters))).json();
  }

  /** Append turns. A turn with an id can be sent again: it is stored once. */
  async append(session, turns) {
    const query = new URLSearchParams({ session, format: "lcm" });
    return (await this.post(`/v1/append?${query}`, turns.map((t) => JSON.stringify(t)).join("\n"))).json();
  }

  /** What to send to the provider in place of a request with the whole history. It fails open. */
  async forward(session, request, window = 0) {
    const query = new URLSearchParams(window ? { session, window: String(window) } : { session });
    try {
      return await (await this.post(`/v1/context?${query}`, JSON.stringify(request))).json();
    } catch {
      return request;
    }
  }

  /** What happens to a session, from now or behind a token. */
  async *events(session, after = "") {
    const query = new URLSearchParams(after ? { session, after } : { session });
    const answer = await fetch(`${this.url}/v1/events?${query}`, { headers: this.token ? { Authorization: `Bearer ${this.token}` } : {} });
    let text = "";
    for await (const bytes of answer.body.pipeThrough(new TextDecoderStream())) {
      text += bytes;
      for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
        const data = text.slice(0, end).split("\n").find((line) => line.startsWith("data: "));
        if (data) yield JSON.parse(data.slice(6));
      }
    }
  }
}
