"""Anchor hits, wrong anchors, hedges and abstentions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged import judged

from bunny_probe.records import Anchor

RIGHT, SOUTH, EAST = "QX-4471", "ZP-9921", "KM-3310"
PLANTED = (
    Anchor("north vault", RIGHT, "", 0.1, asked=True),
    Anchor("south vault", SOUTH, "", 0.5),
    Anchor("east gate", EAST, "", 0.9),
)


@pytest.mark.parametrize(
    "text",
    [
        "QX-4471",
        "**qx‑4471**",
        '{"code": "QX-4471"}',
        '```json\n{"code": "QX-4471"}\n```',
        "The code is QX 4471.",
        "ＱＸ－４４７１",
        "Q X 4 4 7 1",
        "Q\u200bX\u200b-44\u202e71",
        "`QX_4471`",
        "It is not ZP-9921 but QX-4471",
        "ZP-9921? No wait, QX-4471",
        "The south vault is ZP-9921. The north vault is QX-4471.",
        "ZP-9921 is for the south vault; the north vault is QX-4471",
        "QX-4471\n\nThe south vault code is ZP-9921.",
        "Question: what is the north vault code?\nAnswer: QX-4471\n\nQuestion: south vault?\nAnswer: ZP-9921",
        "<think>ZP-9921 or KM-3310?</think>QX-4471",
        "答案是QX-4471。",
        "北库的代码为QX-4471,不是ZP-9921",
        "I'm not sure, but the north vault has QX-4471.",
        "The south vault is ZP-9921 and the north vault is QX-4471.",
        "The south vault has ZP-9921, the north vault has QX-4471, the east gate has KM-3310.",
        "ZP-9921 (south vault), KM-3310 (east gate), QX-4471 (north vault)",
        "It was changed from ZP-9921 to QX-4471.",
        "ZP-9921 -> KM-3310 -> QX-4471",
    ],
)
def test_right_value_is_a_hit_however_it_is_dressed(text: str) -> None:
    """The accepted value counts in quotes, JSON, full width, split, corrected, or followed by more."""
    result = judged("anchor", text, [RIGHT], [SOUTH, EAST], PLANTED)
    assert (result.label, result.value) == ("hit", 1.0), result.reason


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("ZP-9921", "wrong_anchor"),
        ("The north vault code is ZP-9921.", "wrong_anchor"),
        ("The code is ZP-9921. QX-4471 is the code of something else.", "wrong_anchor"),
        ("QX-44712", "miss"),
        ("QX-4471-B", "miss"),
        ("AQX-4471", "miss"),
        ("Not QX-4471.", "miss"),
        ("QX-4471, ZP-9921, KM-3310", "miss"),
        ("1. QX-4471\n2. ZP-9921\n3. KM-3310", "miss"),
        ("QX-4471 or ZP-9921", "miss"),
        ("QX-4471、ZP-9921和KM-3310", "miss"),
        ("I don't know.", "abstain"),
        ("The document does not mention it.", "abstain"),
        ("我不知道", "abstain"),
        ("The south vault is ZP-9921, but I cannot tell the code of the north vault.", "abstain"),
        ("The south vault is QX-4471 and the north vault is ZP-9921.", "wrong_anchor"),
        ("文中没有提到。", "abstain"),
        ("Hello there", "miss"),
        ("...", "miss"),
    ],
)
def test_what_is_no_hit_is_told_apart(text: str, label: str) -> None:
    """Wrong anchors, near values, lists of all codes, denials and abstentions each have their own label."""
    result = judged("anchor", text, [RIGHT], [SOUTH, EAST], PLANTED)
    assert (result.label, result.value) == (label, 0.0), result.reason
    assert result.reason


def test_recital_of_the_document_is_no_answer() -> None:
    """Reading out every labelled code before the asked one does not choose."""
    others = [Anchor(f"vault {word}", f"XY-10{i}1", "", 0.5) for i, word in enumerate(("red", "blue", "tan"))]
    text = " ".join(f"The code of {anchor.key} is {anchor.value}." for anchor in others)
    planted = (*others, Anchor("vault green", RIGHT, "", 0.1, asked=True))
    wrong = [anchor.value for anchor in others]
    result = judged("anchor", f"{text} The code of vault green is {RIGHT}.", [RIGHT], wrong, planted)
    assert (result.label, result.details.get("hedged")) == ("miss", True)


def test_chinese_values_need_no_word_border() -> None:
    """Words of an unspaced script are found inside running text, the longest first."""
    assert judged("anchor", "会议地点是青石会议室。", ["青石会议室"], ["白石会议室"]).label == "hit"
    assert judged("anchor", "地点在北京西站", ["北京"], ["北京西站"]).label == "wrong_anchor"


@given(
    st.text(alphabet="ABCDEFGHJK23456789", min_size=5, max_size=12).filter(lambda v: any(map(str.isdigit, v))),
    st.sampled_from(
        ["The code is {}.", "**{}**", '"{}"', "代码是{}。", "{}\n\nanything else?", "\u200b{}\u200f"]
    ),
)
@settings(deadline=None)
def test_any_code_is_found_in_any_frame(code: str, frame: str) -> None:
    """A code given plainly is a hit, and a code one letter longer is not."""
    assert judged("anchor", frame.format(code), [code]).label == "hit"
    assert judged("anchor", frame.format(code + "Z"), [code]).label != "hit"
