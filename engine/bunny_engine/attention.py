"""Scaled dot-product attention with grouped queries, without masks and without repeated keys.

A prompt's chunk sees the past whole and itself causally: two partial softmaxes, merged by their log-sum-exp
(online softmax, Milakov and Gimelshein, 1805.02867). The queries that share a key head are stacked as rows.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["attend_chunk", "attend_one", "attend_places", "attend_window", "merge", "partial"]

Partial = tuple[Tensor, Tensor]  # output [heads, rows, head_dim] and log-sum-exp [heads, rows], float32


def attend_chunk(q: Tensor, k: Tensor, v: Tensor, past_k: Tensor, past_v: Tensor) -> Tensor:
    """Attention of a chunk to itself and to what lies before it.

    q [n, heads, dh], k and v [n, kv_heads, dh], past_k and past_v [kv_heads, past, dh]; gives [n, heads · dh].
    """
    n, heads, dh = q.shape
    kv_heads = k.shape[1]
    group = heads // kv_heads
    own_k = k.transpose(0, 1).repeat_interleave(group, 0)
    own_v = v.transpose(0, 1).repeat_interleave(group, 0)
    own = partial(q.transpose(0, 1), own_k, own_v, causal=True)
    if past_k.shape[1]:
        rows = q.view(n, kv_heads, group, dh).permute(1, 2, 0, 3).reshape(kv_heads, group * n, dh)
        out, lse = partial(rows, past_k, past_v, causal=False)
        own = merge(own, (out.reshape(heads, n, dh), lse.reshape(heads, n)))
    return own[0].transpose(0, 1).reshape(n, heads * dh)


def attend_window(q: Tensor, k: Tensor, v: Tensor, window: int) -> Tensor:
    """Attention of a chunk where each token sees itself and the `window` - 1 before it.

    q [n, heads, dh]; k and v [kv_heads, m, dh], the chunk's own last; gives [n, heads · dh].
    """
    n, heads, dh = q.shape
    kv_heads, m, _ = k.shape
    key = torch.arange(m, device=q.device)
    query = torch.arange(m - n, m, device=q.device)[:, None]
    seen = (key <= query) & (key > query - window)
    k, v = (x.repeat_interleave(heads // kv_heads, 0)[None] for x in (k, v))
    out = F.scaled_dot_product_attention(q.transpose(0, 1)[None], k, v, attn_mask=seen)
    return out[0].transpose(0, 1).reshape(n, heads * dh)


def attend_one(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention of one token: q [heads, dh], k and v [kv_heads, length, dh]. Returns [heads · dh]."""
    kv_heads, _, dh = k.shape
    rows = q.view(kv_heads, -1, dh) * dh**-0.5
    weights = torch.softmax(torch.bmm(rows, k.transpose(1, 2)), dim=-1, dtype=torch.float32)
    return torch.bmm(weights.to(v.dtype), v).view(-1)


def partial(q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> Partial:
    """Attention of q [heads, n, dh] over k and v [heads, m, dh] alone."""
    if q.device.type == "cpu":
        out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            q[None], k[None], v[None], 0.0, causal
        )
        return out[0], lse[0]
    scores = torch.matmul(q, k.transpose(1, 2)).float() * q.shape[-1] ** -0.5
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    return torch.matmul(scores.softmax(-1).to(v.dtype), v), scores.logsumexp(-1)


def attend_places(q: Tensor, k: Tensor, v: Tensor, places: Tensor, stop: int, window: int) -> Tensor:
    """The same over keys at any `places`, [m], in any order; q [n, heads, dh] stands at the n before `stop`."""
    n, heads, dh = q.shape
    query = torch.arange(stop - n, stop, device=q.device)[:, None]
    near = (places > stop - n - window).nonzero()[:, 0]
    k, v, places = k[:, near], v[:, near], places[near]
    seen = (places <= query) & (places > query - window)
    k, v = (each.repeat_interleave(heads // len(k), 0)[None] for each in (k, v))
    out = F.scaled_dot_product_attention(q.transpose(0, 1)[None], k, v, attn_mask=seen)
    return out[0].transpose(0, 1).reshape(n, heads * dh)


def merge(a: Partial, b: Partial) -> Partial:
    """Two partial attentions over disjoint keys as one. A side over no key (log-sum-exp −∞) counts nothing."""
    (out_a, lse_a), (out_b, lse_b) = a, b
    lse = torch.logaddexp(lse_a, lse_b)
    share_a = torch.exp(lse_a - lse).nan_to_num_(0.0).unsqueeze(-1)
    share_b = torch.exp(lse_b - lse).nan_to_num_(0.0).unsqueeze(-1)
    return (out_a * share_a + out_b * share_b).to(out_a.dtype), lse
