"""What the phantom says over HTTP, in each dialect."""

from __future__ import annotations

import json
from typing import Any

from bunny_probe.phantom import Behaviour, Phantom


async def test_a_stream_opens_with_the_role_and_ends_with_done(reliable: Phantom, ask: Any, request_body: Any):
    """The first delta is the role alone; then content, the finish reason, usage without choices, and [DONE]."""
    raw = await ask(reliable, request_body())
    assert raw.status == 200
    assert raw.headers["content-type"].startswith("text/event-stream")
    first, *_, finish, usage = raw.payloads
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert finish["choices"][0]["finish_reason"] == "stop"
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 8
    assert raw.data[-1] == "[DONE]"
    assert raw.text == "KX-4410-T"


async def test_every_answer_is_marked_a_phantoms(reliable: Phantom, ask: Any, request_body: Any):
    """Model name and fingerprint begin with "phantom", in each dialect."""
    for path in ("/v1/chat/completions", "/v1/completions", "/v1/messages"):
        body = {**request_body(stream=False, max_tokens=50), "prompt": "Hello"}
        answer = json.loads((await ask(reliable, body, path=path)).body)
        assert answer["model"].startswith("phantom")
        assert "phantom" in answer["id"]
        assert answer.get("system_fingerprint", "phantom").startswith("phantom")


async def test_models_answer_to_both_names_and_an_unknown_one_is_a_404(ask: Any, request_body: Any):
    """One phantom serves several models, each under its name with and without the prefix."""
    with Phantom([Behaviour(name="right"), Behaviour(name="wrong", recall=0)]) as phantom:
        listed = json.loads((await ask(phantom, path="/v1/models")).body)
        assert [m["id"] for m in listed["data"]] == ["phantom-right", "phantom-wrong"]
        for name, text in (("right", "KX-4410-T"), ("phantom-right", "KX-4410-T")):
            assert (await ask(phantom, request_body(model=name))).text == text
        assert (await ask(phantom, request_body(model="wrong"))).text not in ("KX-4410-T", "ZB-9982-Q")
        missing = await ask(phantom, request_body(model="other"))
        assert missing.status == 404
        assert json.loads(missing.body)["error"]["code"] == "model_not_found"
