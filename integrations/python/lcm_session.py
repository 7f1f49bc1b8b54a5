"""A session of the OpenAI Agents SDK that lcm keeps.

    from agents import Agent, Runner
    from lcm_session import LcmSession

    result = await Runner.run(agent, "hello", session=LcmSession("chat"))

Items come back as they were given. pop_item and clear_session take items out of
the conversation; lcm keeps them.
"""

import asyncio
import json

from lcm_http import Lcm, LcmError

# Items that lcm reads as turns; others are kept as they are, in a turn of their own.
_ITEMS = {"message", "reasoning", "function_call", "function_call_output", "custom_tool_call",
          "custom_tool_call_output", "local_shell_call", "local_shell_call_output", "web_search_call"}
_WRAPPED = "openai-agents item"
_NO_IDS = {"", "__fake_id__"}  # what the SDK writes for models that give none


class LcmSession:
    session_settings = None

    def __init__(self, session_id, lcm=None):
        self.session_id, self.lcm = session_id, lcm or Lcm()

    async def get_items(self, limit=None):
        items = [item for _, item in await asyncio.to_thread(self._items)]
        return items if limit is None else items[-limit:] if limit > 0 else []

    async def add_items(self, items):
        await asyncio.to_thread(self._add, list(items))

    async def pop_item(self):
        return await asyncio.to_thread(self._pop)

    async def clear_session(self):
        await asyncio.to_thread(self._next)

    # A cleared session goes on under another name: what was said stays.
    def _name(self):
        prefix = self.session_id + "~"
        names = [s["session"] for s in self._sessions(prefix)]
        numbers = [int(n[len(prefix):]) for n in names if n[len(prefix):].isdigit()]
        return prefix + str(max(numbers)) if numbers else self.session_id

    def _sessions(self, prefix):
        after = ""
        while True:
            page = self.lcm.call("sessions", prefix=prefix, after=after, fresh=True)
            yield from page["sessions"]
            after = page.get("next", "")
            if not after:
                return

    def _next(self):
        name = self._name()
        n = int(name[len(self.session_id) + 1:]) if name != self.session_id else 1
        self.lcm.append(f"{self.session_id}~{n + 1}", {"id": "begin", "role": "developer", "content": "(cleared)"})

    def _turns(self):
        try:
            for turn in self.lcm.turns(self._name(), raw=True):
                if turn["id"] != "begin":
                    yield turn
        except LcmError as e:
            if e.code != "not_found":
                raise

    def _items(self):
        for turn in self._turns():
            raw = json.loads(turn["raw"])
            yield turn, raw["content"][0] if raw.get("sender") == _WRAPPED else raw

    def _add(self, items):
        name, run, kind = self._name(), [], None
        for item in items:
            item = {k: v for k, v in item.items() if k != "id" or v not in _NO_IDS}
            if "role" in item and "type" not in item:
                item["type"] = "message"
            this = "codex" if item.get("type") in _ITEMS else "lcm"
            if this == "lcm":
                item = {"role": "assistant", "sender": _WRAPPED, "content": [item]}
            if run and this != kind:
                self.lcm.append(name, *run, format=kind)
                run = []
            kind = this
            run.append(item)
        if run:
            self.lcm.append(name, *run, format=kind)

    def _pop(self):
        items = list(self._items())
        if not items:
            return None
        turns = [t for t, _ in items]
        if len(turns) == 1:
            self._next()
        else:
            self.lcm.call("move", session=self._name(), to=turns[-2]["entry"])
        return items[-1][1]
