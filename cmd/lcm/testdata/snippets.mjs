import assert from "node:assert";
const { Lcm } = await import(process.argv[3]);
const lcm = new Lcm(process.argv[2]);
for (const again of [false, true]) {
  const out = await lcm.append("ts", [{ id: "m1", role: "user", content: "the port is 8420" }]);
  assert.equal(out.turns[0].duplicate, again);
}
assert.deepEqual((await lcm.call("context", { session: "ts" })).messages, [{ role: "user", content: "the port is 8420" }]);
assert.equal((await lcm.call("grep", { pattern: "port", session: "ts", fresh: true })).hits[0].entry, "e1");
await assert.rejects(lcm.call("describe", { id: "nothing" }), { code: "not_found" });
const request = { model: "m", messages: [{ role: "user", content: "hello" }] };
assert.deepEqual(await lcm.forward("fw2", request), request);
assert.deepEqual(await new Lcm("http://127.0.0.1:1").forward("fw2", request), request);
for await (const event of lcm.events("ts", "start")) {
  if (event.turn) { assert.equal(event.turn.text, "the port is 8420"); break; }
}
console.log("ok");
process.exit(0);
