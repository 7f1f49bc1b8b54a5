// Writes OpenAI's answer into every line of oracle.jsonl, and those of the
// shared transcripts into transcripts.json where these are. To add a case, add
// a line without "tokens" and run, outside of the repository:
//
//	npm install tiktoken@1.0.22
//	node oracle.mjs <this directory> [<directory of transcripts>]
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { get_encoding } from "tiktoken";

const [, , here, transcripts] = process.argv;
const encoding = get_encoding("o200k_base");
const count = (text) => encoding.encode_ordinary(text).length;

const file = join(here, "oracle.jsonl");
const cases = readFileSync(file, "utf8").trimEnd().split("\n").map((line) => JSON.parse(line));
for (const c of cases) c.tokens = count(c.text.repeat(c.repeat ?? 1));
writeFileSync(file, cases.map((c) => JSON.stringify(c) + "\n").join(""));

if (transcripts) {
  const counts = {};
  for (const name of readdirSync(transcripts).filter((name) => name.includes(".json"))) {
    counts[name] = count(readFileSync(join(transcripts, name), "utf8"));
  }
  writeFileSync(join(here, "transcripts.json"), JSON.stringify(counts, null, "\t") + "\n");
}
