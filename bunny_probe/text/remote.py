"""A counter from the endpoint's own `/tokenize`: the server counts, so the count is the server's.

Two kinds of server answer there. One takes a list of texts and gives their counts in one reply; vLLM's
takes one text a request. With the first, counting a prompt takes one request for every 2,048 sentences.
With the second, sentences are counted 64 to a request and their shares estimated from their lengths; the
finished prompt is measured whole and corrected, so its length is exact all the same: for n sentences at
most n / 64 + 32 long requests and a few dozen short ones. What was counted once is kept.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from bunny_probe.errors import EndpointError, EndpointUnreachable, ProtocolError, Unauthorised
from bunny_probe.records import Message
from bunny_probe.text.counting import BORDERS, learn_border

if TYPE_CHECKING:
    import httpx

__all__ = ["EndpointCounter"]

_BATCH = 2048  # texts a request, where the server takes lists
_GROUP = 64  # sentences a request, where it does not
_KEEP = 50_000  # counts kept
_SHORT = 400  # characters of a text whose count is kept


class EndpointCounter:
    """Counts with `POST <root>/tokenize`, where `<root>` is `url` without a trailing `/v1`.

    `auth` gives the headers that carry the credential, and is called for each request: nothing of it is
    kept. Raises `EndpointUnreachable`, `Unauthorised`, or `EndpointError` when there is no `/tokenize`.
    """

    exact = True
    verify_below = 16_384

    def __init__(
        self,
        url: str,
        model: str | None = None,
        *,
        auth: Callable[[], Mapping[str, str]] | None = None,
        timeout: float = 120.0,
        client: httpx.Client | None = None,
    ) -> None:
        import httpx

        parts = urlsplit(url)
        path = parts.path.rstrip("/").removesuffix("/v1")
        self._url = urlunsplit((parts.scheme, parts.netloc, f"{path}/tokenize", "", ""))
        self._model, self._auth = model, auth
        self._client = client or httpx.Client(timeout=timeout)
        self._known: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()
        self.requests = 0  # made so far
        self.fingerprint = "endpoint:" + hashlib.sha256(f"{self._url} {model}".encode()).hexdigest()[:16]
        # Text as a message holds it: without the model's opening token, and with markers such as <|im_end|>
        # read as the characters that they are.
        self._as_text: dict[str, Any] = {"add_special_tokens": False, "parse_special": False}
        if self._refuses({"prompt": "one", **self._as_text}):
            del self._as_text["parse_special"]  # a server that knows no such field, and says so
        self._lists = self._takes_lists()
        self._check_sense()
        self._border = learn_border(self.counts, None if self._lists else 10)
        self.additive = self._border is not None and self._lists
        self.guard = 1 if self._border in ("guarded", None) else 0

    def close(self) -> None:
        self._client.close()

    def counts(self, texts: Sequence[str]) -> list[int]:
        with self._lock:
            known = {text: self._known[text] for text in texts if text in self._known}
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        if self._lists:
            for start in range(0, len(missing), _BATCH):
                batch = missing[start : start + _BATCH]
                known.update(zip(batch, self._post_list(batch), strict=True))
        else:
            known.update((text, self._post({"prompt": text, **self._as_text})) for text in missing)
        self._keep({text: known[text] for text in missing if len(text) <= _SHORT})
        return [known[text] for text in texts]

    def following(self, texts: Sequence[str]) -> list[int]:
        lead = BORDERS[self._border or "guarded"]
        if not self._lists and len(texts) > _GROUP:
            return self._in_groups(texts, lead)
        found = self.counts([lead + text for text in texts])
        off = self.counts([lead.rstrip()])[0] if self.guard else 0
        return [count - off for count in found]

    def chat(self, messages: Sequence[Message]) -> int:
        listed = [{"role": m.role, "content": m.content} for m in messages]
        return self._post({"messages": listed, "add_generation_prompt": True})

    def _in_groups(self, texts: Sequence[str], lead: str) -> list[int]:
        """Counts whose sums over each group are measured and whose shares go by length."""
        groups = [texts[start : start + _GROUP] for start in range(0, len(texts), _GROUP)]
        totals = self.counts([lead + " ".join(group) for group in groups])
        off = self.counts([lead.rstrip()])[0] if self.guard else 0
        found: list[int] = []
        for group, total in zip(groups, totals, strict=True):
            width = sum(map(len, group))
            before = done = 0
            for text in group:
                before += len(text)
                share = round((total - off) * before / width) - done
                found.append(share)
                done += share
        return found

    def _check_sense(self) -> None:
        """A server that counts nothing, or one token whatever the text, would let a prompt grow for ever."""
        short, long = self.counts(["one", "one two three four five six seven eight nine ten " * 50])
        if not 0 < short < long:
            raise ProtocolError(
                f"{self._url} counts {short} tokens for a word and {long} for five hundred; name a tokenizer "
                "file instead"
            )

    def _refuses(self, body: Mapping[str, Any]) -> bool:
        return self._send(body)[0] in (400, 422)

    def _takes_lists(self) -> bool:
        body = {"prompt": ["one", "one two"], **self._as_text, "count_only": True}
        status, data = self._send(body)
        return status == 200 and isinstance(data.get("counts"), list) and len(data["counts"]) == 2

    def _post_list(self, texts: Sequence[str]) -> list[int]:
        status, data = self._send({"prompt": list(texts), **self._as_text, "count_only": True})
        counts = data.get("counts")
        if status != 200 or not isinstance(counts, list) or len(counts) != len(texts):
            raise ProtocolError(f"{self._url} gave no list of {len(texts)} counts (status {status})")
        return [int(count) for count in counts]

    def _post(self, body: Mapping[str, Any]) -> int:
        status, data = self._send(body)
        if status != 200 or not isinstance(data.get("count"), int):
            raise ProtocolError(f"{self._url} gave no count (status {status}); name a tokenizer file instead")
        return int(data["count"])

    def _send(self, body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        import httpx

        if self._model is not None:
            body = {"model": self._model, **body}
        try:
            response = self._client.post(
                self._url, json=body, headers=dict(self._auth()) if self._auth else None
            )
        except httpx.HTTPError as error:
            raise EndpointUnreachable(f"{self._url} does not answer ({type(error).__name__})") from None
        with self._lock:
            self.requests += 1
        if response.status_code in (401, 403):
            raise Unauthorised(f"{self._url} refuses the key (status {response.status_code})")
        if response.status_code in (404, 405):
            raise EndpointError(f"{self._url} does not exist; name a tokenizer file instead")
        try:
            data = response.json()
        except ValueError:
            data = {}
        return response.status_code, data if isinstance(data, dict) else {}

    def _keep(self, counts: Mapping[str, int]) -> None:
        with self._lock:
            self._known.update(counts)
            while len(self._known) > _KEEP:
                self._known.popitem(last=False)
