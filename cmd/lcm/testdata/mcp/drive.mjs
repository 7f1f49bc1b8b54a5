// Drives every tool of a server with the MCP SDK for TypeScript.
//
//   node drive.mjs VERSION stdio COMMAND ARGS…
//   node drive.mjs VERSION http URL
//
// stdin: {"calls": [{"tool": …, "args": …, "error": "code or empty"}]}; stdout: a report.
// The SDK itself holds each answer to the tool's output schema.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { readFileSync } from "node:fs";

const [version, kind, target, ...args] = process.argv.slice(2);
const { calls } = JSON.parse(readFileSync(0, "utf8"));
const transport = kind === "http"
  ? new StreamableHTTPClientTransport(new URL(target))
  : new StdioClientTransport({ command: target, args, env: process.env, stderr: "inherit" });

// The SDK always asks for the newest revision it knows.
const send = transport.send.bind(transport);
transport.send = (message, options) => {
  if (message.method === "initialize") message.params.protocolVersion = version;
  return send(message, options);
};
let negotiated = "";
const setVersion = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (v) => { negotiated = v; setVersion?.(v); };

const client = new Client({ name: "drive", version: "1" });
await client.connect(transport);
const { tools } = await client.listTools();
const answers = [];
for (const { tool, args, error } of calls) {
  const r = await client.callTool({ name: tool, arguments: args });
  const text = r.content.map((c) => c.text).join("");
  const code = r.isError ? JSON.parse(text).code : "";
  if (code !== (error ?? "")) throw new Error(`${tool} ${JSON.stringify(args)}: ${text}`);
  if (!r.isError && JSON.stringify(JSON.parse(text)) !== JSON.stringify(r.structuredContent)) throw new Error(`${tool}: text and structure differ`);
  answers.push({ tool, bytes: text.length });
}
await client.close();
console.log(JSON.stringify({ negotiated, tools: tools.map((t) => t.name), answers }));
