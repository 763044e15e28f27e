"""What an answer says beside its values: "the answer is", "I don't know", "not X", in English and Chinese.

All patterns are for folded text (`bunny_probe.scores.text.fold`).
"""

from __future__ import annotations

import re

from bunny_probe.scores.text import LETTER

__all__ = ["CONFLICT", "abstains", "denied", "final_cues", "only_joins"]

_FINAL = re.compile(
    r"final answer|(?:correct|right) (?:answer|code|value) is|\banswer is|\banswer\**\s*[:=]"
    r"|\bfinally\b|\bin the end\b|\bended up\b|\b(?:is|are) now\b|\bcurrently\b|最终|最后|现在是|目前"
    r"|\b(?:therefore|thus|hence)\b|[,.;]\s+so\b"
    r"|-+>|→|in conclusion|\bwait\b|\bcorrection\b|\bsorry\b|\bactually\b|\bi mean\b|\brather,"
    r"|最终答案|答案[是为]?|正确的是|所以|因此|综上|更正|不对|应该是|应为"
)
_ABSTAIN = re.compile(
    r"\b(?:i|we) (?:do not|don't|cannot|can't|could not|couldn't|am not able|am unable|was unable)\b"
    r"(?: to)? ?(?:know|find|see|locate|determine|tell|answer|identify|provide|say|access|have|help|assist)"
    r"|\bi'm (?:not sure|sorry|unable|not able)|\bi am (?:not sure|sorry)|\b(?:unknown|undisclosed|n/a)\b"
    r"|(?:\bnot|n't) (?:explicitly |directly |clearly |been |be )?(?:mentioned|specified|stated|provided|given"
    r"|listed|available|found|included|disclosed|present|contained|in the (?:text|document|passage|note))\b"
    r"|\bno (?:information|mention|answer|such|record|code|data|value|entry)\b"
    r"|\b(?:does not|doesn't) (?:mention|say|state|specify|contain|provide|include|give|appear|list)"
    r"|\bnone\b(?! of)|\b(?:cannot|can't) be determined\b|\bimpossible to (?:say|tell|know)"
    r"|不知道|不清楚|不确定|无法|没有(?:提到|提及|说明|给出|找到|写|相关|这|该|任何|记载|注明)"
    r"|未(?:提及|提到|说明|给出|找到|注明|知|载|提供)|找不到|抱歉|没提|^\W*(?:无|没有)\W*$"
)
_DENIAL = re.compile(
    r"(?:\bnot\b|n't\b|\bneither\b|\bnor\b|\brather than\b|\binstead of\b|\bunlike\b"
    r"|不是|并非|而非|不再是|不为)"
    r"[\s\W]*(?:(?:the|a|an|be|is|was|code|value|number|answer|it)\s+){0,3}\W{0,4}$"
)
_LATER_DENIAL = re.compile(
    r"^[\s\"'*)]{0,4}(?:is|was) (?:not\b(?! only)|wrong\b|incorrect\b)"
    r"|^[\s\"'*)]{0,4}(?:不对|不是(?:答案|正确)|是错的|错误)"
)
_LEFT = re.compile(r"\bfrom (?:the |a |an )?\W{0,3}$|从\W{0,3}$")  # "moved from X to Y": not X
_LEFT_FOR = re.compile(r"^\W{0,3}(?:to|into)\b|^\W{0,3}(?:移|搬|转|改|换|变)?[到至成为]")
_JOINING = re.compile(
    rf"(?:[^\w.!?。!?]|_|[.。]\n|\d{{1,2}}[.)]?(?!{LETTER})|\b(?:and|or|also|then|either|possibly|maybe|perhaps|both)\b"
    r"|\b(?:could|might) be\b"
    r"|或者?|和|以及|及|还有|可能是?|也许是?|[a-z](?=\)))*"
)
CONFLICT = re.compile(
    r"\b(?:conflict|contradict|inconsisten|ambigu|discrepan|differ|unclear which)"
    r"|\bboth (?:clauses|statements|values|figures)"
    r"|冲突|矛盾|不一致|相互抵触|不相符|有出入|不统一|两种说法|两处"
)
_WINDOW = 48  # characters looked at around a value


def final_cues(folded: str) -> list[int]:
    """Where the text announces its conclusion or corrects itself: the ends of the announcing words."""
    return [match.end() for match in _FINAL.finditer(folded)]


def abstains(folded: str) -> str | None:
    """The words that say "I do not know" or "it is not there", or None."""
    match = _ABSTAIN.search(folded)
    return match[0].strip() if match and match[0].strip() else None


def denied(folded: str, start: int, end: int) -> bool:
    """Whether the value at [start, end) is named only to say that it is not the answer."""
    before = folded[max(0, start - _WINDOW) : start]
    behind = folded[end : end + _WINDOW]
    if _LEFT.search(before) and _LEFT_FOR.search(behind):
        return True
    return bool(_DENIAL.search(before) or _LATER_DENIAL.search(behind))


def only_joins(between: str) -> bool:
    """Whether the text between two values only lists them: commas, bullets, numbers, "and", "or"."""
    return len(between) <= _WINDOW and _JOINING.fullmatch(between) is not None
