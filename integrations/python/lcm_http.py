"""lcm over HTTP, with the standard library alone.

    lcm = Lcm("http://127.0.0.1:8420")
    lcm.append("chat", {"id": "m1", "role": "user", "content": "hello"})
    messages = lcm.call("context", session="chat")["messages"]
    hits = lcm.call("grep", pattern="hello")["hits"]
"""

import json
import urllib.error
import urllib.parse
import urllib.request


class LcmError(Exception):
    """A problem: code, detail and hint."""

    def __init__(self, problem):
        self.code = problem.get("code", "unavailable")
        self.hint = problem.get("hint", "")
        super().__init__(": ".join(x for x in (self.code, problem.get("detail", ""), self.hint) if x))


class Lcm:
    def __init__(self, url="http://127.0.0.1:8420", token=None, timeout=60):
        self.url, self.token, self.timeout = url.rstrip("/"), token, timeout

    def _post(self, path, body):
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = "Bearer " + self.token
        request = urllib.request.Request(self.url + path, body, headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=self.timeout) as answer:
                return answer.read(), answer.headers
        except urllib.error.HTTPError as e:
            raise LcmError(json.loads(e.read())) from None

    def call(self, tool, **parameters):
        """Run a tool; GET /v1/openapi.json describes them all."""
        return json.loads(self._post("/v1/" + tool, json.dumps(parameters).encode())[0])

    def append(self, session, *turns, format="lcm"):
        """Append turns. A turn with an id can be sent again: it is stored once."""
        query = urllib.parse.urlencode({"session": session, "format": format})
        body = "\n".join(json.dumps(t) for t in turns).encode()
        out = json.loads(self._post("/v1/append?" + query, body)[0])
        for turn in out["turns"]:
            if turn.get("error"):
                raise LcmError({"code": turn.get("code", ""), "detail": turn["error"]})
        return out

    def forward(self, session, request, window=0):
        """What to send to the provider in place of request. It fails open."""
        query = {"session": session}
        if window:
            query["window"] = window
        try:
            body, _ = self._post("/v1/context?" + urllib.parse.urlencode(query), json.dumps(request).encode())
            return json.loads(body)
        except (LcmError, OSError):
            return request

    def turns(self, session, raw=False):
        """The turns of the session's current branch, in order."""
        cursor = ""
        while True:
            page = self.call("show", session=session, cursor=cursor, raw=raw)
            yield from (t for t in page["turns"] if not t["removed"])
            cursor = page.get("cursor", "")
            if not cursor:
                return
