"""Triton kernels of decode: one token of each of several sequences against their dense and their stored memory.

Split-K (flash decoding): a program takes one key-value head of one sequence and one piece of its context,
reads that piece once, and leaves a partial output with its log-sum-exp. Stored blocks are dequantised, turned
by RoPE, scored, weighed and summed in that one pass; nothing rebuilt is ever written.

Memories lie wherever they were allocated: a program finds its piece by address, from a table on the device. So
one launch serves any mix of sequences, and the same launch can be replayed from a CUDA graph.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["append", "attend_dense", "attend_stored"]


@triton.jit
def _at(address, kind: tl.constexpr):
    """A pointer of a kind. Every allocation is aligned; said so, whole words are read."""
    return tl.multiple_of(address.to(kind), 16)


@triton.jit
def append(keys, values, k_at, v_at, rooms, lengths, live, layer, KV_HEADS: tl.constexpr, DH: tl.constexpr):
    """Write each live sequence's new key and value behind its dense ones. Grid: (kv_heads, sequences)."""
    head, seq = tl.program_id(0), tl.program_id(1)
    if tl.load(live + seq) != 0:
        channel = tl.arange(0, DH)
        room, length = tl.load(rooms + seq), tl.load(lengths + seq)
        target = ((layer * KV_HEADS + head).to(tl.int64) * room + length) * DH + channel
        source = (seq * KV_HEADS + head) * DH + channel
        k_base = tl.load(k_at + seq).to(tl.pointer_type(keys.dtype.element_ty))
        v_base = tl.load(v_at + seq).to(tl.pointer_type(values.dtype.element_ty))
        tl.store(k_base + target, tl.load(keys + source))
        tl.store(v_base + target, tl.load(values + source))


@triton.jit
def attend_dense(
    q, out, lse, k_at, v_at, rooms, lengths, live, layer, scale,
    KV_HEADS: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr, DH: tl.constexpr,
    TILE: tl.constexpr, SPLIT: tl.constexpr, PARTS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Attention to the dense keys, those just appended included. Grid: (splits, kv_heads, sequences).

    `SPLIT` tokens a program, a multiple of `TILE`; `PARTS` is the extent of `out` and `lse` along pieces.
    """
    part, head, seq = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    row, channel, token = tl.arange(0, ROWS), tl.arange(0, DH), tl.arange(0, TILE)
    mine = row < GROUP
    place = (seq * KV_HEADS + head) * GROUP + row
    top = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    found = tl.zeros((ROWS, DH), tl.float32)
    if tl.load(live + seq) != 0:
        room, length = tl.load(rooms + seq), tl.load(lengths + seq) + 1
        query = tl.load(q + place[:, None] * DH + channel[None, :], mask=mine[:, None], other=0.0)
        base = (layer * KV_HEADS + head).to(tl.int64) * room * DH
        k_base = _at(tl.load(k_at + seq), tl.pointer_type(q.dtype.element_ty)) + base
        v_base = _at(tl.load(v_at + seq), tl.pointer_type(q.dtype.element_ty)) + base
        for first in range(part * SPLIT, tl.minimum((part + 1) * SPLIT, length), TILE):
            at = first + token
            there = at < length
            # What lies behind the last token was never written and may be anything, NaN too: it is not loaded.
            key = tl.load(k_base + at[:, None] * DH + channel[None, :], mask=there[:, None], other=0.0)
            value = tl.load(v_base + at[:, None] * DH + channel[None, :], mask=there[:, None], other=0.0)
            score = tl.dot(query, tl.trans(key), input_precision=PRECISION) * scale
            score = tl.where(there[None, :], score, float("-inf"))
            highest = tl.maximum(top, tl.max(score, 1))
            weight = tl.exp(score - highest[:, None])
            fade = tl.exp(top - highest)
            total = total * fade + tl.sum(weight, 1)
            found = found * fade[:, None] + tl.dot(weight.to(value.dtype), value, input_precision=PRECISION)
            top = highest
    empty = total == 0.0
    result = found / tl.where(empty, 1.0, total)[:, None]
    tl.store(out + (place[:, None] * PARTS + part) * DH + channel[None, :], result, mask=mine[:, None])
    tl.store(lse + place * PARTS + part, tl.where(empty, float("-inf"), top + tl.log(total)), mask=mine)


@triton.jit
def _codes(plane, line, column, HALF: tl.constexpr, BITS: tl.constexpr):
    """Codes of some tokens' even and odd channels, as float32, from a plane's address."""
    if BITS == 4:  # a byte holds both: the even channel in its lower half
        both = tl.load(_at(plane, tl.pointer_type(tl.uint8)) + line[:, None] * HALF + column[None, :])
        even, odd = (both & 15).to(tl.float32), (both >> 4).to(tl.float32)
    else:
        kind: tl.constexpr = tl.float16 if BITS == 16 else tl.uint8
        at = _at(plane, tl.pointer_type(kind)) + line[:, None] * (2 * HALF) + 2 * column[None, :]
        even, odd = tl.load(at).to(tl.float32), tl.load(at + 1).to(tl.float32)
    return even, odd


@triton.jit
def _shared_codes(four, two, line, column, HALF: tl.constexpr):
    """The same of keys in 4 bits on average: 2 for the quarter of pairs that RoPE turns fastest, 6 for the
    slowest; see `memory_codes`. `four` holds codes of 4 bits and the upper bits of those of 6, `two` the rest.
    """
    FAST: tl.constexpr = HALF // 4
    fast, slow = column < FAST, column >= HALF - FAST
    at = _at(four, tl.pointer_type(tl.uint8)) + line[:, None] * (HALF - FAST) + (column - FAST)[None, :]
    both = tl.load(at, mask=(column >= FAST)[None, :], other=0).to(tl.int32)
    pair = tl.where(fast, column, column - (HALF - 2 * FAST))  # in the plane of 2 bits, where there is one
    at = _at(two, tl.pointer_type(tl.uint8)) + line[:, None] * FAST + (pair // 2)[None, :]
    rest = tl.load(at, mask=(fast | slow)[None, :], other=0).to(tl.int32) >> (4 * (pair % 2))[None, :]
    times = tl.where(slow, 4, 1)[None, :]
    even, odd = (both & 15) * times + (rest & 3), (both >> 4) * times + ((rest >> 2) & 3)
    return even.to(tl.float32), odd.to(tl.float32)


@triton.jit
def attend_stored(
    q, out, lse, table, starts, counts, cos, sin, layer, scale,
    KV_HEADS: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr, HALF: tl.constexpr,
    BLOCK: tl.constexpr, BITS: tl.constexpr, V_GROUPS: tl.constexpr, MOST: tl.constexpr,
    FIRST: tl.constexpr, PARTS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Attention to one sealed block of keys before RoPE and values. Grid: (blocks, kv_heads, sequences).

    `table` [sequences, MOST, 7]: addresses of K's codes (two planes in 4 bits), scales and least values, then
    of V's; `starts` the position of each block's first token, `counts` how many blocks a sequence has. The
    pieces are `FIRST` on. a and b are the two channels that RoPE turns together, even and odd those that are
    stored side by side: in keys both are the same, in values they are not.
    """
    part, head, seq = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    DH: tl.constexpr = 2 * HALF
    TILE: tl.constexpr = 64  # the tokens of K that share a scale
    row, half, token = tl.arange(0, ROWS), tl.arange(0, HALF), tl.arange(0, TILE)
    mine = row < GROUP
    place = (seq * KV_HEADS + head) * GROUP + row
    top = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    found_even = tl.zeros((ROWS, HALF), tl.float32)
    found_odd = tl.zeros((ROWS, HALF), tl.float32)
    if part < tl.load(counts + seq):
        entry = table + (seq * MOST + part) * 7
        scales = entry + (2 if BITS == 4 else 1)  # of keys, their least values, then what values have
        start = tl.load(starts + seq * MOST + part)
        line = (layer * KV_HEADS + head).to(tl.int64) * BLOCK
        query_a = tl.load(q + place[:, None] * DH + half[None, :], mask=mine[:, None], other=0.0)
        query_b = tl.load(q + place[:, None] * DH + HALF + half[None, :], mask=mine[:, None], other=0.0)
        for first in range(0, BLOCK, TILE):
            at = line + first + token
            if BITS == 4:
                key_a, key_b = _shared_codes(tl.load(entry), tl.load(entry + 1), at, half, HALF)
            else:
                key_a, key_b = _codes(tl.load(entry), at, half, HALF, BITS)
            even, odd = _codes(tl.load(scales + 2), at, half, HALF, BITS)
            if BITS != 16:
                k_group = ((line + first) // TILE) * DH + 2 * half
                k_scale = _at(tl.load(scales), tl.pointer_type(tl.float16)) + k_group
                k_low = _at(tl.load(scales + 1), tl.pointer_type(tl.float16)) + k_group
                key_a = (
                    key_a * tl.load(k_scale).to(tl.float32)[None, :] + tl.load(k_low).to(tl.float32)[None, :]
                )
                key_b = (
                    key_b * tl.load(k_scale + 1).to(tl.float32)[None, :]
                    + tl.load(k_low + 1).to(tl.float32)[None, :]
                )
                v_group = at[:, None] * V_GROUPS + (half // (HALF // V_GROUPS))[None, :]
                v_scale = tl.load(_at(tl.load(scales + 3), tl.pointer_type(tl.float16)) + v_group).to(
                    tl.float32
                )
                v_low = tl.load(_at(tl.load(scales + 4), tl.pointer_type(tl.float16)) + v_group).to(tl.float32)
                even, odd = even * v_scale + v_low, odd * v_scale + v_low
            angle = (start + first + token)[:, None] * HALF + half[None, :]
            c, s = tl.load(cos + angle), tl.load(sin + angle)  # float32: bf16 is noise past position 256
            turned_a = (key_a * c - key_b * s).to(query_a.dtype)
            turned_b = (key_b * c + key_a * s).to(query_a.dtype)
            score = tl.dot(query_a, tl.trans(turned_a), input_precision=PRECISION)
            score += tl.dot(query_b, tl.trans(turned_b), input_precision=PRECISION)
            score = score * scale
            highest = tl.maximum(top, tl.max(score, 1))
            weight = tl.exp(score - highest[:, None])
            fade = tl.exp(top - highest)
            total = total * fade + tl.sum(weight, 1)
            weight = weight.to(query_a.dtype)
            found_even = found_even * fade[:, None]
            found_even += tl.dot(weight, even.to(query_a.dtype), input_precision=PRECISION)
            found_odd = found_odd * fade[:, None]
            found_odd += tl.dot(weight, odd.to(query_a.dtype), input_precision=PRECISION)
            top = highest
    empty = total == 0.0
    share = tl.where(empty, 1.0, total)[:, None]
    target = out + (place[:, None] * PARTS + FIRST + part) * DH + 2 * half[None, :]
    tl.store(target, found_even / share, mask=mine[:, None])
    tl.store(target + 1, found_odd / share, mask=mine[:, None])
    tl.store(lse + place * PARTS + FIRST + part, tl.where(empty, float("-inf"), top + tl.log(total)), mask=mine)
