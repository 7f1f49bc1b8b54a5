import asyncio, sys
sys.path.insert(0, sys.argv[2])
from lcm_http import Lcm, LcmError
from lcm_session import LcmSession

lcm = Lcm(sys.argv[1])
for again in (False, True):
    out = lcm.append("py", {"id": "m1", "role": "user", "content": "the port is 8420"})
    assert out["turns"][0]["duplicate"] == again, out
assert lcm.call("context", session="py")["messages"] == [{"role": "user", "content": "the port is 8420"}]
assert lcm.call("grep", pattern="port", session="py", fresh=True)["hits"][0]["entry"] == "e1"
try:
    lcm.call("describe", id="nothing")
    raise SystemExit("a session that is not there was described")
except LcmError as e:
    assert e.code == "not_found" and e.hint, e
request = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
assert lcm.forward("fw", request) == request
assert Lcm("http://127.0.0.1:1").forward("fw", request) == request

ITEMS = [
    {"role": "user", "content": "what is 2+2?", "type": "message"},
    {"id": "rs_1", "type": "reasoning", "summary": []},
    {"id": "fc_1", "type": "function_call", "call_id": "c1", "name": "add", "arguments": "{\"a\": 2}", "status": "completed"},
    {"type": "function_call_output", "call_id": "c1", "output": "4"},
    {"id": "x_1", "type": "file_search_call", "queries": ["é"], "status": "completed", "results": None},
    {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
     "content": [{"type": "output_text", "text": "4", "annotations": []}]},
]

async def main():
    s = LcmSession("agent", lcm)
    assert await s.get_items() == []
    await s.add_items(ITEMS[:3])
    await s.add_items(ITEMS[3:])
    assert await s.get_items() == ITEMS, await s.get_items()
    assert await s.get_items(2) == ITEMS[-2:]
    assert await s.pop_item() == ITEMS[-1]
    assert await s.pop_item() == ITEMS[-2]
    assert await LcmSession("agent", lcm).get_items() == ITEMS[:-2]
    await s.add_items([{"id": "__fake_id__", **ITEMS[-1], "id": "__fake_id__"}, {"id": "__fake_id__", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "5", "annotations": []}]}])
    assert len(await s.get_items()) == len(ITEMS)
    await s.clear_session()
    assert await s.get_items() == [] and await s.pop_item() is None
    await s.add_items(ITEMS[:1])
    assert await s.get_items() == ITEMS[:1]
    assert await s.pop_item() == ITEMS[0] and await s.get_items() == []

asyncio.run(main())
print("ok")
